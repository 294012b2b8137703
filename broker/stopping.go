package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

const (
	// shutdownGrace bounds parts of a stop that have no deadline of their own.
	shutdownGrace = time.Second
	// stepPatience is how long a stop waits for one of its steps. All take milliseconds, unless
	// they wait for somebody who waits for a disk that hangs.
	stepPatience = 5 * time.Second
	// replicasPatience is more than they allow themselves, see replica.Manager.Close.
	replicasPatience = 30 * time.Second
	// hungPatience is for the steps after one that was left behind.
	hungPatience = time.Second
)

// ending ends a part of the broker that has been started.
type ending struct {
	what     string
	end      func(context.Context) error
	patience time.Duration // 0: that of any step
}

// onStop registers what ends a part that has been started.
func (b *Broker) onStop(what string, end func(context.Context) error) {
	b.undo = append(b.undo, ending{what: what, end: end})
}

// Stop ends the broker: leaderships are handed over where there is another broker,
// requests under way are answered, everything is flushed. What is not done when ctx
// ends is cut short; nothing acknowledged is lost by that. Further calls wait for the
// first and answer the same.
//
// Whoever waits for a disk that hangs is left behind, and the directories there are left as a
// crash would leave them: an error that wraps KAFKA_STORAGE_ERROR.
func (b *Broker) Stop(ctx context.Context) error {
	if b.stopping.CompareAndSwap(false, true) {
		b.ready.Store(false)
		doing := "stopping"
		b.progress.Store(&doing)
		b.stopErr = b.shutdown(ctx)
		close(b.stopped)
	}
	<-b.stopped
	return b.stopErr
}

func (b *Broker) shutdown(ctx context.Context) error {
	var errs []error
	patience := stepPatience
	for i := len(b.undo) - 1; i >= 0; i-- {
		e := b.undo[i]
		err, ended := within(max(patience, e.patience), e.what, func() error { return e.end(ctx) })
		if !ended {
			b.log.Error("a part of the broker does not end, and is left behind", "part", e.what)
			patience = hungPatience
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	b.undo = nil
	err, ended := within(patience, "tasks", func() error { b.tasks.Wait(); return nil })
	if !ended || patience == hungPatience {
		b.log.Error("a disk hangs: whoever waits for it is left behind, this is no clean stop")
	}
	return errors.Join(append(errs, err)...)
}

// within does something, and tells whether it has ended in time.
func within(patience time.Duration, what string, do func() error) (err error, ended bool) {
	done := make(chan error, 1)
	go func() { done <- do() }()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-done:
		return err, true
	case <-timer.C:
		return fmt.Errorf("stop: %s: not ended after %s: %w", what, patience, kafkaerr.KafkaStorageError), false
	}
}
