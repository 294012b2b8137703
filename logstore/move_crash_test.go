package logstore

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/offset"
)

// TestMoveSurvivesAnyCrash moves a log that is in use, once for each change of the disk that
// the move makes, and there lets the process die or the power fail. The next start must
// find the log, with all that was acknowledged and what its producers have sent, exactly
// once, and can go on with the move.
func TestMoveSurvivesAnyCrash(t *testing.T) {
	for _, end := range []string{"kill", "power cut", "power cut that loses all"} {
		for _, durability := range []Durability{DurabilityFsync, DurabilityReplicated} {
			t.Run(fmt.Sprint(end, "/", durability), func(t *testing.T) {
				whole := newMoveRun(t, 0, end, durability)
				whole.live()
				whole.recover()
				for at := 1; at <= whole.changes && !t.Failed(); at++ {
					r := newMoveRun(t, at, end, durability)
					r.live()
					r.recover()
				}
				t.Logf("%d changes of the disk", whole.changes)
			})
		}
	}
}

// moveRun is one life in which a log is moved, and what came of it.
type moveRun struct {
	t       *testing.T
	fs      *vfs.CrashFS
	end     string // how it ends
	at      int    // with which change of the disk; 0: not at all
	changes int
	crashed bool
	config  Config
	id      ID
	now     time.Time

	dirs     []*Dir
	sent     [][]byte // batches by their number
	ends     []int64  // of the batches in the log
	acked    int      // how many of them
	deleted  int64    // log start that is durable
	moved    bool     // Leave has returned
	sequence int32
}

func newMoveRun(t *testing.T, at int, end string, durability Durability) *moveRun {
	r := &moveRun{
		t: t, fs: vfs.NewCrash(rand.NewPCG(uint64(at), 7)), at: at, end: end,
		config: DefaultConfig(), id: testID("t", 0), now: epochTime,
	}
	r.fs.SetPageSize(64)
	r.fs.SetClock(func() time.Time { return r.now })
	r.config.SegmentBytes, r.config.IndexIntervalBytes = 900, 100
	r.config.Durability = durability
	return r
}

// hook ends the life before a change of the disk.
func (r *moveRun) hook(c *hookfs.Call) error {
	switch c.Op {
	case hookfs.Rename, hookfs.Sync, hookfs.SyncDir, hookfs.Write, hookfs.Truncate, hookfs.Remove, hookfs.RemoveAll:
	default:
		return nil
	}
	if r.changes++; r.changes != r.at || len(r.dirs) < 2 {
		return nil
	}
	r.cut()
	return nil
}

func (r *moveRun) cut() {
	r.crashed = true
	switch r.end {
	case "kill":
		r.fs.Kill()
	case "power cut":
		r.fs.PowerCut()
	default:
		r.fs.PowerCutLosingAll()
	}
}

func (r *moveRun) open(fs vfs.FS) (logs, futures []*Log) {
	r.t.Helper()
	r.dirs = nil
	opened := map[*Dir]OpenReport{}
	for i, path := range []string{"/a", "/b"} {
		o := testOptions(fs)
		o.Path, o.Rand = path, &stream{seed: uint64(r.at + 1000*i)}
		d, err := OpenDir(o)
		if err == nil {
			opened[d], err = d.OpenLogs(context.Background(), OpenLogsParams{Now: r.now, Threads: 1, Config: func(ID) Config { return r.config }})
			r.dirs = append(r.dirs, d)
		}
		if err != nil && !r.crashed {
			r.t.Fatalf("change %d: open %s: %v", r.at, path, err)
		}
	}
	failed := 0
	for _, d := range r.dirs {
		logs, futures = append(logs, opened[d].Opened...), append(futures, opened[d].Futures...)
		failed += len(opened[d].Failed)
	}
	if failed > 0 && len(logs) != 1 {
		r.t.Errorf("change %d: %d logs and %d failures found", r.at, len(logs), failed)
	}
	return logs, futures
}

