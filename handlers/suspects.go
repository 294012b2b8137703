package handlers

import "context"

// Suspects are the brokers that seem to have died a moment ago, although metadata has them
// in service (*peer.Suspects).
type Suspects interface {
	// Any tells whether there are some.
	Any() bool
	// Suspect tells whether a broker is one.
	Suspect(broker int32) bool
	// Await returns when there are none, or after a second or two.
	Await(ctx context.Context)
}

// awaitSuspects is for an answer that sends clients to brokers. A client that has lost its
// connection with a broker asks at once where to go instead. If it were answered before the
// cluster knows, it would be sent to the dead broker again, and some ask the next time only
// seconds later. Where too much waits already, nobody does.
func (h *Handlers) awaitSuspects(ctx context.Context, c call) {
	if h.suspects == nil || !h.suspects.Any() {
		return
	}
	done, ok := h.putAside(c)
	if !ok {
		return
	}
	defer done()
	c.request.Park()
	h.suspects.Await(ctx)
}

// maxWaitingBytes bounds what all requests bring that are put aside, small ones not counted.
const maxWaitingBytes = 256 << 20

// putAside is for a request that is about to wait for other nodes or clients, and holds
// copies of what it needs of its frame. It gives back what it took of the bounds for
// requests under way, which others would run out of, and counts against a bound of its own;
// false if that is reached.
func (h *Handlers) putAside(c call) (done func(), ok bool) {
	n := int64(len(c.request.Body))
	if n <= smallBody {
		n = 0
	}
	if !h.waiting.TryAcquire(n) {
		return nil, false
	}
	c.release()
	c.request.FreeBody()
	return func() { h.waiting.Release(n) }, true
}
