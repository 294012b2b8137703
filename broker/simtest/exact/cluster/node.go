package cluster

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
)

// node is a machine: a disk, and at most one process at a time.
type node struct {
	w           *world
	id          int32
	fs          *vfs.CrashFS
	b           *broker // nil while down
	life        int     // counts processes
	pausedUntil time.Time
	crashed     bool // during the event at hand
	recovering  bool // see RecoveredTailUnsynced
	moving      bool // see MoveUnsynced
	cleaning    bool // see CleanedUnsynced
	alone       bool // see FlushAloneUnsynced
	// marksStay are logs whose directories may have gone without their marks; see retire.
	marksStay map[replica.TopicIDPartition]bool

	full                 bool          // the disk is
	staysFull            bool          // when the faults have ended; see withoutRoom
	wellAt               time.Time     // when the broker must have noticed that it is no more
	doomed, lost         bool          // it will lose, has lost what it had not synced; see faults.go
	away                 time.Duration // for how long it stays down next time, at least
	dieAtSync, dieAtCall int           // at which of them from now on; 0: not planned
}

func newNode(w *world, id int32) *node {
	n := &node{w: w, id: id, marksStay: map[replica.TopicIDPartition]bool{}, fs: vfs.NewCrash(rand.NewPCG(w.opts.Seed, uint64(100+id)))}
	n.fs.SetPageSize(w.plan.pageSize)
	n.fs.SetClock(func() time.Time { return w.now })
	n.fs.OnSync(n.onSync)
	return n
}

// up tells whether a process runs here, and is not paused.
func (n *node) up() bool { return n.b != nil && !n.crashed && !n.w.now.Before(n.pausedUntil) }

// start begins a process.
func (n *node) start() {
	if n.b != nil {
		return
	}
	n.life++
	n.w.running = n
	b := newBroker(n)
	n.b = b
	if err := b.open(); err != nil {
		b.startFailed(err)
		return
	}
	b.register()
	b.pull()
}

// disturbed tells whether the disk is full, or the broker need not have noticed that it is
// no more.
func (n *node) disturbed() bool { return n.full || n.w.now.Before(n.wellAt) }

// process is the file system of the next process.
func (n *node) process() vfs.FS {
	return n.w.brokenFS(n, hookfs.Wrap(n.fs.Process(), true, n.onCall))
}

// onSync lets the process die in the middle of the sync that was drawn.
func (n *node) onSync(p vfs.SyncPoint) error {
	if n.dieAtSync > 0 {
		if n.dieAtSync--; n.dieAtSync == 0 {
			n.w.tracef("at %s of %s, done %v:", p.Op, p.Name, p.Done)
			n.crash()
		}
	}
	return nil
}

// onCall lets the process die before the call that was drawn.
func (n *node) onCall(c *hookfs.Call) error {
	if n.dieAtCall > 0 && !strings.HasSuffix(c.Name, ".klamm_disk_failed") {
		if n.dieAtCall--; n.dieAtCall == 0 {
			n.w.tracef("before %s of %s:", c.Op, c.Name)
			n.crash()
		}
	}
	return nil
}

// crash ends the process, by a kill or with the power.
func (n *node) crash() {
	if n.crashed {
		return
	}
	if !n.w.plan.fsync || n.w.rand.IntN(2) == 0 {
		n.w.tracef("kill of %d", n.id)
		n.w.report.Kills++
		n.fs.Kill()
	} else {
		n.powerCut()
	}
	n.crashed = true
}

func (n *node) powerCut() {
	n.w.tracef("power cut of %d", n.id)
	n.w.report.PowerCuts++
	if n.w.rand.IntN(3) == 0 {
		n.fs.PowerCutLosingAll()
	} else {
		n.fs.PowerCut()
	}
}

// died buries the process. Connections to it break, so the controller hears of it at once,
// or only when its session ends.
func (n *node) died() {
	w := n.w
	n.crashed = false
	n.pausedUntil = time.Time{}
	if b := n.b; b != nil {
		for _, d := range b.dirs {
			d.Abandon()
		}
		if w.rand.IntN(2) == 0 {
			w.after(w.delay(), "connection lost", func() { w.quorum.connectionLost(n, b.epoch) })
		}
	}
	n.b = nil
	n.life++
	if w.plan.fsync && w.rand.IntN(3) == 0 {
		n.powerCut()
	}
	down := w.delay() + n.away
	n.away = 0
	if !w.calm && w.rand.IntN(3) == 0 {
		down += time.Duration(w.rand.IntN(600)) * time.Millisecond
	}
	w.after(down, "start", n.start)
}
