package exact

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

// The faults that a broker must survive here, and what it must keep:
//
//	kill       between two events, and in    everything, with either durability
//	           the middle of any sync, one
//	           of start included
//	power cut  at the same moments, and      what was acknowledged or read, with
//	           after a kill before the       durability=fsync; with replicated it
//	           next start                    is not promised and not injected
//
// A disk that lies, loses synced bytes or fails is not among them: those are faults of
// other tests, with other promises.

// Break is a way in which a run's broker is broken on purpose.
type Break int8

// The breaks. Each must be found by the judge within a few hundred seeds.
const (
	Nothing Break = iota
	// AckBeforeFlush acknowledges a batch when it is written.
	AckBeforeFlush
	// RecoveredTailUnsynced takes what recovery kept as flushed without syncing it.
	RecoveredTailUnsynced
	// MarksNotLowered truncates a log without lowering its checkpoints first.
	MarksNotLowered
)

// fault draws the next misfortune, and comes back.
func (w *world) fault() {
	if w.calm {
		return
	}
	w.after(w.plan.maxDelay*2, "fault", w.fault)
	if w.broker == nil {
		return
	}
	switch n := w.rand.IntN(20); {
	case n < 3:
		w.tracef("write back")
		w.fs.Writeback()
	case n < 6:
		if p := w.broker.partitions[w.rand.Int32N(w.plan.partitions)]; !p.follower {
			w.tracef("demote partition %d", p.index)
			w.broker.demote(p)
		}
	case n == 6:
		w.crash("between two events")
	case n == 7:
		w.dieAtSync = 1 + w.rand.IntN(6)
	}
}

// crash ends the process: by a kill, or with the power.
func (w *world) crash(how string) {
	if !w.plan.powerCuts || w.rand.IntN(2) == 0 {
		w.tracef("kill %s", how)
		w.fs.Kill()
	} else {
		w.tracef("power cut %s", how)
		w.powerCut()
	}
	w.crashed = true
}

func (w *world) powerCut() {
	if w.rand.IntN(3) == 0 {
		w.fs.PowerCutLosingAll()
	} else {
		w.fs.PowerCut()
	}
}

// onSync lets the process die in the middle of the sync that was drawn, of whatever it
// is: a group commit, a checkpoint, a step of recovery.
func (w *world) onSync(p vfs.SyncPoint) error {
	if w.dieAtSync == 0 {
		return nil
	}
	if w.dieAtSync--; w.dieAtSync == 0 {
		w.crash(fmt.Sprintf("at %s of %s, done %v", p.Op, p.Name, p.Done))
	}
	return nil
}

// died buries the process. Whatever it had promised it knows no more; whoever waits for
// an answer asks again. A kill is often followed by a power cut before the next start.
func (w *world) died() {
	w.crashed = false
	w.report.Crashes++
	if b := w.broker; b != nil && b.dir != nil {
		b.dir.Abandon()
	}
	w.broker = nil
	w.life++
	if w.plan.powerCuts && w.rand.IntN(3) == 0 {
		w.tracef("power cut while down")
		w.powerCut()
	}
	for _, p := range w.producers {
		p.disconnected()
	}
	w.after(w.delay(), "restart", w.restart)
}

// brokenFS is fs with the lies of a broken broker.
func (w *world) brokenFS(fs vfs.FS) vfs.FS {
	w.recovering = w.opts.Break == RecoveredTailUnsynced && w.report.Crashes > 0
	if w.opts.Break == Nothing {
		return fs
	}
	return &liar{FS: fs, w: w}
}

// recovered ends the time in which syncs are left out.
func (w *world) recovered() { w.recovering = false }

// liar leaves out what a broken broker forgets.
type liar struct {
	vfs.FS
	w *world
}

// OpenFile gives a file whose syncs are left out during recovery.
func (l *liar) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := l.FS.OpenFile(name, flag, perm)
	if err != nil || !l.w.recovering || !strings.HasSuffix(name, ".log") {
		return f, err
	}
	return &lyingFile{f, l.w}, nil
}

// OpenSyncer gives a syncer that does nothing during recovery.
func (l *liar) OpenSyncer(dir string) (vfs.Syncer, error) {
	s, err := l.FS.OpenSyncer(dir)
	return &lyingSyncer{s, l.w}, err
}

// Rename loses a checkpoint that should have been lowered.
func (l *liar) Rename(from, to string) error {
	if l.w.losingRenames && strings.HasSuffix(to, "-checkpoint") {
		return l.Remove(from)
	}
	return l.FS.Rename(from, to)
}

type lyingFile struct {
	vfs.File
	w *world
}

// Sync does nothing during recovery.
func (f *lyingFile) Sync() error {
	if f.w.recovering {
		return nil
	}
	return f.File.Sync()
}

type lyingSyncer struct {
	vfs.Syncer
	w *world
}

// SyncAll does nothing during recovery, and lays the liar's files bare otherwise.
func (s *lyingSyncer) SyncAll(files []vfs.File) error {
	if s.w.recovering {
		return nil
	}
	bare := make([]vfs.File, len(files))
	for i, f := range files {
		if l, ok := f.(*lyingFile); ok {
			f = l.File
		}
		bare[i] = f
	}
	return s.Syncer.SyncAll(bare)
}
