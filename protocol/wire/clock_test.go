package wire

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// What a request is worked on ends when it is parked, and is nothing unless somebody asks.
func TestWorked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var unasked, parked, whole time.Duration
		r := newRig(t, Options{Handler: HandlerFunc(func(ctx context.Context, r *Request) Outcome {
			unasked = r.Worked()
			time.Sleep(time.Second)
			r.StartClock()
			time.Sleep(3 * time.Millisecond)
			whole = r.Worked()
			r.Park()
			time.Sleep(time.Second)
			r.Park()
			parked = r.Worked()
			return echo(ctx, r)
		})})
		c := r.dial()
		c.send(metadata(1, "x"))
		time.Sleep(3 * time.Second)
		c.expect("1:x")
		if unasked != 0 || whole != 3*time.Millisecond || parked != whole {
			t.Errorf("unasked %v, until now %v, until it was parked %v", unasked, whole, parked)
		}
	})
}

// The time of sending is shared by the answers of one flush. A client that does not take its
// answer costs no more than a millisecond for what is written at once.
func TestSendingIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took []time.Duration
		region := &memRegion{data: make([]byte, 1<<20)}
		r := newRig(t, Options{Handler: HandlerFunc(func(ctx context.Context, r *Request) Outcome {
			out := regionHandler(region).Handle(ctx, r)
			if string(r.Body) == "timed" {
				out.Sent = func(d time.Duration) { took = append(took, d) }
			}
			return out
		})})
		conn, err := r.net.Dial(t.Context(), "broker-1:9092")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write(metadata(1, "timed")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if _, err := readAnswer(conn); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(took) != 1 || took[0] != 5*time.Millisecond {
			t.Errorf("a megabyte that the client took after ten seconds took %v", took)
		}
	})
}
