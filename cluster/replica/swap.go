package replica

import (
	"errors"
	"fmt"
	"sync"

	"github.com/klamm-mq/klamm/logstore"
)

// A replica that moves to another directory changes its log for a copy of it. Those who
// write, wait meanwhile, without a lock and for as long as the disks need for what is left
// to copy, but no longer than finishBound (see finish in moves.go). Those who read, do not: both logs have what lies below
// the offsets that were taken under the lock.

// log is the replica's log. It stays so for whoever holds mu.
func (p *Partition) log() Log { return *p.current.Load() }

// reading runs fn with the log, and again if the log was replaced meanwhile: it is closed
// soon after. For those who do not hold mu.
func (p *Partition) reading(fn func(Log) error) error {
	for {
		log := p.current.Load()
		err := fn(*log)
		if !errors.Is(err, logstore.ErrClosed) || p.current.Load() == log {
			return err
		}
	}
}

// rlockToWrite is mu.RLock for those who write to the log.
func (p *Partition) rlockToWrite() {
	for {
		p.mu.RLock()
		parked := p.parked
		if parked == nil {
			return
		}
		p.mu.RUnlock()
		<-parked
	}
}

// ParkWrites makes those who write wait, and keeps the replica in its role. When it returns
// nobody is writing, until unpark has been called. freeRole ends the latter before. Both may be
// called at any time, and again.
func (p *Partition) ParkWrites() (freeRole, unpark func()) {
	parked := make(chan struct{})
	p.lockRole()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parked = parked
	freeRole = sync.OnceFunc(p.unlockRole)
	return freeRole, sync.OnceFunc(func() {
		p.mu.Lock()
		p.parked = nil // nobody else's: a replica makes one move at a time
		close(parked)
		p.mu.Unlock()
		freeRole()
	})
}

// SwapLog replaces the log by one with the same records, all of them flushed, while writes
// are parked. What may have changed of the old one since is taken over: configuration, and
// what retention has deleted.
//
// The copy may begin later: a crash can take the log start back, and the high watermark, but not
// those that the copy has made durable. What is deleted was below a high watermark.
func (p *Partition) SwapLog(log Log) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.log()
	log.UpdateConfig(p.config.Log)
	if err := log.AdvanceLogStart(int64(old.LogStart())); err != nil {
		return fmt.Errorf("take over the log start of %s-%d: %w", p.opts.Topic, p.opts.ID.Partition, err)
	}
	p.current.Store(&log)
	if start := int64(log.LogStart()); p.hw.Load() < start {
		p.hw.Store(start)
		p.signal()
	}
	return nil
}