// live appends, moves, and appends again, until its end.
func (r *moveRun) live() {
	r.open(hookfs.Wrap(r.fs.Process(), true, r.hook))
	r.changes = 0
	a, b := r.dirs[0], r.dirs[1]
	log, err := a.CreateLog(r.now, r.id, r.config)
	if r.do(err); r.crashed {
		return
	}
	r.appendTo(log, 12)
	r.deleteTo(log, 2)
	m, err := b.BeginMove(r.now, log)
	if r.do(err); r.crashed {
		return
	}
	for i := 0; !r.crashed && m.Lag() > 0; i++ {
		_, err := m.Copy(r.now, 300)
		r.do(err)
		if i%4 != 3 {
			r.do(m.Flush(i%2 == 0))
		}
		if i%3 == 0 {
			r.appendTo(log, 1)
		}
		if i == 4 {
			r.do(m.Settle(r.now))
			r.deleteTo(log, 5)
		}
	}
	if r.crashed {
		return
	}
	r.appendTo(log, 2)
	unflushed := r.send(log) // what is not acknowledged when Finish begins
	moved, err := m.Finish(r.now, offset.HighWatermark(log.Flushed()))
	r.do(err)
	if r.crashed {
		return
	}
	r.do(m.Leave(r.now))
	if r.crashed {
		return
	}
	r.moved = true
	if !unflushed || int64(moved.Flushed()) != r.ends[len(r.ends)-1] {
		r.t.Errorf("the new log is flushed up to %d, its last record ends at %d", moved.Flushed(), r.ends[len(r.ends)-1])
	}
	r.acked = len(r.ends)
	r.appendTo(moved, 4)
	r.do(b.checkpointPromises())
	r.do(a.checkpointPromises())
	r.do(a.ForgetMoved(r.id))
	r.appendTo(moved, 1)
}

func (r *moveRun) do(err error) {
	r.t.Helper()
	if err != nil && !r.crashed {
		r.t.Fatalf("change %d of %d: %v", r.changes, r.at, err)
	}
}

// ofEarlier is how many batches a first producer sends. In the end none of them is in the
// log any more.
const ofEarlier = 3

// send appends a batch.
func (r *moveRun) send(l *Log) bool {
	if r.crashed {
		return false
	}
	r.now = r.now.Add(time.Second)
	producer := int64(9)
	if len(r.ends) < ofEarlier {
		producer = 8
	}
	records := producedBy(&batch.Producer{ID: producer, BaseSequence: r.sequence}, r.now, fmt.Sprint("value ", r.sequence), "and more")
	sent := append([]byte(nil), records...)
	info, err := l.AppendAsLeader(AppendParams{Now: r.now, Records: records, LeaderEpoch: 3, RequestVersion: 12})
	if r.do(err); r.crashed || err != nil {
		return false
	}
	r.sequence += 2
	r.sent, r.ends = append(r.sent, sent), append(r.ends, info.LastOffset+1)
	return true
}

// appendTo appends batches that are acknowledged when they are flushed.
func (r *moveRun) appendTo(l *Log, n int) {
	for range n {
		if !r.send(l) {
			return
		}
		l.dir.wantFlush(l)
		for range 2 { // the second may find what the first was too late for
			for _, f := range l.dir.Flush() {
				if !r.crashed && f.Log == l && int64(f.Flushed) == r.ends[len(r.ends)-1] {
					r.acked = len(r.ends)
				}
			}
		}
		r.do(l.dir.checkpointPromises())
	}
}

func (r *moveRun) deleteTo(l *Log, batches int) {
	if r.crashed {
		return
	}
	r.do(l.AdvanceLogStart(r.ends[batches-1]))
	r.do(l.dir.PersistLogStarts(l))
	if !r.crashed {
		r.deleted = r.ends[batches-1]
	}
	_, err := l.Retain(r.now, offset.HighWatermark(l.Flushed()))
	r.do(err)
}

