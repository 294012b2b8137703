package metalog

import (
	"context"
	"sync"

	"github.com/klamm-mq/klamm/cluster/metadata"
)

// loader hands images to the publishers on one goroutine. While it is busy, or not started
// yet, deltas are merged into one; that one is never larger than the two images it lies
// between.
type loader struct {
	publishers []Publisher
	metrics    *metrics
	wake       chan struct{} // capacity 1
	stop       chan struct{}
	done       chan struct{}

	mu        sync.Mutex
	pending   *metadata.Delta   // from the published image to the newest applied; nil: none
	startAt   metadata.Position // publish nothing older than this …
	started   bool              // … and nothing at all before start was called
	published metadata.Position
	moved     chan struct{} // closed and replaced when published moves
}

func newLoader(publishers []Publisher, m *metrics) *loader {
	return &loader{
		publishers: publishers,
		metrics:    m,
		wake:       make(chan struct{}, 1),
		stop:       make(chan struct{}),
		done:       make(chan struct{}),
		moved:      make(chan struct{}),
	}
}

// push takes over a delta that begins where the last one ended; it is the loader's from now
// on. It does not block.
func (l *loader) push(delta *metadata.Delta) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending == nil {
		l.pending = delta
	} else {
		l.pending.Merge(delta)
	}
	l.signal()
}

// start lets images from pos on be published. The first call decides.
func (l *loader) start(pos metadata.Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.started {
		l.started, l.startAt = true, pos
		l.signal()
	}
}

// isStarted tells whether publishers may have seen an image.
func (l *loader) isStarted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.started
}

func (l *loader) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *loader) run() {
	defer close(l.done)
	for {
		select {
		case <-l.stop:
			return
		case <-l.wake:
			if delta := l.take(); delta != nil {
				l.publish(delta)
			}
		}
	}
}

// take gives the pending delta if it may be published.
func (l *loader) take() *metadata.Delta {
	l.mu.Lock()
	defer l.mu.Unlock()
	delta := l.pending
	if delta == nil || !l.started || delta.Next().Position().Index < l.startAt.Index {
		return nil
	}
	l.pending = nil
	return delta
}

func (l *loader) publish(delta *metadata.Delta) {
	for _, p := range l.publishers {
		p.OnMetadataUpdate(delta, delta.Next())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.published = delta.Next().Position()
	l.metrics.published.Set(float64(l.published.Index))
	close(l.moved)
	l.moved = make(chan struct{})
}

func (l *loader) position() (metadata.Position, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.published, l.moved
}

// wait returns when every publisher has seen an image at pos or later.
func (l *loader) wait(ctx context.Context, pos metadata.Position) error {
	for {
		published, moved := l.position()
		if published.Index >= pos.Index {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.done:
			return ErrClosed
		}
	}
}

// close ends the goroutine after the publication that is in progress.
func (l *loader) close() {
	close(l.stop)
	<-l.done
}
