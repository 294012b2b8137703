package wire

import (
	"encoding/binary"

	"github.com/klamm-mq/klamm/internal/invariant"
)

const (
	// headerRoom is kept free before the first byte of a response: frame size,
	// correlation id and, in header version 1, the count of tagged fields.
	headerRoom = 4 + 4 + 1

	// firstResponseSize is the size of a response's buffer where nothing is known about
	// its kind; maxSizeHint bounds what an earlier answer of the same kind may suggest.
	firstResponseSize = 1 << 10
	maxSizeHint       = 1 << 20
)

// Response is the encoded body of one answer: runs of bytes with regions between them,
// in the order in which they were added. The connection writes frame size and response
// header in front.
//
// A Response belongs to one goroutine at a time. Who makes it either returns it in an
// [Outcome] or calls [Response.Release].
type Response struct {
	pool    *Buffers
	buf     *buffer
	used    int // end of the bytes in buf; they begin at headerRoom
	regions []placedRegion
	regionN int // bytes in all regions
	key     int16
}

// placedRegion is a region that goes out before the byte buf[at].
type placedRegion struct {
	at     int
	region Region
}

// NewResponse makes an empty response with buffers from pool.
func NewResponse(pool *Buffers) *Response { return newResponse(pool, -1) }

// newResponse sizes the buffer by the last answer to the same API key.
func newResponse(pool *Buffers, key int16) *Response {
	r := pool.responses.Get().(*Response)
	r.pool, r.key, r.used = pool, key, headerRoom
	r.buf = pool.get(pool.hint(key))
	return r
}

// Append lets fn append bytes. It has the shape of kmsg's AppendTo:
//
//	resp.Append(body.AppendTo)
func (r *Response) Append(fn func(dst []byte) []byte) {
	before := r.buf.b[:r.used]
	after := fn(before)
	invariant.Check(len(after) >= r.used, "response shrank from %d to %d bytes", r.used, len(after))
	if &after[0] != &before[0] {
		r.pool.put(r.buf)
		r.buf = adopt(after)
		if len(r.buf.b) < len(after) { // the slice fills no class
			r.buf = &buffer{b: after, class: -1}
		}
	}
	r.used = len(after)
}

// Grow makes room for n more bytes, so that an Append of that size copies nothing.
func (r *Response) Grow(n int) {
	if r.used+n <= len(r.buf.b) {
		return
	}
	grown := r.pool.get(r.used + n)
	copy(grown.b, r.buf.b[:r.used])
	r.pool.put(r.buf)
	r.buf = grown
}

// AddRegion places a region after everything added so far and takes over one reference
// to it, which is released when the response has been sent or dropped.
func (r *Response) AddRegion(region Region) {
	r.regions = append(r.regions, placedRegion{at: r.used, region: region})
	r.regionN += region.Len()
}

// Len is the number of bytes in the body, regions included.
func (r *Response) Len() int { return r.used - headerRoom + r.regionN }

// Release drops a response that is not returned in an Outcome. It must not be used afterwards.
func (r *Response) Release() {
	for i := range r.regions {
		r.regions[i].region.Release()
		r.regions[i].region = nil
	}
	pool := r.pool
	pool.put(r.buf)
	*r = Response{regions: r.regions[:0]}
	pool.responses.Put(r)
}

// seal writes frame size and header for req in front of the body and returns where the
// frame begins in buf.
func (r *Response) seal(correlationID int32, flexible bool) (start int) {
	start = headerRoom - 8
	if flexible {
		start--
		r.buf.b[headerRoom-1] = 0 // no tagged fields
	}
	r.pool.remember(r.key, r.used)
	binary.BigEndian.PutUint32(r.buf.b[start:], uint32(r.Len()+headerRoom-start-4))
	binary.BigEndian.PutUint32(r.buf.b[start+4:], uint32(correlationID))
	return start
}

// hint is how large the buffer of the next answer of a kind should be.
func (b *Buffers) hint(key int16) int {
	if key < 0 || int(key) >= len(b.hints) {
		return firstResponseSize
	}
	return max(firstResponseSize, int(b.hints[key].Load()))
}

// remember notes the size of an answer of a kind; it falls slowly after a large one.
func (b *Buffers) remember(key int16, size int) {
	if key < 0 || int(key) >= len(b.hints) {
		return
	}
	hint := &b.hints[key]
	if last := int(hint.Load()); size > last || size < last/2 {
		hint.Store(int32(min(max(size, last-last/8), maxSizeHint)))
	}
}
