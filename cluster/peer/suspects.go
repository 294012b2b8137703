package peer

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
)

const (
	// Patience bounds how long a broker is a suspect, and how long anybody waits: for as
	// long as the death of one that was the active controller as well may go unnoticed.
	Patience = 1500 * time.Millisecond
	// suspectRest is how long after that a broker is believed, whatever its connections do:
	// one that is cut off, but not out of service, must not stall requests again and again.
	suspectRest = 10 * time.Second
)

// endedThere tells whether an error of a request says that the other end has closed the
// connection, or that its process is gone.
func endedThere(err error) bool {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

// SuspectsOptions configure Suspects. The functions are required.
type SuspectsOptions struct {
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// Address is where a broker is reached.
	Address func(broker int32) (addr string, known bool)
	// Image is what requests are answered from.
	Image func() *metadata.Image

	Logger     *slog.Logger          // nil: discard
	Registerer prometheus.Registerer // nil: no metrics
}

// Suspects are the brokers that seem to have died a moment ago: the other end of a
// connection is gone, while metadata has the broker in service. Who would send a client
// there can wait until more is known:
//
//	          Lost                  metadata has it out of service, or registered anew
//	believed ──────► suspect ──┬──► believed: metadata tells the truth
//	   ▲  ▲                    ├──► believed: it answers
//	   │  └────────────────────┘
//	   │                       └──► Patience is over: believed, whatever its connections do
//	   └───────── suspectRest ────────────────┘
//
// All methods are safe for concurrent use.
type Suspects struct {
	opts    SuspectsOptions
	metrics suspectMetrics
	watched atomic.Int32 // suspects; while there are none, nobody takes the lock

	mu     sync.Mutex
	known  map[int32]*suspicion // suspects, and those that rest; bounded by the brokers
	closed bool

	life context.Context // ends with Close
	stop context.CancelFunc
	wg   sync.WaitGroup // Add only under mu and before closed
}

// suspicion is about one registration of a broker.
type suspicion struct {
	epoch int64
	ctx   context.Context // ends with the suspicion
	end   context.CancelCauseFunc
}

// Why a suspicion ends before Patience is over.
var (
	errDecided = errors.New("metadata says what became of the broker")
	errAnswers = errors.New("the broker answers")
)

// NewSuspects begins without any; Close ends it.
func NewSuspects(o SuspectsOptions) *Suspects {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Suspects{opts: o, metrics: newSuspectMetrics(o.Registerer), known: map[int32]*suspicion{}}
	s.life, s.stop = context.WithCancel(context.Background())
	return s
}

// Close ends all suspicions, and the waiting for them.
func (s *Suspects) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.wg.Wait()
}

// Lost says that the other end of a connection with a broker is gone. Who stops in good
// order is no suspect: metadata says so before.
func (s *Suspects) Lost(broker int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// An image that comes after this one finds the suspicion: Published takes the lock.
	b := s.opts.Image().Broker(broker)
	old := s.known[broker]
	if s.closed || !inService(b) || old != nil && old.epoch == b.Epoch {
		return
	}
	v := &suspicion{epoch: b.Epoch}
	var cancel context.CancelFunc
	v.ctx, cancel = context.WithTimeout(s.life, Patience)
	v.ctx, v.end = context.WithCancelCause(v.ctx)
	s.known[broker] = v
	s.watched.Add(1)
	s.metrics.suspected.Inc()
	s.opts.Logger.Debug("broker seems to have died: a connection with it has ended", "broker", broker, "epoch", b.Epoch)
	s.wg.Go(func() {
		defer cancel()
		s.watch(broker, v)
	})
}

// inService tells whether clients are sent to a broker that does not mean to stop.
func inService(b *metadata.Broker) bool { return b != nil && !b.Fenced && !b.InControlledShutdown }

// Published says that requests are answered from an image.
func (s *Suspects) Published(image *metadata.Image) {
	if s.watched.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, v := range s.known {
		if b := image.Broker(id); !inService(b) || b.Epoch != v.epoch {
			v.end(errDecided)
		}
	}
}

// Suspect tells whether a broker is one.
func (s *Suspects) Suspect(broker int32) bool {
	if s.watched.Load() == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.known[broker]
	return v != nil && v.ctx.Err() == nil
}

// Any tells whether there are suspects.
func (s *Suspects) Any() bool { return s.watched.Load() > 0 }

// Await returns when there is no suspect, ctx ends, or Patience is over. What was read from
// an image before must be read again.
func (s *Suspects) Await(ctx context.Context) {
	if !s.Any() {
		return
	}
	s.metrics.awaited.Inc()
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	for v := s.one(); v != nil && ctx.Err() == nil; v = s.one() {
		select {
		case <-v.ctx.Done():
		case <-ctx.Done():
		}
	}
}

// one is any suspicion that has not ended.
func (s *Suspects) one() *suspicion {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.known {
		if v.ctx.Err() == nil {
			return v
		}
	}
	return nil
}

// watch ends a suspicion when the broker answers, and forgets it when it has ended.
func (s *Suspects) watch(broker int32, v *suspicion) {
	if s.reached(v.ctx, broker) {
		v.end(errAnswers)
	}
	s.watched.Add(-1)
	why := context.Cause(v.ctx)
	s.opts.Logger.Debug("broker is not suspected any more", "broker", broker, "epoch", v.epoch, "reason", why)
	if errors.Is(why, context.DeadlineExceeded) {
		rest(s.life, suspectRest)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[broker] == v {
		delete(s.known, broker)
	}
}

// reached asks a broker until it answers well; false if ctx ends before.
func (s *Suspects) reached(ctx context.Context, broker int32) bool {
	return twiceInARow(ctx, 0, func(ctx context.Context) bool { return s.answers(ctx, broker) })
}

// answers has a broker answer a request: its address may accept connections for a while after
// its process was killed.
func (s *Suspects) answers(ctx context.Context, broker int32) bool {
	c := NewClient(Options{Dial: s.opts.Dial, Timeout: Patience, Direct: true}, func() (string, bool) { return s.opts.Address(broker) })
	defer c.Close()
	_, err := c.Request(ctx, kmsg.NewPtrApiVersionsRequest())
	return err == nil
}

// rest sleeps, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
