package logstore

import (
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
	"github.com/klamm-mq/klamm/protocol/offset"
)

// TestMoveBackIsNeverForgotten: a log has moved from /a to /b, and is sent back to /a before
// metadata names /b. At each change of the disk that this makes in /a, the power fails, and then
// the disk of /b is missing. A start must know that the log was in /a, or find its copy there:
// else it would begin an empty one, for metadata names /a.
func TestMoveBackIsNeverForgotten(t *testing.T) {
	for _, end := range []string{"kill", "power cut", "power cut that loses all"} {
		t.Run(end, func(t *testing.T) {
			whole := newMoveRun(t, 0, end, DurabilityFsync)
			whole.moveBack(0)
			for at := 1; at <= whole.changes && !t.Failed(); at++ {
				newMoveRun(t, at, end, DurabilityFsync).moveBack(at)
			}
			t.Logf("%d changes of the disk", whole.changes)
		})
	}
}

// moveBack lives until change at of the way back; 0: until it is over.
func (r *moveRun) moveBack(at int) {
	r.at = 0
	r.open(hookfs.Wrap(r.fs.Process(), true, r.hook))
	a, b := r.dirs[0], r.dirs[1]
	log, err := a.CreateLog(r.now, r.id, r.config)
	r.do(err)
	r.appendTo(log, 4)
	there := r.moveTo(b, log)
	r.appendTo(there, 2)
	if r.t.Failed() {
		return
	}
	r.at, r.changes = at, 0
	if m, err := a.BeginMove(r.now, there); err == nil {
		_, err = m.Copy(r.now, 300)
		r.do(err)
		if !r.crashed {
			r.do(m.Settle(r.now))
		}
	} else {
		r.do(err)
	}
	if !r.crashed {
		r.cut()
	}
	r.at, r.crashed = at, false
	r.judgeAlone()
	r.recover()
}

// moveTo is a whole move.
func (r *moveRun) moveTo(to *Dir, log *Log) *Log {
	m, err := to.BeginMove(r.now, log)
	r.do(err)
	there, err := m.Finish(r.now, offset.HighWatermark(log.Flushed()))
	r.do(err)
	r.do(m.Leave(r.now))
	r.do(to.checkpointPromises())
	return there
}

// judgeAlone starts without /b.
func (r *moveRun) judgeAlone() {
	r.t.Helper()
	a, report := openAt(r.t, r.fs.Process(), "/a", uint64(r.at))
	known := len(report.Futures)
	for _, f := range report.Failed {
		if f.ID.TopicID == r.id.TopicID && f.ID.Partition == r.id.Partition {
			known++
		}
	}
	if known == 0 {
		r.t.Errorf("change %d: nothing in /a tells that the log was there: %+v", r.at, report)
	}
	a.Abandon()
}
