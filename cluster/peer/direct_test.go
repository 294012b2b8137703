package peer

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A client that nobody reads for notices the end of a connection with the next request.
func TestDirectReconnects(t *testing.T) {
	runOne(t, 0, true, func(w *world) {
		w.serve("b:9092", granted)
		w.want("at first", w.request(w.t.Context()), nil)
		w.net.Crash("b")
		synctest.Wait()
		if err := w.request(w.t.Context()); err == nil {
			w.t.Error("answered by the dead")
		}
		w.serve("b:9092", granted)
		w.want("after its return", w.request(w.t.Context()), nil)
	})
}

// A request that is given up ends its connection: the answer may yet come.
func TestDirectGivenUp(t *testing.T) {
	runOne(t, 0, true, func(w *world) {
		open := make(chan struct{})
		w.serve("b:9092", func(number uint32) []byte {
			<-open
			return granted(number)
		})
		ctx, cancel := context.WithTimeout(w.t.Context(), 100*time.Millisecond)
		defer cancel()
		w.want("given up", w.request(ctx), context.DeadlineExceeded)
		close(open)
		w.want("the next", w.request(w.t.Context()), nil)
		if n := w.dials.Load(); n != 2 {
			w.t.Errorf("%d connections", n)
		}
	})
}

func TestDirectUnaskedAnswer(t *testing.T) {
	runOne(t, 0, true, func(w *world) {
		w.serve("b:9092", func(number uint32) []byte { return append(granted(number), granted(number)...) })
		w.want("the first", w.request(w.t.Context()), ErrMalformed)
		if w.client.link.usable() {
			w.t.Error("the connection is still used")
		}
	})
}

// Answers of all sizes come whole, and a large one does not keep its memory for ever.
func TestDirectMemory(t *testing.T) {
	runOne(t, 0, true, func(w *world) {
		var size int
		w.serve("b:9092", func(number uint32) []byte {
			resp := kmsg.NewPtrEnvelopeResponse()
			resp.ResponseData = bytes.Repeat([]byte{byte(size)}, size)
			b := binary.BigEndian.AppendUint32(make([]byte, 4), number)
			return sized(resp.AppendTo(append(b, 0)))
		})
		ask := func(n int) {
			size = n
			resp, err := w.client.Request(w.t.Context(), kmsg.NewPtrEnvelopeRequest())
			if err != nil {
				w.t.Fatal(err)
			}
			if got := resp.(*kmsg.EnvelopeResponse).ResponseData; !bytes.Equal(got, bytes.Repeat([]byte{byte(n)}, n)) {
				w.t.Fatalf("%d bytes are not the %d that were sent", len(got), n)
			}
		}
		const large = 5 << 20
		for _, n := range []int{0, 1, firstFrameBytes - 20, firstFrameBytes, 200_000, large, 3, large / 2, 200_000} {
			ask(n)
		}
		held := func() int { return len(w.client.link.in.buf) }
		if held() < large || held() > 2*large {
			w.t.Errorf("%d bytes are held after an answer of %d", held(), large)
		}
		for range smallAnswers {
			ask(10)
		}
		if held() != firstFrameBytes {
			w.t.Errorf("%d bytes are held after %d small answers", held(), smallAnswers)
		}
	})
}
