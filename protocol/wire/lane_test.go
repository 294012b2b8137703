package wire

import (
	"errors"
	"testing"
)

// A connection may end after a handler has returned a Pending and before that has its
// place in the order. The handler still reads the body until it completes the Pending.
func TestBodyOutlivesAConnectionThatEndsBeforeTheAnswerHasItsPlace(t *testing.T) {
	for _, known := range []bool{false, true} {
		ended := 0
		l := &lane{closed: true, out: &output{}, done: func(*Request) { ended++ }, wake: make(chan bool, 1)}
		r := &Request{}
		p := NewPending()
		if known {
			// Complete after settle has looked and before the answer has its place.
			l.slots = append(l.slots, &slot{request: r})
			p.Complete(Outcome{NoResponse: true})
		}
		if err := l.settle(r, Outcome{Pending: p}); !errors.Is(err, errClosed) {
			t.Errorf("settle: %v", err)
		}
		if !known {
			if ended != 0 {
				t.Fatal("the request is over while its handler may read the body")
			}
			p.Complete(Outcome{NoResponse: true})
		}
		if ended != 1 {
			t.Errorf("known before: %t: the request ended %d times", known, ended)
		}
	}
}
