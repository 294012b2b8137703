package cluster

import (
	"github.com/klamm-mq/klamm/logstore"
)

// directory is a log directory with its committer and keeper, in steps.
type directory struct {
	*logstore.Dir
	b        *broker
	keeper   *logstore.Keeper
	flushing bool // a round is under way or scheduled
	wanted   bool // another one is to follow
	round    *logstore.FlushRound
	synced   bool  // the round's sync is over, with syncErr
	syncErr  error // of it
}

// tick runs the keeper and schedules its next run.
func (d *directory) tick() {
	next := d.keeper.Tick(d.b.w.now)
	d.b.after(next.Sub(d.b.w.now), "tick", d.tick)
}

// wantFlush is Committer.Wake: rounds follow each other, and those who come while one is
// under way share the next.
func (d *directory) wantFlush() {
	if d.flushing {
		d.wanted = true
		return
	}
	d.flushing, d.wanted = true, false
	d.b.after(d.b.w.delay()/4, "begin flush", d.beginFlush)
}

func (d *directory) beginFlush() {
	w := d.b.w
	if d.round = d.BeginFlush(); d.round == nil {
		d.endFlush()
		return
	}
	d.b.after(w.delay(), "sync", func() {
		d.sync()
		if !d.b.n.crashed {
			d.b.after(w.delay()/4, "finish flush", d.finishFlush)
		}
	})
}

func (d *directory) sync() { d.synced, d.syncErr = true, d.round.Sync() }

func (d *directory) finishFlush() {
	if err := d.syncErr; err != nil {
		d.b.w.fail("CleanSync", "sync fails without a fault: %v", err)
	}
	r, err := d.round, d.syncErr
	d.round, d.synced, d.syncErr = nil, false, nil
	d.report(r.Finish(err))
	d.endFlush()
}

// stop ends the round that is under way, as Committer.Stop does, and flushes the rest.
func (d *directory) stop() {
	if d.round != nil {
		if !d.synced {
			d.sync()
		}
		d.finishFlush()
	}
	d.report(d.Flush())
}

// report tells the replicas what has been flushed.
func (d *directory) report(flushed []logstore.FlushedLog) {
	for _, f := range flushed {
		if p := d.b.ofLog(f.Log); p != nil {
			d.b.carryOut(p, p.FlushDone(d.b.w.now))
		}
	}
}

func (d *directory) endFlush() {
	d.flushing = false
	if d.wanted {
		d.wantFlush()
	}
	d.b.flushed()
}
