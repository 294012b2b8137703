package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/klamm-mq/klamm/protocol/wire/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a client on host "a" and what it talks to.
type world struct {
	t      *testing.T
	net    *memnet.Network
	client *Client
	addr   atomic.Pointer[string]
	dials  atomic.Int32
}

// run makes a world in a bubble, with a client of each kind if one request may be on its way.
// Requests time out after a second.
func run(t *testing.T, inFlight int, test func(w *world)) {
	if inFlight == 1 {
		t.Run("direct", func(t *testing.T) { runOne(t, 0, true, test) })
	}
	runOne(t, inFlight, false, test)
}

func runOne(t *testing.T, inFlight int, direct bool, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, net: memnet.New()}
		w.moveTo("b:9092")
		w.client = NewClient(Options{
			Dial: func(ctx context.Context, addr string) (net.Conn, error) {
				w.dials.Add(1)
				return w.net.Host("a").DialContext(ctx, "tcp", addr)
			},
			ClientID: "broker-1", Timeout: time.Second, MaxInFlight: inFlight, Direct: direct, Registerer: prometheus.NewRegistry(),
		}, func() (string, bool) {
			addr := w.addr.Load()
			return *addr, *addr != ""
		})
		defer w.client.Close()
		test(w)
	})
}

func (w *world) moveTo(addr string) { w.addr.Store(&addr) }

// serve accepts connections until the end of the test, and has answer write to them what it
// likes. An answer of nil is none.
func (w *world) serve(addr string, answer func(number uint32) []byte) {
	w.t.Helper()
	ln, err := w.net.Listen(addr)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go serveOne(conn, answer)
		}
	}()
}

func serveOne(conn net.Conn, answer func(number uint32) []byte) {
	defer func() { _ = conn.Close() }()
	for {
		var head [12]byte // size, key, version, correlation id
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return
		}
		size := binary.BigEndian.Uint32(head[:])
		if _, err := io.CopyN(io.Discard, conn, int64(size)-8); err != nil {
			return
		}
		if out := answer(binary.BigEndian.Uint32(head[8:])); out != nil {
			if _, err := conn.Write(out); err != nil {
				return
			}
		}
	}
}

// granted is a good answer to a heartbeat, with a tagged field in its header.
func granted(number uint32) []byte {
	resp := kmsg.NewPtrBrokerHeartbeatResponse()
	resp.IsCaughtUp = true
	b := binary.BigEndian.AppendUint32(make([]byte, 4), number)
	b = append(b, 1, 7, 2, 'x', 'y')
	return sized(resp.AppendTo(b))
}

func sized(frame []byte) []byte {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

func (w *world) request(ctx context.Context) error {
	resp, err := w.client.Request(ctx, kmsg.NewPtrBrokerHeartbeatRequest())
	if err == nil && !resp.(*kmsg.BrokerHeartbeatResponse).IsCaughtUp {
		w.t.Error("the answer is not the one that was sent")
	}
	return err
}

func (w *world) want(what string, err, want error) {
	w.t.Helper()
	if !errors.Is(err, want) {
		w.t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func TestOneConnectionForAllRequests(t *testing.T) {
	run(t, 3, func(w *world) {
		w.serve("b:9092", granted)
		errs := make(chan error, 10)
		for range cap(errs) {
			go func() { errs <- w.request(w.t.Context()) }()
		}
		for range cap(errs) {
			w.want("request", <-errs, nil)
		}
		if n := w.dials.Load(); n != 1 {
			w.t.Errorf("%d connections", n)
		}
	})
}

func TestReconnects(t *testing.T) {
	runOne(t, 1, false, func(w *world) {
		w.want("while nobody listens", w.request(w.t.Context()), ErrNotSent)
		w.serve("b:9092", granted)
		w.want("when somebody does", w.request(w.t.Context()), nil)
		w.net.Crash("b")
		synctest.Wait()
		w.want("after its death", w.request(w.t.Context()), ErrNotSent)
		w.serve("b:9092", granted)
		w.want("after its return", w.request(w.t.Context()), nil)
	})
}

// Attempts that fail lie further and further apart, up to a second.
func TestPausesBetweenAttempts(t *testing.T) {
	run(t, 1, func(w *world) {
		begin := time.Now()
		for range 10 {
			w.want("nobody listens", w.request(w.t.Context()), ErrNotSent)
		}
		// 20 + 40 + … + 640 ms, and a second each for the last three.
		if took := time.Since(begin); took != 4260*time.Millisecond {
			w.t.Errorf("ten attempts took %v", took)
		}
		w.moveTo("c:9092")
		w.want("another address", w.request(w.t.Context()), ErrNotSent)
		if took := time.Since(begin); took != 4260*time.Millisecond {
			w.t.Errorf("the first attempt elsewhere waited: %v", took)
		}
	})
}

func TestFollowsTheAddress(t *testing.T) {
	run(t, 1, func(w *world) {
		w.serve("b:9092", granted)
		w.serve("c:9092", func(number uint32) []byte { return granted(number) })
		w.want("first", w.request(w.t.Context()), nil)
		w.moveTo("c:9092")
		w.want("second", w.request(w.t.Context()), nil)
		w.moveTo("")
		w.want("third", w.request(w.t.Context()), ErrNoAddress)
		if n := w.dials.Load(); n != 2 {
			w.t.Errorf("%d connections", n)
		}
	})
}

// A peer that does not answer costs the connection, and all that waits on it.
func TestTimesOut(t *testing.T) {
	run(t, 2, func(w *world) {
		w.serve("b:9092", func(uint32) []byte { return nil })
		begin := time.Now()
		errs := make(chan error, 2)
		for range cap(errs) {
			go func() { errs <- w.request(w.t.Context()) }()
		}
		for range cap(errs) {
			w.want("silence", <-errs, ErrTimeout)
		}
		if took := time.Since(begin); took != time.Second {
			w.t.Errorf("after %v", took)
		}
	})
}

// Silence is no fault while nothing is asked.
func TestIdleConnectionStays(t *testing.T) {
	run(t, 1, func(w *world) {
		w.serve("b:9092", granted)
		for range 3 {
			w.want("request", w.request(w.t.Context()), nil)
			<-time.After(time.Hour)
		}
		if n := w.dials.Load(); n != 1 {
			w.t.Errorf("%d connections", n)
		}
	})
}

// Who gives up keeps its place until the answer has come: so what is on its way stays
// bounded.
func TestBoundOfRequestsInFlight(t *testing.T) {
	run(t, 2, func(w *world) {
		open := make(chan struct{})
		w.serve("b:9092", func(number uint32) []byte {
			<-open
			return granted(number)
		})
		for range 2 {
			ctx, cancel := context.WithTimeout(w.t.Context(), 100*time.Millisecond)
			defer cancel()
			w.want("given up", w.request(ctx), context.DeadlineExceeded)
		}
		ctx, cancel := context.WithTimeout(w.t.Context(), 100*time.Millisecond)
		defer cancel()
		w.want("the third", w.request(ctx), ErrNotSent)
		close(open)
		w.want("the fourth", w.request(w.t.Context()), nil)
		if n := w.dials.Load(); n != 1 {
			w.t.Errorf("%d connections", n)
		}
	})
}

func TestMalformedAnswers(t *testing.T) {
	for name, answer := range map[string]func(uint32) []byte{
		"text":            func(uint32) []byte { return []byte("HTTP/1.1 400 Bad Request\r\n") },
		"negative size":   func(uint32) []byte { return []byte{0x80, 0, 0, 0} },
		"short":           func(uint32) []byte { return []byte{0, 0, 0, 2, 0, 0} },
		"another number":  func(number uint32) []byte { return granted(number + 1) },
		"two answers":     func(number uint32) []byte { return append(granted(number+1), granted(number)...) },
		"no body":         func(number uint32) []byte { return granted(number)[:14] },
		"no header":       func(number uint32) []byte { return binary.BigEndian.AppendUint32([]byte{0, 0, 0, 4}, number) },
		"endless varint":  func(number uint32) []byte { return header(number, 0x80) },
		"tag beyond end":  func(number uint32) []byte { return header(number, 1, 0, 100) },
		"count beyond it": func(number uint32) []byte { return header(number, 100) },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, 1, func(w *world) {
				w.serve("b:9092", answer)
				err := w.request(w.t.Context())
				if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrTimeout) {
					w.t.Errorf("%v", err)
				}
				if w.client.link.usable() {
					w.t.Error("the connection is still used")
				}
			})
		})
	}
}

