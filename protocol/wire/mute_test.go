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
