package replica

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// closeBound is how long Close waits for the directories: their last flush, and what goes with
// a clean stop. With what the broker waits for otherwise it is less than systemd waits before it
// kills, with our unit.
const closeBound = 15 * time.Second

// Close flushes and closes every directory, with brokerEpoch in its clean shutdown
// marker. Produces that wait are answered by that flush; fetches and what still waits
// after it are cut off.
//
// A disk that hangs is not waited for, and neither is whoever waits for it: its directory is
// left as a crash would leave it. Nobody can tell then what those may still write who have been
// left behind, so no directory gets a marker.
func (m *Manager) Close(brokerEpoch int64) error {
	ended := within(finishBound, m.endWork)
	if !ended {
		m.opts.Logger.Error("a disk hangs: whoever waits for it is left behind, this is no clean stop")
		m.moves.giveUp()
	}
	m.fetches.Close()
	m.deletes.Close()
	err := m.closeDirectories(brokerEpoch, ended)
	m.produces.Close()
	return err
}

// endWork ends what changes logs by itself.
func (m *Manager) endWork() {
	var all sync.WaitGroup
	for _, end := range []func(){m.isr.stop, m.creations.stop, m.fetchers.stop, m.moves.close, m.stopCleaner} {
		all.Go(end)
	}
	all.Wait()
}

// within runs f, and tells whether it has ended in time.
func within(bound time.Duration, f func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// closeDirectories closes them side by side: one that hangs holds up no other.
func (m *Manager) closeDirectories(brokerEpoch int64, clean bool) error {
	errs := make([]error, len(m.dirs))
	var all sync.WaitGroup
	for i, d := range m.dirs {
		all.Go(func() {
			result := make(chan error, 1)
			if within(closeBound, func() { result <- m.closeDirectory(d, brokerEpoch, clean) }) {
				errs[i] = <-result
				return
			}
			m.opts.Logger.Error("log directory hangs and is left as a crash would leave it", "dir", d.Path())
			errs[i] = fmt.Errorf("close log directory %s: it has not answered for %s: %w", d.Path(), closeBound, kafkaerr.KafkaStorageError)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (m *Manager) closeDirectory(d *directory, brokerEpoch int64, clean bool) error {
	if d.committer == nil { // never saw metadata
		return d.Close(time.Now(), brokerEpoch)
	}
	d.committer.Stop()
	m.onFlushed(d.Flush())
	for _, h := range m.all() {
		if h.at().dir == d {
			m.carryOut(h, h.Retire(kafkaerr.NotLeaderOrFollower))
		}
	}
	d.keeper.Stop()
	if !clean {
		d.Abandon()
		return nil
	}
	return d.Close(time.Now(), brokerEpoch)
}
