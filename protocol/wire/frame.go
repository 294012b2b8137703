package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/klamm-mq/klamm/internal/invariant"
)

const (
	sizePrefix = 4

	// readSize is the buffer into which is read where a frame may begin: a few small
	// requests, or one producer's batch of the default 16 KiB with what surrounds it.
	// It is larger where the last frame was (frameReader.wanted).
	readSize = 64 << 10

	// smallFrame is the size up to which frames need no reservation of memory, so that
	// heartbeats, metadata and acknowledgements go on while large frames wait for it.
	// They are bounded by the number of connections.
	smallFrame = 16 << 10

	// firstStep is what a large frame gets before its bytes have arrived; then it gets
	// the rest at once. So frames that wait for memory hold little of it: were it given
	// in many steps, all of them could hold so much that none can be completed. Who asks
	// for much and does not send it is found when others starve (budget.starved).
	firstStep = 256 << 10
)

// FrameSizeError says that a frame's size is not positive or above the limit.
type FrameSizeError struct {
	Size, Max int32
}

func (e *FrameSizeError) Error() string {
	begin := e.begin()
	switch {
	case e.isTLS():
		return "the client speaks TLS, and this listener does not: security.protocol of the client and listener.security.protocol.map differ"
	case e.isText():
		return fmt.Sprintf("the client does not speak Kafka's protocol, it begins with %q: is it meant for another port?", begin[:])
	}
	return fmt.Sprintf("frame of %d bytes, want 1 to %d", e.Size, e.Max)
}

// begin is what was taken for the size.
func (e *FrameSizeError) begin() (p [sizePrefix]byte) {
	binary.BigEndian.PutUint32(p[:], uint32(e.Size))
	return p
}

// isTLS knows the first bytes of a handshake: its type and a version 3.x.
func (e *FrameSizeError) isTLS() bool {
	const handshake, major = 0x16, 0x03
	p := e.begin()
	return p[0] == handshake && p[1] == major
}