// recover starts again, judges, goes on with the move if there is one, and starts once more.
func (r *moveRun) recover() {
	if r.t.Failed() {
		return
	}
	if !r.crashed { // the move is over: end it there
		r.cut()
	}
	r.crashed = false
	l, futures := r.find(r.open(r.fs.Process()))
	if l == nil {
		return
	}
	r.judge(l)
	for _, f := range futures {
		if l.Dir() == f.Dir() {
			r.t.Errorf("change %d: a copy beside its original", r.at)
			return
		}
		l = r.goOn(l, f)
	}
	r.appendTo(l, 3)
	want := l.Dir().Path()
	for _, d := range r.dirs {
		d.Abandon()
	}
	logs, futures := r.open(r.fs.Process())
	if len(logs) != 1 || len(futures) != 0 || logs[0].Dir().Path() != want {
		r.t.Fatalf("change %d: %d logs and %d copies after recovery", r.at, len(logs), len(futures))
	}
	r.judge(logs[0])
}

// goOn finishes a move that an earlier life has begun.
func (r *moveRun) goOn(l, future *Log) *Log {
	m, err := future.Dir().BeginMove(r.now, l)
	r.do(err)
	moved, err := m.Finish(r.now, 0)
	r.do(err)
	r.do(m.Leave(r.now))
	r.do(l.Dir().ForgetMoved(r.id))
	r.judge(moved)
	return moved
}

// find takes one of the logs found and removes the other, as a broker does.
func (r *moveRun) find(logs, futures []*Log) (*Log, []*Log) {
	if len(logs) == 0 {
		if r.acked > 0 {
			r.t.Errorf("change %d: the log is lost, %d batches were acknowledged", r.at, r.acked)
		}
		return nil, nil
	}
	l := logs[0]
	for _, other := range logs[1:] {
		worse := other
		if cmp.Or(other.Outdoes(l), -1) > 0 {
			l, worse = other, l
		}
		r.do(worse.Dir().DeleteLogs(r.now, worse))
	}
	if r.moved && l.Dir().Path() != "/b" {
		r.t.Errorf("change %d: the log was moved and is found in %s", r.at, l.Dir().Path())
	}
	return l, futures
}

// judge looks for what was acknowledged, and for what the log knows of its producer.
func (r *moveRun) judge(l *Log) {
	r.t.Helper()
	start, end := int64(l.LogStart()), int64(l.LogEnd())
	if start < r.deleted {
		r.t.Errorf("change %d: the log begins at %d, records were deleted up to %d", r.at, start, r.deleted)
	}
	if r.acked > 0 && end < r.ends[r.acked-1] {
		r.t.Errorf("change %d: the log ends at %d, %d was acknowledged", r.at, end, r.ends[r.acked-1])
	}
	views, err := readAll(l, start, end, 1<<20)
	if err != nil {
		r.t.Fatalf("change %d: read: %v", r.at, err)
	}
	for _, v := range views {
		i := int(v.BaseSequence()) / 2
		if i >= len(r.ends) {
			continue // of an append whose answer the crash has kept back
		}
		if v.NextOffset() != r.ends[i] || string(v[61:]) != string(r.sent[i][61:]) {
			r.t.Errorf("change %d: batch %d is another one at %d", r.at, i, v.BaseOffset())
		}
	}
	if n := int64(len(views)) * 2; n != end-start {
		r.t.Errorf("change %d: %d records in [%d, %d)", r.at, n, start, end)
	}
	r.judgeProducers(l)
}

// judgeProducers sends again what was acknowledged last of each. Afterwards the run goes on
// behind what the log has.
func (r *moveRun) judgeProducers(l *Log) {
	for i := range r.acked {
		if i < ofEarlier-2 || i >= ofEarlier && i < r.acked-3 {
			continue
		}
		info, err := l.AppendAsLeader(AppendParams{Now: r.now, Records: append([]byte(nil), r.sent[i]...), LeaderEpoch: 3, RequestVersion: 12})
		if err != nil || !info.Duplicate || info.LastOffset+1 != r.ends[i] {
			r.t.Errorf("change %d: batch %d again: %+v, %v", r.at, i, info, err)
		}
	}
	kept := 0
	for kept < len(r.ends) && r.ends[kept] <= int64(l.LogEnd()) {
		kept++
	}
	r.ends, r.sent, r.sequence = r.ends[:kept], r.sent[:kept], int32(l.LogEnd())
}
