package wire

import (
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// crowd is a handler whose Produces are completed by other goroutines, at any time. It
// checks who starts beside whom.
type crowd struct {
	t       *testing.T
	pending atomic.Int64 // Produces that are not complete
	next    atomic.Int32 // correlation id that must start next
	wg      sync.WaitGroup
}

func (c *crowd) Handle(ctx context.Context, r *Request) Outcome {
	if id := c.next.Add(1) - 1; id != r.CorrelationID {
		c.t.Errorf("request %d started when it was %d's turn", r.CorrelationID, id)
	}
	if r.Key != 0 {
		if n := c.pending.Load(); n != 0 {
			c.t.Errorf("request %d started while %d before it were pending", r.CorrelationID, n)
		}
		return lean(ctx, r)
	}
	c.pending.Add(1)
	p := NewPending()
	c.wg.Go(func() {
		for range rand.IntN(20) {
			runtime.Gosched()
		}
		outcome := Outcome{NoResponse: true}
		if string(r.Body) != "acks=0" {
			outcome = lean(ctx, r)
		}
		c.pending.Add(-1)
		p.Complete(outcome)
	})
	return Outcome{Pending: p}
}

// Many connections pipeline a mixture, while completions come from everywhere: answers
// are complete and in order, and nothing overlaps that must not.
func TestOrderUnderLoad(t *testing.T) {
	const connections, requests = 8, 2000
	r := newRig(t, Options{Handler: HandlerFunc(func(context.Context, *Request) Outcome { panic("replaced") }), Limits: Limits{MaxPending: 5}})
	crowds := make(map[uint64]*crowd, connections)
	var mu sync.Mutex
	r.server.handler = HandlerFunc(func(ctx context.Context, req *Request) Outcome {
		mu.Lock()
		c := crowds[req.Conn.ID]
		if c == nil {
			c = &crowd{t: t}
			crowds[req.Conn.ID] = c
		}
		mu.Unlock()
		return c.Handle(ctx, req)
	})
	var clients sync.WaitGroup
	for i := range connections {
		clients.Go(func() { orderClient(t, r, rand.New(rand.NewPCG(uint64(i), 7)), requests) })
	}
	clients.Wait()
	for _, c := range crowds {
		c.wg.Wait()
	}
	eventually(t, "nothing is in flight", func() bool { return r.server.metrics.inFlight.Load() == 0 })
}

// orderClient sends n requests in writes of random length and reads what is answered.
func orderClient(t *testing.T, r *rig, random *rand.Rand, n int) {
	conn, err := r.net.Dial(t.Context(), "broker-1:9092")
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	var data []byte
	var want []int32
	for id := range int32(n) {
		body := string(binary.BigEndian.AppendUint32(nil, uint32(id)))
		switch random.IntN(8) {
		case 0:
			data = append(data, metadata(id, body)...)
		case 1:
			data = append(data, produce(id, "acks=0")...)
			continue
		default:
			data = append(data, produce(id, body)...)
		}
		want = append(want, id)
	}
	go func() {
		for len(data) > 0 {
			piece := min(len(data), 1+random.IntN(500))
			if _, err := conn.Write(data[:piece]); err != nil {
				return
			}
			data = data[piece:]
		}
	}()
	for _, id := range want {
		a, err := readAnswer(conn)
		if err != nil || a.correlation != id || binary.BigEndian.Uint32([]byte(a.body)) != uint32(id) {
			t.Errorf("answer %v, %v, want %d", a, err, id)
			return
		}
	}
}

// A client may have the answer of a parked request, and send the next, before the
// goroutine that sent it knows that nothing is left to send. An answer that is ready just
// then must not wait for it: nobody would send it any more.
func TestAnswerThatIsReadyWhenADrainEnds(t *testing.T) {
	const connections, rounds = 8, 1000
	var completions sync.WaitGroup
	r := newRig(t, Options{Handler: HandlerFunc(func(ctx context.Context, r *Request) Outcome {
		if r.CorrelationID%2 == 1 {
			return lean(ctx, r)
		}
		p := NewPending()
		completions.Go(func() { p.Complete(lean(ctx, r)) })
		return Outcome{Pending: p}
	})})
	var clients sync.WaitGroup
	for range connections {
		clients.Go(func() {
			conn, err := r.net.Dial(t.Context(), "broker-1:9092")
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			for id := range int32(2 * rounds) {
				_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second)) // for each: the machine may be slow
				if _, err := conn.Write(produce(id, "body")); err != nil {
					t.Error(err)
					return
				}
				if a, err := readAnswer(conn); err != nil || a.correlation != id {
					t.Errorf("answer %v, %v, want %d", a, err, id)
					return
				}
			}
		})
	}
	clients.Wait()
	completions.Wait()
}

// Connections that die at any moment of that leave nothing behind.
func TestDeathUnderLoad(t *testing.T) {
	c := sync.WaitGroup{}
	r := newRig(t, Options{Handler: HandlerFunc(func(ctx context.Context, r *Request) Outcome {
		if r.Key != 0 {
			return lean(ctx, r)
		}
		p := NewPending()
		c.Go(func() {
			for range rand.IntN(50) {
				runtime.Gosched()
			}
			p.Complete(lean(ctx, r))
		})
		return Outcome{Pending: p}
	})})
	var clients sync.WaitGroup
	for i := range 50 {
		random := rand.New(rand.NewPCG(uint64(i), 8))
		clients.Go(func() {
			conn, err := r.net.Dial(t.Context(), "broker-1:9092")
			if err != nil {
				t.Error(err)
				return
			}
			clients.Go(func() { _, _ = io.Copy(io.Discard, conn) })
			for id := range int32(random.IntN(200)) {
				frame := produce(id, string(make([]byte, random.IntN(40_000))))
				if random.IntN(4) == 0 {
					frame = fetch(id, "x")
				}
				if _, err := conn.Write(frame); err != nil {
					break
				}
			}
			_ = conn.Close()
		})
	}
	clients.Wait()
	eventually(t, "every connection has ended", func() bool { return r.server.numConns() == 0 })
	c.Wait()
	if used, inFlight := r.frameMemory(), r.server.metrics.inFlight.Load(); used != 0 || inFlight != 0 {
		t.Errorf("%d bytes and %d requests are left", used, inFlight)
	}
}