// isText knows protocols that begin with letters, such as HTTP.
func (e *FrameSizeError) isText() bool {
	for _, c := range e.begin() {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// errMemory ends a connection that waited too long for the rest of a frame's memory.
var errMemory = errors.New("no memory for the rest of a frame")

// frame is the reference-counted content of one frame without its size.
type frame struct {
	pool     *Buffers
	buf      *buffer
	at       int // where it begins in buf
	size     int
	refs     atomic.Int32
	budget   *budget
	reserved int64
}

// hold gives the frame a buffer and its first reference.
func (f *frame) hold(pool *Buffers, buf *buffer, b *budget) {
	f.pool, f.buf, f.budget = pool, buf, b
	f.refs.Store(1)
}

func (f *frame) bytes() []byte { return f.buf.b[f.at : f.at+f.size : f.at+f.size] }

func (f *frame) retain() {
	invariant.Check(f.refs.Add(1) > 1, "frame retained after its release")
}

func (f *frame) release() {
	refs := f.refs.Add(-1)
	invariant.Check(refs >= 0, "frame released %d times too often", -refs)
	if refs > 0 {
		return
	}
	f.pool.put(f.buf)
	f.buf = nil
	f.unreserve()
}

// reserve raises the frame's reservation to n bytes.
func (f *frame) reserve(ctx context.Context, n int) error {
	if f.budget == nil {
		return nil
	}
	more := f.budget.counts(n) - f.reserved
	if more <= 0 {
		return nil
	}
	if err := f.budget.acquire(ctx, more, f.reserved > 0); err != nil {
		return err
	}
	f.reserved += more
	return nil
}

func (f *frame) unreserve() {
	if f.reserved > 0 {
		f.budget.release(f.reserved)
		f.reserved = 0
	}
}

// frameReader cuts a connection's bytes into frames. It holds no buffer while it waits
// for the first byte of one, and only what has arrived while it waits for the rest.
type frameReader struct {
	conn   net.Conn
	first  firstReader
	pool   *Buffers
	budget *budget
	watch  *watch
	max    *atomic.Int32

	over     *buffer // read but not handed out: over.b[r:w]; nil if nothing is
	r, w     int
	last     int       // size of the last frame
	lastRead time.Time // when the last bytes arrived
}

// firstReader waits until a connection has something to read, and reads it.
type firstReader interface {
	// read returns a pooled buffer with n bytes from sizePrefix on, at most want. It holds
	// no buffer while it waits.
	read(pool *Buffers, want int) (buf *buffer, n int, err error)
	// readsAhead reports whether read leaves bytes that have arrived unread.
	readsAhead() bool
}

// await waits until the size of the next frame is there, and then for what may be in the way
// of its content, which stays with the client.
func (fr *frameReader) await(unmuted func() error) error {
	if err := fr.fillHead(); err != nil {
		return err
	}
	return unmuted()
}

// next reads one frame into f, which the caller releases. At the end of the stream it
// returns io.EOF between frames and io.ErrUnexpectedEOF within one.
func (fr *frameReader) next(ctx context.Context, f *frame) error {
	if err := fr.fillHead(); err != nil {
		return err
	}
	size := int32(binary.BigEndian.Uint32(fr.over.b[fr.r:]))
	if limit := fr.max.Load(); size <= 0 || size > limit {
		return &FrameSizeError{Size: size, Max: limit}
	}
	fr.r += sizePrefix
	f.size, fr.last = int(size), int(size)
	if fr.first.readsAhead() {
		if err := fr.fillAhead(f.size); err != nil {
			return err
		}
	}
	err := fr.readBody(ctx, f)
	fr.watch.holds.clear()
	if err != nil {
		f.unreserve()
		return err
	}
	fr.watch.frame.clear()
	return nil
}

// buffered reports whether a further complete frame has been read already.
func (fr *frameReader) buffered() bool {
	have := fr.w - fr.r - sizePrefix
	return have > 0 && int64(have) >= int64(binary.BigEndian.Uint32(fr.over.b[fr.r:]))
}

// firstByte waits for a frame to begin and returns its first byte without consuming it.
func (fr *frameReader) firstByte() (byte, error) {
	if fr.w == fr.r {
		if err := fr.refill(0); err != nil {
			return 0, err
		}
	}
	return fr.over.b[fr.r], nil
}

// rest gives away what was read and not consumed.
func (fr *frameReader) rest() []byte {
	if fr.over == nil {
		return nil
	}
	p := append([]byte(nil), fr.over.b[fr.r:fr.w]...)
	fr.dropOver()
	return p
}

// fillHead waits until the size of the next frame is there.
func (fr *frameReader) fillHead() error {
	for fr.w-fr.r < sizePrefix {
		if err := fr.refill(fr.w - fr.r); err != nil {
			return err
		}
	}
	return nil
}

// refill waits for more where fewer than sizePrefix bytes, have of them, are there.
func (fr *frameReader) refill(have int) error {
	var head [sizePrefix]byte
	if have > 0 {
		copy(head[:], fr.over.b[fr.r:fr.w])
		fr.watch.frame.set(fr.watch.now())
	} else {
		fr.watch.idle.set(fr.watch.now())
	}
	fr.dropOver()
	buf, n, err := fr.first.read(fr.pool, fr.wanted())
	fr.watch.idle.clear()
	if err != nil {
		return cutShort(err, have > 0)
	}
	fr.lastRead = time.Now()
	fr.over, fr.r, fr.w = buf, sizePrefix-have, sizePrefix+n
	copy(buf.b[fr.r:], head[:have])
	return nil
}

// wanted is how much to read where a frame may begin. Who sends large ones sends many of the
// same size: all of one is read at once, into the buffer that it then keeps. Not where memory
// is short: it would be more than what was read into, before it is reserved.
func (fr *frameReader) wanted() int {
	n := sizePrefix + fr.last
	if n <= readSize-sizePrefix || n > firstStep-sizePrefix || fr.budget.isShort() {
		return readSize - sizePrefix
	}
	return n
}

// cutShort turns an end of stream within a frame into io.ErrUnexpectedEOF.
func cutShort(err error, within bool) error {
	if within && errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// fillAhead reads on into the read buffer until a frame that fits there is complete, and
// so may read the beginning of the next ones.
func (fr *frameReader) fillAhead(size int) error {
	if size > readSize-sizePrefix {
		return nil
	}
	for fr.w-fr.r < size {
		fr.watch.frame.set(fr.watch.now())
		if len(fr.over.b) < readSize || fr.r+size > readSize {
			fr.moveOver(readSize)
		}
		n, err := fr.conn.Read(fr.over.b[fr.w:])
		fr.w += n
		if n == 0 && err != nil {
			return cutShort(err, true)
		}
		fr.lastRead = time.Now()
	}
	return nil
}

// readBody fills f from what was read already and then straight from the connection.
func (fr *frameReader) readBody(ctx context.Context, f *frame) error {
	if f.size > smallFrame {
		f.budget = fr.budget
	}
	have := min(fr.w-fr.r, f.size)
	step := f.size
	if have < f.size {
		step = min(f.size, firstStep)
	}
	if err := fr.reserve(ctx, f, step); err != nil {
		return err
	}
	buf, err := fr.readRest(ctx, f, fr.begin(f, have, step), have, step)
	if err != nil {
		fr.pool.put(buf)
		return err
	}
	f.hold(fr.pool, buf, f.budget)
	return nil
}

// begin returns the buffer of a frame, with room for step bytes, of which have are there: the
// one that they were read into, if the frame fits there and fills most of it.
func (fr *frameReader) begin(f *frame, have, step int) *buffer {
	if room := len(fr.over.b); fr.r+f.size <= room && f.size >= room-room/4 {
		f.at = fr.r
		return fr.giveOver(fr.r + have)
	}
	buf := fr.pool.get(step)
	fr.r += copy(buf.b, fr.over.b[fr.r:fr.r+have])
	fr.shrinkOver()
	return buf
}

// readRest reads until the frame, of which have bytes are in buf, is complete. It
// returns the buffer that holds it, or the one to be given back.
func (fr *frameReader) readRest(ctx context.Context, f *frame, buf *buffer, have, step int) (*buffer, error) {
	for have < f.size {
		if have == step {
			step = f.size
			if err := fr.reserve(ctx, f, step); err != nil {
				return buf, err
			}
			larger := fr.pool.get(step)
			copy(larger.b, buf.b[:have]) // f.at is 0: the frame was not begun where it was read
			fr.pool.put(buf)
			buf = larger
		}
		fr.watch.frame.set(fr.watch.now())
		n, err := fr.conn.Read(buf.b[f.at+have : f.at+step])
		have += n
		if n == 0 && err != nil {
			return buf, cutShort(err, true)
		}
		fr.lastRead = time.Now()
	}
	return buf, nil
}

// reserve waits for memory; meanwhile the client is not the one who is slow.
func (fr *frameReader) reserve(ctx context.Context, f *frame, n int) error {
	fr.watch.frame.clear()
	first := f.reserved == 0
	if err := f.reserve(ctx, n); err != nil {
		return err
	}
	if first && f.reserved > 0 {
		fr.watch.holds.set(fr.watch.now())
	}
	return nil
}

// shrinkOver moves a small rest to a buffer of its size, so that a client that sends a
// byte too many while its request waits does not hold a large one.
func (fr *frameReader) shrinkOver() {
	switch rest := fr.w - fr.r; {
	case rest == 0:
		fr.dropOver()
	case rest < len(fr.over.b)/8:
		fr.moveOver(rest)
	}
}

func (fr *frameReader) moveOver(size int) {
	buf := fr.pool.get(size)
	n := copy(buf.b, fr.over.b[fr.r:fr.w])
	fr.pool.put(fr.over)
	fr.over, fr.r, fr.w = buf, 0, n
}

// giveOver gives the read buffer away, up to a position; a rest moves to another one.
func (fr *frameReader) giveOver(end int) *buffer {
	buf, rest := fr.over, fr.over.b[end:fr.w]
	fr.over, fr.r, fr.w = nil, 0, 0
	if len(rest) > 0 {
		fr.over = fr.pool.get(len(rest))
		fr.w = copy(fr.over.b, rest)
	}
	return buf
}

func (fr *frameReader) dropOver() {
	if fr.over != nil {
		fr.pool.put(fr.over)
	}
	fr.over, fr.r, fr.w = nil, 0, 0
}
