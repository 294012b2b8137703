package exact

import (
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
)

// The faults that a broker must survive here, and what it must keep:
//
//	kill            between two events, in the    everything, with either durability
//	                middle of any sync, before
//	                any other call on the disk
//	power cut       at the same moments, and      what was acknowledged or read, with
//	                after a kill before the       durability=fsync; with replicated it
//	                next start                    is not promised
//	full disk       for a while                   everything; appends are refused until
//	                                              there is room again
//	no descriptors  for a while, now and then     the same; nothing goes offline
//	failing sync    one, of anything: what it     what was acknowledged or read; that
//	                was to write is lost with     directory is offline until a restart,
//	                the next power cut, if that   others go on
//	                has been written down
//	clock           steps forward and back        everything
//
// A disk that lies or loses synced bytes is not among them: those are faults of other
// tests, with other promises.

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
	// DeletionsNotPersisted acknowledges a DeleteRecords whose log start is in memory only.
	DeletionsNotPersisted
	// CleanedUncommitted cleans up to the log end.
	CleanedUncommitted
	// CleanedUnsynced puts cleaned segments in place without syncing them.
	CleanedUnsynced
	// EarlyTombstones lets tombstones go with their first cleaning.
	EarlyTombstones
)

// fault draws the next misfortune, and comes back.
func (w *world) fault() {
	if w.calm {
		return
	}
	w.after(w.plan.maxDelay*2, "fault", w.fault)
	switch n := w.rand.IntN(32); {
	case n < 3:
		w.tracef("write back")
		w.fs.Writeback()
	case n < 6:
		w.demoteOne()
	case n == 6:
		w.kill("between two events")
	case n == 7:
		w.dieAtSync = 1 + w.rand.IntN(6)
	case n == 8:
		w.dieAtCall = 1 + w.rand.IntN(40)
	case n == 9 && w.broker != nil && !w.cleanings.under: // a stop waits for it
		w.stopCleanly()
	case n == 10:
		w.deleteTopic()
	case n < 13:
		w.createTopic()
	case n < 15:
		w.alterTopic()
	case n == 15 && w.plan.fullDisks:
		w.fill()
	case n == 16 && w.plan.noFiles:
		w.takeDescriptors()
	case n == 17 && w.plan.badDisks:
		w.failAtSync = 1 + w.rand.IntN(8)
	case n == 18:
		w.skew = []int64{0, 3_600_000, -3_600_000}[w.rand.IntN(3)]
		w.tracef("the clock is off by %d ms", w.skew)
	}
}

func (w *world) demoteOne() {
	if w.broker == nil || len(w.broker.partitions) == 0 {
		return
	}
	p := w.broker.partitions[w.rand.IntN(len(w.broker.partitions))]
	if p.following || p.Failure() != nil {
		return
	}
	w.tracef("demote %s", p)
	w.broker.demote(p)
}

// fill leaves little room on the disk, for a while.
func (w *world) fill() {
	if w.full {
		return
	}
	room, err := w.fs.Space("/")
	if err != nil {
		w.fail("Harness", "space: %v", err)
		return
	}
	w.tracef("the disk fills")
	w.full = true
	w.report.Full++
	w.fs.SetCapacity(int64(room.TotalBytes-room.AvailBytes) + int64(w.rand.IntN(1500)))
	w.after(w.plan.maxDelay*10, "room again", func() {
		w.full = false
		w.fs.SetCapacity(0)
		w.endDisturbance()
	})
}

// takeDescriptors lets every other open fail, for a while.
func (w *world) takeDescriptors() {
	if w.noFiles {
		return
	}
	w.tracef("no descriptors are left")
	w.noFiles = true
	w.report.NoFiles++
	w.after(w.plan.maxDelay*6, "descriptors again", func() {
		w.noFiles = false
		w.endDisturbance()
	})
}

// endDisturbance excuses errors for as long as the broker may need to notice.
func (w *world) endDisturbance() { w.wellAt = w.now.Add(2 * w.plan.keeper.SpaceInterval) }

