package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klamm-mq/klamm/protocol/wire/memnet"
)

// newFrameReader reads from conn with at most max bytes per frame.
func newFrameReader(conn net.Conn, pool *Buffers, b *budget, limit int32) *frameReader {
	limits := new(atomic.Int32)
	limits.Store(limit)
	return &frameReader{conn: conn, first: newFirstReader(conn), pool: pool, budget: b, watch: new(watch), max: limits}
}

// chunkConn gives its bytes in pieces, whose sizes repeat; it is no socket and does not
// say when it is readable, like TLS.
type chunkConn struct {
	net.Conn
	data   []byte
	chunks []byte
	next   int
}

func (c *chunkConn) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := len(c.data)
	if len(c.chunks) > 0 {
		n = min(n, 1+int(c.chunks[c.next%len(c.chunks)]))
		c.next++
	}
	n = copy(p, c.data[:n])
	c.data = c.data[n:]
	return n, nil
}

// pollConn is a chunkConn that says when it is readable.
type pollConn struct{ chunkConn }

func (p *pollConn) WaitReadable() error { return nil }

// framesOf is the reference: the frames in data, and the error after them.
func framesOf(data []byte, limit int32) (frames [][]byte, err error) {
	for {
		if len(data) == 0 {
			return frames, io.EOF
		}
		if len(data) < sizePrefix {
			return frames, io.ErrUnexpectedEOF
		}
		size := int32(binary.BigEndian.Uint32(data))
		if size <= 0 || size > limit {
			return frames, &FrameSizeError{}
		}
		if data = data[sizePrefix:]; len(data) < int(size) {
			return frames, io.ErrUnexpectedEOF
		}
		frames = append(frames, data[:size])
		data = data[size:]
	}
}

// checkFrames reads conn to its end and compares with the reference.
func checkFrames(t *testing.T, conn net.Conn, data []byte, limit int32) {
	t.Helper()
	b := newBudget(int64(limit), time.Second)
	fr := newFrameReader(conn, NewBuffers(1<<20), b, limit)
	want, wantErr := framesOf(data, limit)
	held := new(frame) // the one before stays as it is while the next is read
	for i := 0; ; i++ {
		f := new(frame)
		err := fr.next(context.Background(), f)
		if err != nil {
			var size *FrameSizeError
			if same := errors.Is(err, wantErr) || errors.As(err, &size) && errors.As(wantErr, &size); !same || i != len(want) {
				t.Fatalf("after %d frames %v, want %d and %v", i, err, len(want), wantErr)
			}
			break
		}
		if i >= len(want) || !bytes.Equal(f.bytes(), want[i]) {
			t.Fatalf("frame %d of %d differs: %d bytes", i, len(want), f.size)
		}
		if i > 0 {
			checkHeld(t, held, want[i-1])
		}
		held = f
	}
	if len(want) > 0 {
		checkHeld(t, held, want[len(want)-1])
	}
	fr.dropOver()
	if used := b.used.Load(); used != 0 {
		t.Errorf("%d bytes of the budget are not given back", used)
	}
}

// checkHeld releases a frame that must have its content still.
func checkHeld(t *testing.T, f *frame, want []byte) {
	t.Helper()
	if !bytes.Equal(f.bytes(), want) {
		t.Fatalf("a frame of %d bytes has changed while the next was read", f.size)
	}
	f.release()
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 'a', 0, 0, 0, 0}, []byte{})
	f.Add([]byte{0, 0, 0, 1, 'a', 0, 0, 0, 2, 'b', 'c'}, []byte{0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xfe}, []byte{2})
	f.Add([]byte{0, 0, 0x10, 0, 'x'}, []byte{3, 0})
	f.Add(append(sized(make([]byte, 300)), sized(make([]byte, 700))...), []byte{40, 1, 63, 255, 255})
	f.Fuzz(func(t *testing.T, data, chunks []byte) {
		const limit = 4096
		checkFrames(t, &chunkConn{data: data, chunks: chunks}, data, limit)
		checkFrames(t, &pollConn{chunkConn{data: data, chunks: chunks}}, data, limit)
	})
}

