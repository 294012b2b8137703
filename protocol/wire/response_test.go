package wire

import (
	"bytes"
	"io"
	"os"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/klamm-mq/klamm/protocol"
)

// memRegion is a region without a file.
type memRegion struct {
	data     []byte
	promised int // Len, if it is more than there is
	released atomic.Int32
}

func (m *memRegion) Len() int                { return max(len(m.data), m.promised) }
func (m *memRegion) File() (*os.File, int64) { return nil, 0 }
func (m *memRegion) Release()                { m.released.Add(1) }
func (m *memRegion) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(m.data).ReadAt(p, off)
}

var _ io.ReaderAt = (*memRegion)(nil)

// written is what an output sends for the responses.
func written(t testing.TB, pool *Buffers, responses ...*Response) []byte {
	t.Helper()
	var sink sinkConn
	out := output{conn: &sink, pool: pool, watch: &watch{}, sent: func(int) {}}
	for i, resp := range responses {
		r := NewRequest(pool, 3, 1, nil)
		r.CorrelationID = int32(i)
		if err := out.add(r, resp, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.flush(); err != nil {
		t.Fatal(err)
	}
	return sink.Bytes()
}

func TestResponseHeaders(t *testing.T) {
	for _, c := range []struct {
		key, version int16
		want         string
	}{
		{3, 1, "\x00\x00\x00\x06\x00\x00\x00\x07hi"},
		{3, 9, "\x00\x00\x00\x07\x00\x00\x00\x07\x00hi"},
		{18, 0, "\x00\x00\x00\x06\x00\x00\x00\x07hi"},
		{18, 3, "\x00\x00\x00\x06\x00\x00\x00\x07hi"},
		{18, 99, "\x00\x00\x00\x06\x00\x00\x00\x07hi"},
	} {
		pool := NewBuffers(0)
		r := NewRequest(pool, c.key, c.version, nil)
		resp := respond(r, "hi")
		start := resp.seal(7, r.api.FlexibleResponse(c.version))
		if got := string(resp.buf.b[start:resp.used]); got != c.want {
			t.Errorf("%s %d: %q, want %q", r.api.Name, c.version, got, c.want)
		}
		resp.Release()
	}
}

// Whatever is appended, grown and placed between, the bytes come out in that order, and
// every region is released once.
func TestResponseKeepsTheOrder(t *testing.T) {
	pool := NewBuffers(0)
	rapid.Check(t, func(rt *rapid.T) {
		var want []byte
		var regions []*memRegion
		resp := NewResponse(pool)
		for i := range rapid.IntRange(0, 8).Draw(rt, "parts") {
			data := bytes.Repeat([]byte{byte('a' + i)}, rapid.IntRange(0, 100_000).Draw(rt, "size"))
			switch rapid.IntRange(0, 2).Draw(rt, "kind") {
			case 0:
				resp.Append(func(dst []byte) []byte { return append(dst, data...) })
			case 1:
				resp.Grow(len(data))
				resp.Append(func(dst []byte) []byte { return append(dst, data...) })
			case 2:
				regions = append(regions, &memRegion{data: data})
				resp.AddRegion(regions[len(regions)-1])
			}
			want = append(want, data...)
		}
		if resp.Len() != len(want) {
			rt.Fatalf("length %d, want %d", resp.Len(), len(want))
		}
		if body, err := resp.Body(); err != nil || !bytes.Equal(body, want) {
			rt.Fatalf("body of %d bytes, %v, want %d", len(body), err, len(want))
		}
		a, err := readAnswer(bytes.NewReader(written(t, pool, resp)))
		if err != nil || a.body != string(want) {
			rt.Fatalf("%d bytes, %v, want %d", len(a.body), err, len(want))
		}
		for i, region := range regions {
			if n := region.released.Load(); n != 1 {
				rt.Fatalf("region %d released %d times", i, n)
			}
		}
	})
}

func TestDroppedResponseReleasesItsRegions(t *testing.T) {
	region := &memRegion{data: []byte("x")}
	resp := NewResponse(NewBuffers(0))
	resp.AddRegion(region)
	resp.Release()
	if n := region.released.Load(); n != 1 {
		t.Errorf("released %d times", n)
	}
}

func TestGrowCopiesNothingLater(t *testing.T) {
	resp := NewResponse(NewBuffers(0))
	defer resp.Release()
	resp.Append(func(dst []byte) []byte { return append(dst, "head"...) })
	resp.Grow(1 << 20)
	before := &resp.buf.b[0]
	resp.Append(func(dst []byte) []byte { return append(dst, make([]byte, 1<<20)...) })
	if &resp.buf.b[0] != before {
		t.Error("the buffer moved although it was grown before")
	}
}

// The buffer of an answer is sized by earlier ones of its kind.
func TestSizeHint(t *testing.T) {
	pool := NewBuffers(0)
	api, _ := protocol.Lookup(3)
	size := func() int {
		resp := newResponse(pool, api.Key)
		defer resp.Release()
		return len(resp.buf.b)
	}
	if got := size(); got != firstResponseSize {
		t.Errorf("first buffer %d", got)
	}
	pool.remember(api.Key, 50_000)
	if got := size(); got < 50_000 {
		t.Errorf("after an answer of 50000 bytes: %d", got)
	}
	pool.remember(api.Key, 40_000) // not much smaller: stays
	if got := pool.hint(api.Key); got != 50_000 {
		t.Errorf("hint %d", got)
	}
	for range 100 {
		pool.remember(api.Key, 100)
	}
	if got := pool.hint(api.Key); got > 1000 && got != firstResponseSize {
		t.Errorf("the hint stays at %d after small answers", got)
	}
	pool.remember(api.Key, 100<<20)
	if got := pool.hint(api.Key); got != maxSizeHint {
		t.Errorf("hint %d after an enormous answer", got)
	}
}

func TestSmallAnswersGoOutTogether(t *testing.T) {
	pool := NewBuffers(0)
	var sink sinkConn
	out := output{conn: &sink, pool: pool, watch: &watch{}, sent: func(int) {}}
	r := NewRequest(pool, 3, 1, nil)
	for range 16 {
		if err := out.add(r, respond(r, "answer"), nil); err != nil {
			t.Fatal(err)
		}
	}
	region := respond(r, "head")
	region.AddRegion(&memRegion{data: make([]byte, 1000)})
	if err := out.add(r, region, nil); err != nil {
		t.Fatal(err)
	}
	if err := out.flush(); err != nil {
		t.Fatal(err)
	}
	if sink.writes != 1 {
		t.Errorf("%d writes", sink.writes)
	}
}

func TestMuchUnflushedIsFlushed(t *testing.T) {
	pool := NewBuffers(0)
	var sink sinkConn
	out := output{conn: &sink, pool: pool, watch: &watch{}, sent: func(int) {}}
	r := NewRequest(pool, 3, 1, nil)
	for range 3 {
		if err := out.add(r, respond(r, string(make([]byte, maxUnflushed/2))), nil); err != nil {
			t.Fatal(err)
		}
	}
	if sink.writes == 0 || out.bytes >= maxUnflushed {
		t.Errorf("%d writes, %d bytes gathered", sink.writes, out.bytes)
	}
	out.drop()
}
