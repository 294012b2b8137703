package simtest

import (
	"io/fs"
	"strings"
	"time"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

// The faults that a broker must survive here, and what it must keep:
//
//	kill        at any moment, in the middle    everything, with either durability
//	            of any sync of a start, a
//	            stop or a run
//	power cut   at the same moments, and after  what was acknowledged or read, with
//	            a kill before or after the      durability=fsync; with replicated it is
//	            next start                      not promised and not injected
//	failed sync of a log directory; the pages   what was acknowledged or read; the broker
//	            are dropped, yet readable until ends by itself, since it has no other one
//	            the power fails
//	cut network between clients and broker,     everything; clients go on by themselves
//	            in one direction or both
//
// A disk that loses what was synced is not among them: see Break.

// Break is a way in which a run's broker is broken on purpose, to show that the judge
// finds it.
type Break int8

// The breaks.
const (
	Nothing Break = iota
	// LyingDisk answers syncs of segments without doing them.
	LyingDisk
	// LostMetadata answers syncs of the metadata log without doing them.
	LostMetadata
)

// disk is the disk as a broken broker uses it.
func (how Break) disk(fs vfs.FS) vfs.FS {
	switch how {
	case Nothing:
	case LyingDisk:
		return &liar{fs, ".log"}
	case LostMetadata:
		return &liar{fs, ""}
	}
	return fs
}

// liar is a disk that does not sync files whose names end in suffix, nor, where suffix
// is empty, those of the metadata log.
type liar struct {
	vfs.FS
	suffix string
}

func (l *liar) lies(name string) bool {
	if l.suffix == "" {
		return strings.Contains(name, "klamm-metadata/raft")
	}
	return strings.HasSuffix(name, l.suffix) && !strings.Contains(name, "klamm-metadata")
}

// OpenFile gives a file that lies if its name is one of those.
func (l *liar) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := l.FS.OpenFile(name, flag, perm)
	if err != nil || !l.lies(name) {
		return f, err
	}
	return &lyingFile{f}, nil
}

// OpenSyncer gives a syncer that leaves lying files out.
func (l *liar) OpenSyncer(dir string) (vfs.Syncer, error) {
	s, err := l.FS.OpenSyncer(dir)
	return &lyingSyncer{s}, err
}

type lyingFile struct{ vfs.File }

// Sync does nothing.
func (f *lyingFile) Sync() error { return nil }

type lyingSyncer struct{ vfs.Syncer }

// SyncAll syncs the honest files.
func (s *lyingSyncer) SyncAll(files []vfs.File) error {
	var honest []vfs.File
	for _, f := range files {
		if _, lies := f.(*lyingFile); !lies {
			honest = append(honest, f)
		}
	}
	return s.Syncer.SyncAll(honest)
}

// Chaos lets faults happen, drawn from the seed, until the run of p or whatever else
// closes the channels is over. At its end the broker is up.
func (c *Cluster) Chaos(until ...<-chan struct{}) (done <-chan struct{}) {
	over := make(chan struct{})
	c.Go(func() {
		defer close(over)
		for _, ch := range until {
			c.faultsUntil(ch)
		}
		c.broker.setSyncFaults(0, false)
		c.recover()
	})
	return over
}

func (c *Cluster) faultsUntil(ch <-chan struct{}) {
	for {
		timer := time.NewTimer(c.pause(1500 * time.Millisecond))
		select {
		case <-ch:
			timer.Stop()
			return
		case <-c.over.Done():
			timer.Stop()
			panic(stopped{})
		case <-timer.C:
			c.fault()
		}
	}
}

// fault lets one misfortune happen, and ends it.
func (c *Cluster) fault() {
	switch n := c.draw(20); {
	case n < 4:
		c.broker.crashSomehow()
	case n < 11:
		c.broker.setSyncFaults(1+c.draw(30), false)
		c.awaitDeath(5 * time.Second)
	case n < 13:
		c.broker.Stop()
	case n < 14 && !c.opts.KillsOnly:
		c.failSync()
	case n < 17:
		c.cutNetwork()
	default:
		c.tracef("write back")
		c.broker.disk.Writeback()
	}
	c.recover()
}

// setSyncFaults says which sync from now on is the last, 0 for none, and whether the
// next of a directory fails.
func (b *Broker) setSyncFaults(dieAt int, fail bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dieAtSync, b.failSync = dieAt, fail
}

// crashSomehow ends the process one way or the other.
func (b *Broker) crashSomehow() {
	if b.c.draw(2) == 0 {
		b.Kill()
	} else {
		b.PowerCut()
	}
}

// awaitDeath waits until the process has died, and kills it if that takes too long.
func (c *Cluster) awaitDeath(limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.broker.current().ctx.Done():
	case <-timer.C:
		c.broker.setSyncFaults(0, false)
		c.broker.Kill()
	case <-c.over.Done():
		panic(stopped{})
	}
}

// recover starts the broker if it is down. The power may fail before that, and the
// start be cut short.
func (c *Cluster) recover() {
	for c.broker.current().dead() {
		if !c.sleep(c.pause(2 * time.Second)) {
			panic(stopped{})
		}
		switch c.draw(6) {
		case 0, 1:
			c.broker.PowerCut()
		case 2:
			c.broker.setSyncFaults(1+c.draw(10), false)
		}
		c.broker.Start()
	}
}

// failSync lets the disk fail in the middle of a group commit. The broker must notice
// and end by itself. What the disk dropped is gone with the power; after a kill it can
// still be read, and yet no later sync writes it.
func (c *Cluster) failSync() {
	l := c.broker.current()
	if l.dead() {
		return
	}
	c.broker.setSyncFaults(0, true)
	timer := time.NewTimer(10 * time.Second)
	defer timer.Stop()
	select {
	case <-l.b.Failed():
		c.tracef("the broker gives up: %v", l.b.Err())
	case <-timer.C: // nothing was produced
	case <-l.ctx.Done():
	}
	c.broker.setSyncFaults(0, false)
	c.broker.crashSomehow()
}

// cutNetwork cuts clients and broker from each other for a while.
func (c *Cluster) cutNetwork() {
	from, to := "client", c.machine.Name
	if c.draw(2) == 0 {
		from, to = to, from
	}
	c.tracef("network cut from %s to %s", from, to)
	c.machine.Net.Cut(from, to)
	if c.draw(2) == 0 {
		c.tracef("and back")
		c.machine.Net.Cut(to, from)
	}
	c.sleep(c.pause(15 * time.Second))
	c.tracef("network heals")
	c.machine.Net.HealAll()
}
