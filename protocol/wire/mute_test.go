package wire

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// A muted connection is counted as long as it is muted. Of a frame that comes too early no
// memory is reserved before.
func TestMutedConnectionHoldsNoFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Handler: HandlerFunc(func(ctx context.Context, r *Request) Outcome {
			out := Outcome{Response: respond(r, "answer")}
			if string(r.Body) == "mute" {
				out.Mute = 10 * time.Second
			}
			return out
		})})
		c := r.dial()
		c.send(metadata(1, "mute"))
		c.expect("1:answer")
		if n := r.server.numMuted(); n != 1 {
			t.Errorf("%d connections are muted", n)
		}
		go c.send(metadata(2, string(make([]byte, 1<<20)))) // more than the network holds
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if n := r.frameMemory(); n != 0 {
			t.Errorf("%d bytes are reserved for a frame of a muted connection", n)
		}
		time.Sleep(time.Second)
		c.expect("2:answer")
		if n := r.server.numMuted(); n != 0 {
			t.Errorf("%d connections are still muted", n)
		}
	})
}

// What a request asks for by its own timeout begins when it is worked on.
func TestMutedRequestIsReceivedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var received []time.Duration
		start := time.Now()
		r := newRig(t, Options{Handler: HandlerFunc(func(_ context.Context, r *Request) Outcome {
			received = append(received, r.Received.Sub(start))
			return Outcome{Response: respond(r, "answer"), Mute: 10 * time.Second}
		})})
		c := r.dial()
		c.send(metadata(1, "x"), metadata(2, "y"))
		time.Sleep(time.Minute)
		c.expect("1:answer", "2:answer")
		if len(received) != 2 || received[0] != 0 || received[1] != 10*time.Second {
			t.Errorf("received after %v", received)
		}
	})
}

// An answer that waits for those before it mutes at once: the next frame is not read, which
// would hold its memory as long as the mute lasts.
func TestMuteDoesNotWaitForEarlierAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var parked Pending
		var first *Request
		handled := 0
		r := newRig(t, Options{Handler: HandlerFunc(func(_ context.Context, r *Request) Outcome {
			switch handled++; handled {
			case 1:
				first = r
				return Outcome{Pending: &parked}
			case 2:
				return Outcome{Response: respond(r, "above"), Mute: time.Minute}
			}
			return Outcome{Response: respond(r, "late")}
		})})
		c := r.dial()
		c.send(produce(1, "parked"), produce(2, "mute"))
		go c.send(produce(3, string(make([]byte, 1<<20)))) // more than the network holds
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if n := r.frameMemory(); handled != 2 || n != 0 {
			t.Errorf("%d requests were handled, %d bytes are reserved", handled, n)
		}
		parked.Complete(Outcome{Response: respond(first, "done")})
		c.expect("1:done", "2:above")
		time.Sleep(time.Minute) // as the client was told, when it was told
		c.expect("3:late")
	})
}

// A frame that was read before its connection was muted gives its memory up for others.
func TestMutedFrameGivesItsMemoryToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 2 * firstStep
		var parked [2]Pending
		var firsts []*Request
		r := newRig(t, Options{Limits: Limits{MaxRequestBytes: limit, QueuedRequestBytes: limit}, Handler: HandlerFunc(func(_ context.Context, r *Request) Outcome {
			if r.Key != 0 {
				return Outcome{Response: respond(r, "answer")}
			}
			firsts = append(firsts, r)
			return Outcome{Pending: &parked[len(firsts)-1]}
		})})
		large := metadata(2, string(make([]byte, 400<<10)))
		muted := []*client{r.dial(), r.dial()}
		for _, c := range muted {
			c.send(produce(1, "parked"), large)
			synctest.Wait()
		}
		for i, first := range firsts {
			parked[i].Complete(Outcome{Response: respond(first, "done"), Mute: time.Hour})
		}
		time.Sleep(time.Minute) // without anybody waiting they keep their place
		for _, c := range muted {
			c.expect("1:done")
		}
		if got := r.frameMemory(); got != limit {
			t.Fatalf("%d bytes held before anybody waits", got)
		}
		other := r.dial()
		go func() { _, _ = other.conn.Write(large) }()
		time.Sleep(DefaultMemoryPatience + 5*time.Second)
		synctest.Wait()
		other.expect("2:answer")
		for _, c := range muted {
			c.expect("EOF")
		}
	})
}

// Connections that are refused and not closed yet are bounded: one more is closed at once.
func TestRefusedConnectionsAreBounded(t *testing.T) {
	s := NewServer(Options{Handler: echo})
	var last net.Conn
	for range maxRefused + 1 {
		server, client := net.Pipe()
		defer client.Close()
		s.refuseConn(server, &tooFast{time.Hour})
		last = client
	}
	if n := len(s.refused); n != maxRefused {
		t.Errorf("%d connections are kept", n)
	}
	if _, err := last.Read(make([]byte, 1)); err == nil {
		t.Error("one too many is not closed")
	}
	if err := s.Shutdown(t.Context()); err != nil || len(s.refused) != 0 {
		t.Errorf("after the server has stopped %d are kept (%v)", len(s.refused), err)
	}
}