// Frames of all sizes that matter, in pieces of all sizes that matter.
func TestFramesOfAllSizes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	sizes := []int{
		1, 2, 507, 508, 509, 511, 512, 513, smallFrame - 1, smallFrame, smallFrame + 1,
		readSize - sizePrefix - 1, readSize - sizePrefix, readSize - sizePrefix + 1, readSize, readSize + 1,
		readSize*3/4 - 1, readSize * 3 / 4, 100 << 10, 187 << 10, firstStep - 2*sizePrefix, firstStep - 2*sizePrefix + 1,
		firstStep - 1, firstStep, firstStep + 1, 4 * firstStep, 4*firstStep + 1,
	}
	for range 10 {
		var data []byte
		size := 0
		for range 16 {
			if random.IntN(3) > 0 { // else as large as the last
				size = sizes[random.IntN(len(sizes))]
			}
			frame := make([]byte, sizePrefix+max(size, 1))
			for i := range frame {
				frame[i] = byte(random.Uint32())
			}
			data = append(data, sized(frame)...)
		}
		chunks := [][]byte{nil, {0, 255, 3}, {255}}[random.IntN(3)]
		checkFrames(t, &chunkConn{data: data, chunks: chunks}, data, 8<<20)
		checkFrames(t, &pollConn{chunkConn{data: data, chunks: chunks}}, data, 8<<20)
	}
}

// readsConn is a pollConn that counts.
type readsConn struct {
	pollConn
	reads int
}

func (r *readsConn) Read(p []byte) (int, error) {
	r.reads++
	return r.pollConn.Read(p)
}

// A frame as large as the one before is read at once, unless memory is short.
func TestOneReadForAFrameLikeTheLast(t *testing.T) {
	const frames = 10
	var data []byte
	for range frames {
		data = append(data, sized(make([]byte, sizePrefix+187<<10))...)
	}
	for _, test := range []struct {
		taken int64
		reads int
	}{{0, frames + 1}, {4 << 20, 2 * frames}} {
		b := newBudget(6<<20, time.Second)
		if err := b.acquire(t.Context(), test.taken, false); err != nil {
			t.Fatal(err)
		}
		conn := &readsConn{pollConn: pollConn{chunkConn{data: data}}}
		fr := newFrameReader(conn, NewBuffers(0), b, 1<<20)
		for range frames {
			var f frame
			if err := fr.next(t.Context(), &f); err != nil {
				t.Fatal(err)
			}
			f.release()
		}
		if conn.reads != test.reads {
			t.Errorf("with %d bytes of the budget taken: %d reads for %d frames, want %d", test.taken, conn.reads, frames, test.reads)
		}
	}
}

// Memory follows what has arrived: a client that promises 100 MiB and sends a byte holds
// the first step, and no read buffer. Who has sent that much is given the rest, which counts
// for half the budget at most.
func TestPromisesHoldNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Handler: echo})
		c := r.dial()
		promise := binary.BigEndian.AppendUint32(nil, 100<<20)
		c.send(append(promise, 0))
		synctest.Wait()
		if got := r.frameMemory(); got != firstStep {
			t.Errorf("a promise holds %d bytes", got)
		}
		c.send(make([]byte, firstStep-1))
		c.send([]byte{0})
		synctest.Wait()
		if got := r.frameMemory(); got != DefaultQueuedRequestBytes/2 {
			t.Errorf("after the first step: %d bytes", got)
		}
		_ = c.conn.Close()
		synctest.Wait()
		if got := r.frameMemory(); got != 0 {
			t.Errorf("after its end: %d bytes", got)
		}
	})
}

// Large frames wait for memory, small ones pass them; two half frames that wait for each
// other end after Limits.MemoryPatience.
func TestFrameMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 512 << 10
		release := make(chan struct{})
		r := newRig(t, Options{
			Limits: Limits{MaxRequestBytes: limit, QueuedRequestBytes: firstStep, FrameSilence: time.Hour},
			Handler: HandlerFunc(func(ctx context.Context, r *Request) Outcome {
				if len(r.Body) > smallFrame {
					<-release
					return Outcome{Response: respond(r, "large")}
				}
				return echo(ctx, r)
			}),
		})
		large := metadata(1, string(make([]byte, 400<<10)))
		first, second, small := r.dial(), r.dial(), r.dial()
		first.send(large)
		synctest.Wait()
		go func() { _, _ = second.conn.Write(large) }() // waits for the first
		synctest.Wait()
		small.send(metadata(2, "small"))
		small.expect("2:small")
		first.expect()
		second.expect()
		if got := r.server.budget.waits.Load(); got == 0 {
			t.Error("nobody waited for memory")
		}
		close(release)
		first.expect("1:large")
		second.expect("1:large")
	})
}

// As many producers as hold a step each must not be able to keep one another from ever
// completing a frame, as long as there is memory for one of them beside the steps.
func TestManyLargeFramesDoNotStarve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, size = 30, 8 << 20
		r := newRig(t, Options{Handler: echo, Limits: Limits{
			MaxRequestBytes: size, QueuedRequestBytes: clients*firstStep + size, MemoryPatience: time.Hour, FrameSilence: time.Hour,
		}})
		large := metadata(1, string(make([]byte, size-100)))
		var all []*client
		for range clients {
			c := r.dial()
			c.send(large[:firstStep/2])
			all = append(all, c)
		}
		synctest.Wait()
		for _, c := range all {
			go func() { _, _ = c.conn.Write(large[firstStep/2:]) }()
		}
		synctest.Wait()
		for _, c := range all {
			c.expect(fmt.Sprintf("1:(%d bytes)", size-100))
		}
	})
}