func header(number uint32, tags ...byte) []byte {
	return sized(append(binary.BigEndian.AppendUint32(make([]byte, 4), number), tags...))
}

// Nobody asked: the connection is not to be trusted.
func TestUnaskedAnswer(t *testing.T) {
	runOne(t, 1, false, func(w *world) {
		w.serve("b:9092", func(number uint32) []byte { return append(granted(number), granted(number)...) })
		w.want("the first", w.request(w.t.Context()), nil)
		synctest.Wait()
		if w.client.link.usable() {
			w.t.Error("the connection is still used")
		}
	})
}

// Close ends whatever waits: for an answer, for its turn, for a place, for a connection, or
// for a peer that does not read.
func TestCloseReleasesWaiters(t *testing.T) {
	for name, prepare := range map[string]func(w *world){
		"answer":     func(w *world) { w.serve("b:9092", func(uint32) []byte { return nil }) },
		"connection": func(w *world) { w.net.Isolate("b") },
		"pause":      func(w *world) { _ = w.request(w.t.Context()); _ = w.request(w.t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, 1, func(w *world) {
				prepare(w)
				errs := make(chan error, 3)
				for range cap(errs) {
					go func() { errs <- w.request(w.t.Context()) }()
				}
				synctest.Wait()
				w.client.Close()
				for range cap(errs) {
					if err := <-errs; !errors.Is(err, ErrClosed) && !errors.Is(err, context.Canceled) {
						w.t.Errorf("%v", err)
					}
				}
				w.want("afterwards", w.request(w.t.Context()), ErrClosed)
			})
		})
	}
}

// A peer that stops reading holds up a large request, but not Close.
func TestCloseWhileWriting(t *testing.T) {
	run(t, 1, func(w *world) {
		ln, err := w.net.Listen("b:9092")
		if err != nil {
			w.t.Fatal(err)
		}
		defer func() { _ = ln.Close() }()
		req := kmsg.NewPtrEnvelopeRequest()
		req.RequestData = make([]byte, 1<<20)
		done := make(chan error, 1)
		go func() {
			_, err := w.client.Request(w.t.Context(), req)
			done <- err
		}()
		synctest.Wait()
		w.client.Close()
		w.want("the request", <-done, ErrClosed)
	})
}

func TestClientsShareCounters(t *testing.T) {
	reg := prometheus.NewRegistry()
	a, b := newMetrics(reg), newMetrics(reg)
	a.sent.Inc()
	b.sent.Inc()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "klamm_peer_requests_total" && f.GetMetric()[0].GetCounter().GetValue() != 2 {
			t.Errorf("%v", f)
		}
	}
}