// disturbed tells whether a fault goes on, or the broker need not have noticed its end.
func (w *world) disturbed() bool { return w.full || w.noFiles || w.now.Before(w.wellAt) }

// kill ends the process, if there is one, as crash does.
func (w *world) kill(how string) {
	if w.broker != nil {
		w.crash(how)
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
// is: a group commit, a checkpoint, a step of recovery. Or the disk fails it.
func (w *world) onSync(p vfs.SyncPoint) error {
	if w.failAtSync > 0 && !p.Done && p.Name != "/" { // names above the directories are not theirs to write again
		if w.failAtSync--; w.failAtSync == 0 {
			w.tracef("%s of %s fails", p.Op, p.Name)
			w.diskErrors++
			return syscall.EIO
		}
	}
	if w.dieAtSync == 0 {
		return nil
	}
	if w.dieAtSync--; w.dieAtSync == 0 {
		w.crash(fmt.Sprintf("at %s of %s, done %v", p.Op, p.Name, p.Done))
	}
	return nil
}

// diskFailed is the mark that a failed sync leaves. A process that dies between the two,
// which are microseconds apart, is not among the faults: the next one sees bytes that are
// gone with the power, and nothing that would tell them from others.
const diskFailed = ".klamm_disk_failed"

// process is the file system of the next process.
func (w *world) process() vfs.FS { return hookfs.Wrap(w.fs.Process(), true, w.onCall) }

// onCall lets the process die before the call that was drawn, or find no descriptor.
func (w *world) onCall(c *hookfs.Call) error {
	if w.dieAtCall > 0 && !strings.HasSuffix(c.Name, diskFailed) {
		if w.dieAtCall--; w.dieAtCall == 0 {
			w.crash(fmt.Sprintf("before %s of %s", c.Op, c.Name))
		}
	}
	if w.noFiles && (c.Op == hookfs.Open || c.Op == hookfs.SyncDir) && w.rand.IntN(3) == 0 {
		return &fs.PathError{Op: string(c.Op), Path: c.Name, Err: syscall.EMFILE}
	}
	return nil
}

// died buries the process. Whatever it had promised it knows no more; whoever waits for
// an answer asks again. A kill is often followed by a power cut before the next start.
func (w *world) died() {
	w.crashed = false
	w.report.Crashes++
	if b := w.broker; b != nil {
		for _, d := range b.dirs {
			d.Abandon()
		}
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

// unsynced tells whether syncs are left out now: of logs.
func (w *world) unsynced() bool {
	return w.recovering || w.cleanings.unsynced
}

// recovered ends the time in which syncs are left out.
func (w *world) recovered() { w.recovering = false }

// liar leaves out what a broken broker forgets.
type liar struct {
	vfs.FS
	w *world
}

// OpenFile gives a file whose syncs are left out during recovery, or a cleaning.
func (l *liar) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := l.FS.OpenFile(name, flag, perm)
	recovering := l.w.recovering && strings.HasSuffix(name, ".log")
	cleaning := l.w.cleanings.unsynced && strings.HasSuffix(name, ".cleaned")
	if err != nil || !recovering && !cleaning {
		return f, err
	}
	return &lyingFile{f, l.w}, nil
}

// OpenSyncer gives a syncer that does nothing during recovery.
func (l *liar) OpenSyncer(dir string) (vfs.Syncer, error) {
	s, err := l.FS.OpenSyncer(dir)
	if err != nil {
		return nil, err
	}
	return &lyingSyncer{s, l.w}, nil
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

// Sync does nothing during recovery, or a cleaning.
func (f *lyingFile) Sync() error {
	if f.w.unsynced() {
		return nil
	}
	return f.File.Sync()
}

type lyingSyncer struct {
	vfs.Syncer
	w *world
}

// SyncAll does nothing during recovery, or a cleaning, and lays the liar's files bare
// otherwise.
func (s *lyingSyncer) SyncAll(files []vfs.File) error {
	if s.w.unsynced() {
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