func TestHalfFramesDoNotWaitForEachOtherForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients = 4
		const limit = clients * firstStep
		r := newRig(t, Options{Handler: echo, Limits: Limits{MaxRequestBytes: limit, QueuedRequestBytes: limit, FrameSilence: time.Hour}})
		large := metadata(1, string(make([]byte, 400<<10)))
		var all []*client
		for range clients {
			c := r.dial()
			all = append(all, c)
			c.send(large[:firstStep-10]) // holds the first step: together all there is
		}
		synctest.Wait()
		for _, c := range all {
			go func() { _, _ = c.conn.Write(large[firstStep-10:]) }()
		}
		time.Sleep(DefaultMemoryPatience + time.Second)
		ends := 0
		for _, c := range all {
			if answers, end := c.take(); end != nil {
				ends++
			} else if len(answers) != 1 {
				t.Errorf("a survivor got %d answers", len(answers))
			}
		}
		if ends == 0 {
			t.Error("all still wait")
		}
	})
}

// Frames that trickle in hold their memory only until others have waited for it long
// enough, so that a few slow clients do not stop all large requests for ever.
func TestTricklingFramesGiveMemoryToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 2 * firstStep
		r := newRig(t, Options{Handler: echo, Limits: Limits{MaxRequestBytes: limit, QueuedRequestBytes: limit, FrameSilence: time.Minute}})
		large := metadata(1, string(make([]byte, 400<<10)))
		slow := []*client{r.dial(), r.dial()}
		for _, c := range slow {
			c.send(large[:firstStep/2])
		}
		for i := range 60 { // without anybody waiting they may take their time
			time.Sleep(time.Second)
			for _, c := range slow {
				c.send(large[firstStep/2+i:][:1])
			}
		}
		if got := r.frameMemory(); got != 2*firstStep {
			t.Fatalf("%d bytes held before anybody waits", got)
		}
		other := r.dial()
		go func() { _, _ = other.conn.Write(metadata(2, string(make([]byte, 400<<10)))) }()
		time.Sleep(DefaultMemoryPatience + 5*time.Second)
		synctest.Wait()
		other.expect("2:(409600 bytes)")
		for _, c := range slow {
			c.expect("EOF")
		}
		if lines := r.log.take(); len(lines) != 1 || !strings.Contains(lines[0], "slow_frame") {
			t.Errorf("log %q, want one line of a slow frame", lines)
		}
	})
}

// A frame's memory goes back when its last reference does, and FreeBody gives up the
// connection's own.
func TestFrameReferences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pending *Pending
		var asked *Request
		r := newRig(t, Options{Handler: HandlerFunc(func(_ context.Context, r *Request) Outcome {
			asked, pending = r, NewPending()
			return Outcome{Pending: pending}
		})})
		c := r.dial()
		body := string(make([]byte, 100<<10))
		held := func(what string, want bool) {
			t.Helper()
			synctest.Wait()
			if got := r.frameMemory() > 0; got != want {
				t.Errorf("%s: memory held = %v", what, got)
			}
		}
		c.send(produce(1, body))
		held("while pending", true)
		pending.Complete(Outcome{NoResponse: true})
		held("when answered", false)

		c.send(produce(2, body))
		synctest.Wait()
		asked.FreeBody()
		asked.FreeBody()
		held("after FreeBody", false)
		pending.Complete(Outcome{NoResponse: true})

		c.send(produce(3, body))
		synctest.Wait()
		asked.Retain()
		pending.Complete(Outcome{NoResponse: true})
		held("when answered but retained", true)
		asked.Release()
		held("after Release", false)
	})
}

// While a request waits, a byte too many costs a small buffer.
func TestReadBufferShrinks(t *testing.T) {
	conn := &pollConn{chunkConn{data: append(metadata(1, "x"), 0)}}
	fr := newFrameReader(conn, NewBuffers(0), newBudget(1<<20, time.Second), 1<<20)
	var f frame
	if err := fr.next(context.Background(), &f); err != nil {
		t.Fatal(err)
	}
	defer f.release()
	if fr.over == nil || len(fr.over.b) != minClass || fr.w-fr.r != 1 {
		t.Errorf("%d bytes left in a buffer of %d", fr.w-fr.r, len(fr.over.b))
	}
	if fr.buffered() {
		t.Error("one byte counts as a complete frame")
	}
}

var _ readableWaiter = (*memnet.Conn)(nil)
