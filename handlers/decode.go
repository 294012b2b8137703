package handlers

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/semaphore"

	"github.com/klamm-mq/klamm/protocol"
	"github.com/klamm-mq/klamm/protocol/wire"
)

// A decoded request takes more memory than its frame, which is all that the connection
// bounds: an array of empty names takes two bytes each in the frame and 64 afterwards. So
// a client with a valid request of 100 MiB could cost 3 GiB. These are the bounds:
//
//	Produce           the number of topics and partitions it names; its bulk is records,
//	                  which are not copied
//	any other         the size of its body; and what all of them that are not small take
//	                  together while they are worked on, and while they wait for their
//	                  group (groups.go)

const (
	// maxProducePartitions is more than a broker leads.
	maxProducePartitions = 100_000
	// maxPlainBody is the largest body of a request without records. A Metadata request
	// that names 200,000 topics has a third of it.
	maxPlainBody = 16 << 20
	// smallBody is up to where a body is neither looked at nor counted.
	smallBody = 64 << 10
	// decodeRatio is how much larger a decoded request may be.
	decodeRatio = 32
	// maxDecoded is for all decoded requests without records together, but small ones.
	maxDecoded = maxPlainBody * decodeRatio
)

var (
	// errBadBody is a body that its version's layout does not fit.
	errBadBody = errors.New("request cannot be decoded")
	// errTooLarge is one that fits and is beyond the bounds above.
	errTooLarge = errors.New("request is too large for its kind")
)

// decode reads the body of r. The caller calls release, once or more often, when it is
// done with the request.
func (h *Handlers) decode(ctx context.Context, r *wire.Request) (req kmsg.Request, release func(), err error) {
	release, err = h.admit(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	req = kmsg.RequestForKey(r.Key)
	req.SetVersion(r.Version)
	if err := readRequest(req, r.Body); err != nil {
		release()
		return nil, nil, fmt.Errorf("%w: %s version %d: %w", errBadBody, r.API().Name, r.Version, err)
	}
	return req, release, nil
}

func readRequest(req kmsg.Request, body []byte) error {
	if err := req.ReadFrom(body); err != nil {
		return err
	}
	return checkStrings(req, len(body))
}

func nothingHeld() {}

// admit waits until there is room for the decoded form of r.
func (h *Handlers) admit(ctx context.Context, r *wire.Request) (release func(), err error) {
	n := len(r.Body)
	switch {
	case n <= smallBody:
		return nothingHeld, nil
	case r.Key == protocol.ProduceKey:
		return nothingHeld, checkProduceBody(r.Version, r.Body)
	case n > maxPlainBody:
		return nil, fmt.Errorf("%w: %s of %d bytes", errTooLarge, r.API().Name, n)
	}
	weight := int64(n) * decodeRatio
	if err := h.decoding.Acquire(ctx, weight); err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { h.decoding.Release(weight) }), nil
}

func newDecodeBudget() *semaphore.Weighted { return semaphore.NewWeighted(maxDecoded) }

// checkProduceBody counts the topics and partitions in the body of a Produce, without taking the word
// of any length in it.
func checkProduceBody(version int16, body []byte) error {
	w := bodyWalk{b: body, flexible: version >= 9}
	w.name() // transactional id
	w.skip(2 + 4)
	topics, partitions := 0, 0
	for range w.count() {
		if topics++; topics > maxProducePartitions {
			return tooManyNamed()
		}
		if version >= 13 {
			w.skip(16)
		} else {
			w.name()
		}
		for range w.count() {
			if partitions++; partitions > maxProducePartitions {
				return tooManyNamed()
			}
			w.skip(4)
			w.bytes()
			w.tags()
		}
		w.tags()
	}
	if w.bad {
		return fmt.Errorf("%w: Produce version %d of %d bytes", errBadBody, version, len(body))
	}
	return nil
}

func tooManyNamed() error {
	return fmt.Errorf("%w: Produce of more than %d topics or partitions", errTooLarge, maxProducePartitions)
}

// bodyWalk passes over the fields of a body. After the first that cannot be there it is
// bad, and whatever follows is empty.
type bodyWalk struct {
	b        []byte
	flexible bool
	bad      bool
}

func (w *bodyWalk) skip(n int) {
	if n < 0 || n > len(w.b) {
		w.bad, w.b = true, nil
		return
	}
	w.b = w.b[n:]
}

// fixed reads a number of n bytes, with its sign.
func (w *bodyWalk) fixed(n int) (v int) {
	if len(w.b) < n {
		w.skip(n)
		return 0
	}
	v = int(int8(w.b[0]))
	for _, c := range w.b[1:n] {
		v = v<<8 | int(c)
	}
	w.skip(n)
	return v
}

// uvarint reads an unsigned number of at most five bytes.
func (w *bodyWalk) uvarint() (v int) {
	for shift := 0; shift < 35; shift += 7 {
		if len(w.b) == 0 {
			break
		}
		c := w.b[0]
		w.b = w.b[1:]
		v |= int(c&0x7f) << shift
		if c < 0x80 {
			return v
		}
	}
	w.bad, w.b = true, nil
	return 0
}

// length reads that of an array or of bytes; null counts as empty.
func (w *bodyWalk) length(fixed int) int {
	if w.flexible {
		return max(0, w.uvarint()-1)
	}
	return max(0, w.fixed(fixed))
}

// count is the number of elements of an array, none in a walk that is bad. An element
// has at least a byte.
func (w *bodyWalk) count() int {
	n := w.length(4)
	if n > len(w.b) {
		w.bad, w.b = true, nil
		return 0
	}
	return n
}

func (w *bodyWalk) name()  { w.skip(w.length(2)) }
func (w *bodyWalk) bytes() { w.skip(w.length(4)) }

func (w *bodyWalk) tags() {
	if !w.flexible {
		return
	}
	for n := w.uvarint(); n > 0 && !w.bad; n-- {
		w.uvarint()
		w.skip(w.uvarint())
	}
}
