package logstore

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/offset"
)

var (
	crashSeeds = flag.Int("crash.seeds", 150, "how many seeds TestCrashes runs")
	crashSeed  = flag.Uint64("crash.seed", 0, "run this seed alone, verbosely")
)

// TestCrashes lets a directory live many lives, each ended by a kill or a power cut at
// a random moment, most of them in the middle of a sync. The judge knows the batches
// that were appended and what rounds have reported flushed. After each start it demands:
//
//   - nothing is reported as damaged: the disk was honest;
//   - each log holds a piece of a history that it had, without a gap and unaltered;
//   - it ends at or above what was reported flushed, and after a mere kill, at or above
//     all that was appended;
//   - all of it counts as flushed.
//
// While a truncation is under way, the log may come back with the history before it.
func TestCrashes(t *testing.T) {
	if *crashSeed != 0 {
		runCrashes(t, *crashSeed)
		return
	}
	for seed := range *crashSeeds {
		if !t.Run(fmt.Sprint(seed+1), func(t *testing.T) { runCrashes(t, uint64(seed+1)) }) {
			t.Fatalf("repeat with -crash.seed=%d", seed+1)
		}
	}
}

// judgedBatch is one batch that was appended.
type judgedBatch struct {
	base, next int64
	epoch      int32
	bytes      string // as it stands in the log
}

// history is a log as it may be found: a row of batches and where it must reach to.
type history struct {
	batches  []judgedBatch
	start    int64 // of the row: where a log that was started afresh began
	mustHave int64
	cut      int64 // of a history that may come back: the truncation in doubt
	wiped    bool  // it was to make room for a fresh start: of its files any may be left
}

// judgedLog is what the judge knows of a log.
type judgedLog struct {
	id       ID
	now      history
	before   []history // what a truncation in doubt may bring back
	epoch    int32
	appended int64 // end of all that was appended, as a kill leaves it
	deleted  int64 // log start that was reported durable
}

type crashRun struct {
	t       *testing.T
	seed    uint64
	rand    *rand.Rand
	fs      *vfs.CrashFS
	pool    *segment.FilePool // of all lives, for its buffers
	config  Config
	now     time.Time
	d       *Dir
	k       *Keeper
	round   *FlushRound
	logs    []*judgedLog
	crashed bool
	cutIn   int // sync points until the power fails
	lives   int
	trace   []string
}

func runCrashes(t *testing.T, seed uint64) {
	src := rand.NewPCG(seed, 1)
	r := &crashRun{t: t, seed: seed, rand: rand.New(src), fs: vfs.NewCrash(rand.NewPCG(seed, 2)), now: epochTime, pool: segment.NewFilePool(segment.PoolOptions{})}
	r.fs.SetClock(func() time.Time { return r.now })
	r.fs.SetPageSize([]int{32, 128, 512, 4096}[r.rand.IntN(4)])
	r.config = DefaultConfig()
	r.config.SegmentBytes = int32(600 + r.rand.IntN(1500))
	r.config.IndexIntervalBytes = int32(1 + r.rand.IntN(400))
	r.config.RetentionMs = int64(r.rand.IntN(20)) * 1000
	r.config.Durability = Durability(r.rand.IntN(2))
	r.config.FlushMessages = int64(1 + r.rand.IntN(50))
	if seed%2 == 0 {
		r.config.WriteAheadBytes = int32(16 << (seed / 2 % 8))
	}
	r.fs.OnSync(r.onSync)
	defer func() {
		if t.Failed() {
			t.Logf("seed %d, life %d:\n%s", seed, r.lives, strings.Join(r.trace, "\n"))
		}
	}()
	for r.lives = 1; r.lives <= 12 && !t.Failed(); r.lives++ {
		r.live()
	}
}

func (r *crashRun) note(format string, args ...any) {
	r.trace = append(r.trace, fmt.Sprintf(format, args...))
}

// traceWriter puts the directory's log lines into the trace.
type traceWriter struct{ r *crashRun }

func (w traceWriter) Write(p []byte) (int, error) {
	w.r.note("    %s", strings.TrimSpace(string(p)))
	return len(p), nil
}

func (r *crashRun) fail(format string, args ...any) {
	r.t.Helper()
	r.t.Errorf(format, args...)
}

// onSync cuts the power before or after a sync.
func (r *crashRun) onSync(p vfs.SyncPoint) error {
	if r.cutIn--; r.cutIn == 0 && !r.crashed {
		r.note("  power cut at %s %s done=%v", p.Op, p.Name, p.Done)
		r.powerCut()
	}
	return nil
}

func (r *crashRun) powerCut() {
	r.crashed = true
	if r.rand.IntN(4) == 0 {
		r.fs.PowerCutLosingAll()
	} else {
		r.fs.PowerCut()
	}
	for _, l := range r.logs {
		l.appended = -1
	}
}

// live runs one life from start to crash.
func (r *crashRun) live() {
	r.crashed, r.round, r.d, r.k = false, nil, nil, nil
	r.cutIn = 0
	if r.rand.IntN(4) > 0 {
		r.cutIn = 1 + r.rand.IntN(60)
	}
	if !r.open() {
		return
	}
	for range 10 + r.rand.IntN(120) {
		if r.crashed || r.t.Failed() {
			break
		}
		r.now = r.now.Add(time.Duration(r.rand.IntN(900)) * time.Millisecond)
		r.step()
	}
	if r.t.Failed() || r.crashed {
		return
	}
	switch r.rand.IntN(4) {
	case 0:
		r.note("close")
		r.finishRound()
		if r.crashed {
			return
		}
		err := r.d.Close(r.now, int64(r.lives))
		if err != nil && !r.crashed {
			r.fail("close: %v", err)
		}
		if err == nil && !r.crashed {
			for _, l := range r.logs {
				l.settle(l.end())
			}
		}
	case 1:
		r.note("power cut")
		r.powerCut()
	default:
		r.note("kill")
		r.crashed = true
		r.fs.Kill()
	}
}

// open starts the next life and judges what it finds; false if the power fails on the
// way.
func (r *crashRun) open() bool {
	r.note("life %d: open", r.lives)
	o := testOptions(r.fs.Process())
	o.Pool = r.pool
	o.Rand = &stream{seed: uint64(r.lives)}
	o.Logger = slog.New(slog.NewTextHandler(traceWriter{r}, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	d, err := OpenDir(o)
	var report OpenReport
	if err == nil {
		report, err = d.OpenLogs(context.Background(), OpenLogsParams{Now: r.now, Threads: 1, Config: func(ID) Config { return r.config }})
	}
	if r.crashed {
		return false
	}
	if err != nil {
		r.fail("open: %v", err)
		return false
	}
	r.d = d
	r.k = NewKeeper(d, KeeperOptions{
		HighWatermark:         func(l *Log) (offset.HighWatermark, bool) { return offset.HighWatermark(l.Flushed()), true },
		RecoveryPointInterval: 3 * time.Second, RecoveryPointBytes: 3000, RetentionInterval: 4 * time.Second,
		Wake: func() { r.note("  wake") },
	})
	if r.judgeFailed(report); r.crashed {
		return false
	}
	r.judge(report)
	return !r.t.Failed()
}

// judgeFailed lets only those partitions be missing whose deletion was not over.
func (r *crashRun) judgeFailed(report OpenReport) {
	for _, f := range report.Failed {
		if slices.ContainsFunc(r.logs, func(j *judgedLog) bool { return j.id.key() == f.ID.key() }) || f.ID.Topic != "" {
			r.fail("failed: %s %v", f.ID, f.Err)
			continue
		}
		r.note("  %s has lost its name, not its marks", f.ID.TopicID)
		r.check(r.d.SetAsideFailed(r.now, f.ID), "set aside")
	}
}

func (r *crashRun) judge(report OpenReport) {
	found := map[ID]*Log{}
	for _, l := range report.Opened {
		found[l.ID()] = l
	}
	kept := r.logs[:0]
	for _, j := range r.logs {
		l := found[j.id]
		delete(found, j.id)
		if l == nil {
			if j.now.mustHave > 0 && len(j.before) == 0 {
				r.fail("%s is missing, flushed up to %d", j.id, j.now.mustHave)
			}
			continue
		}
		r.judgeLog(j, l)
		kept = append(kept, j)
	}
	r.logs = kept
	for id, l := range found {
		// Its deletion was not durable.
		r.note("  %s is back", id)
		if err := r.d.SetAside(r.now, l); err != nil && !r.crashed {
			r.fail("set aside: %v", err)
		}
	}
}

func (r *crashRun) judgeLog(j *judgedLog, l *Log) {
	start, end := int64(l.LogStart()), int64(l.LogEnd())
	r.note("  found %s [%d, %d) flushed %d, must have %d, appended %d", j.id, start, end, l.Flushed(), j.now.mustHave, j.appended)
	if start < j.deleted {
		r.fail("%s begins at %d, records were deleted durably up to %d", j.id, start, j.deleted)
	}
	views, err := readAll(l, start, end, 1<<20)
	if err != nil {
		r.fail("read %s: %v", j.id, err)
		return
	}
	if int64(l.Flushed()) != end {
		r.fail("%s ends at %d, only %d counts as flushed", j.id, end, l.Flushed())
	}
	var why []string
	for _, h := range append([]history{j.now}, j.before...) {
		problem := h.check(views, start, end)
		if problem == "" && j.appended >= 0 && end < j.appended {
			problem = fmt.Sprintf("a kill lost what was appended up to %d", j.appended)
		}
		if problem == "" {
			j.adopt(h, start, end)
			return
		}
		why = append(why, problem)
	}
	r.fail("%s [%d, %d) is none of its histories: %s", j.id, start, end, strings.Join(why, "; "))
}

// check explains why the batches found in [start, end) cannot be this history.
func (h *history) check(views []batch.View, start, end int64) string {
	if end < h.mustHave {
		return fmt.Sprintf("ends at %d, flushed was %d", end, h.mustHave)
	}
	i := 0
	for i < len(h.batches) && h.batches[i].next <= start {
		i++
	}
	for _, v := range views {
		if i == len(h.batches) {
			return fmt.Sprintf("batch at %d was never appended", v.BaseOffset())
		}
		if b := h.batches[i]; b.base != v.BaseOffset() || b.bytes != string(v) {
			return fmt.Sprintf("batch %d epoch %d where %d epoch %d was", v.BaseOffset(), v.LeaderEpoch(), b.base, b.epoch)
		}
		i++
	}
	last := h.start
	if i > 0 {
		last = h.batches[i-1].next
	}
	if len(views) == 0 && (end >= h.start && end <= last || h.wiped && end == 0) {
		return "" // empty: all of it was deleted, or none of it was ever flushed
	}
	if end != last {
		return fmt.Sprintf("ends at %d, its last batch at %d", end, last)
	}
	return ""
}

// adopt makes what was found the truth.
func (j *judgedLog) adopt(h history, start, end int64) {
	for len(h.batches) > 0 && h.batches[len(h.batches)-1].next > end {
		h.batches = h.batches[:len(h.batches)-1]
	}
	if len(h.batches) == 0 {
		h.start = end
	}
	h.mustHave = end
	if j.appended < 0 {
		j.before = nil // a power cut decides what was in doubt
	}
	j.now, j.appended = h, end
	j.flushed(end)
}

// settle notes that everything up to end is durable, truncations included.
func (j *judgedLog) settle(end int64) {
	j.now.mustHave = max(j.now.mustHave, end)
	j.before = nil
}

func (j *judgedLog) end() int64 {
	if n := len(j.now.batches); n > 0 {
		return j.now.batches[n-1].next
	}
	return j.now.start
}

func (r *crashRun) pick() (*judgedLog, *Log) {
	if len(r.logs) == 0 {
		return nil, nil
	}
	j := r.logs[r.rand.IntN(len(r.logs))]
	return j, r.d.Log(j.id.TopicID, j.id.Partition)
}

// step does one thing.
func (r *crashRun) step() {
	j, l := r.pick()
	switch n := r.rand.IntN(100); {
	case j == nil || n < 2 && len(r.logs) < 3:
		r.create()
	case n < 45:
		r.append(j, l)
	case n < 52:
		r.follow(j, l)
	case n < 62:
		r.beginRound()
	case n < 76:
		r.finishRound()
	case n < 88:
		r.note("tick")
		r.k.Tick(r.now)
	case n < 91:
		r.note("roll %s", j.id)
		r.check(l.Roll(r.now), "roll")
	case n < 95:
		r.truncate(j, l)
	case n < 96:
		to := j.end() + r.rand.Int64N(20)
		r.startAfresh(j, l, to, func() error { return l.TruncateFullyAndStartAt(to) })
	case n < 98:
		r.deleteRecords(j, l)
	case n < 99:
		r.note("write back")
		r.fs.Writeback()
	default:
		r.deleteLog(j, l)
	}
}

// deleteRecords moves the log start, at times durably.
func (r *crashRun) deleteRecords(j *judgedLog, l *Log) {
	o := int64(l.LogStart()) + r.rand.Int64N(int64(l.Flushed())-min(int64(l.Flushed()), int64(l.LogStart()))+1)
	o = min(o, int64(l.LogEnd()))
	r.note("advance %s to %d", j.id, o)
	r.check(l.AdvanceLogStart(o), "advance")
	if r.rand.IntN(2) == 0 && r.check(r.d.PersistLogStarts(l), "persist log starts") {
		r.note("  durably")
		j.deleted = max(j.deleted, o)
	}
}

// check complains about an error that no crash explains.
func (r *crashRun) check(err error, doing string) bool {
	if err != nil && !r.crashed {
		r.fail("%s: %v", doing, err)
	}
	return err == nil && !r.crashed
}

func (r *crashRun) create() {
	id := testID(fmt.Sprintf("t%d-%d", r.lives, len(r.trace)), int32(r.rand.IntN(3)))
	r.note("create %s", id)
	_, err := r.d.CreateLog(r.now, id, r.config)
	if r.check(err, "create") {
		r.logs = append(r.logs, &judgedLog{id: id, epoch: 1})
	}
}

func (r *crashRun) value() string {
	return fmt.Sprintf("%d-%s", len(r.trace), strings.Repeat("x", r.rand.IntN(120)))
}

func (r *crashRun) append(j *judgedLog, l *Log) {
	values := make([]string, 1+r.rand.IntN(3))
	for i := range values {
		values[i] = r.value()
	}
	records := produced(r.now, values...)
	info, err := l.AppendAsLeader(AppendParams{Now: r.now, Records: records, LeaderEpoch: j.epoch, RequestVersion: 12})
	r.note("append %s: %d..%d %v", j.id, info.FirstOffset, info.LastOffset, err)
	j.appendedAll(records, err == nil && !r.crashed)
	r.check(err, "append")
}

// follow appends a row of batches as a follower does.
func (r *crashRun) follow(j *judgedLog, l *Log) {
	var all []byte
	next := j.end()
	for range 1 + r.rand.IntN(4) {
		b := batch.NewBuilder(batch.BuilderOptions{BaseOffset: next, LeaderEpoch: j.epoch})
		b.Append(batch.NewRecord{TimestampMs: r.now.UnixMilli(), Value: []byte(r.value())})
		v, _ := b.Build(nil)
		all = append(all, v...)
		next = v.NextOffset()
	}
	appendTo := l.AppendAsFollower
	if r.rand.IntN(2) == 0 {
		appendTo = l.AppendBehind
	}
	info, err := appendTo(r.now, all, j.epoch)
	if info.FlushAlone {
		l.FlushAlone(false)
	}
	r.note("follow %s: %d..%d %v", j.id, info.FirstOffset, info.LastOffset, err)
	j.appendedAll(all, err == nil && !r.crashed)
	r.check(err, "follow")
}

// appendedAll takes batches into the history. After a crash in the middle of the
// append they may be there or not.
func (j *judgedLog) appendedAll(records []byte, sure bool) {
	for len(records) > 0 {
		v, rest, err := batch.Next(records)
		if err != nil {
			panic(err)
		}
		j.now.batches = append(j.now.batches, judgedBatch{base: v.BaseOffset(), next: v.NextOffset(), epoch: v.LeaderEpoch(), bytes: string(v)})
		records = rest
	}
	if sure {
		j.appended = j.end()
	}
}

func (r *crashRun) beginRound() {
	if r.round == nil {
		r.round = r.d.BeginFlush()
		r.note("begin round: %v", r.round != nil)
	}
}

func (r *crashRun) finishRound() {
	if r.round == nil {
		return
	}
	err := r.round.Sync()
	r.check(err, "sync")
	for _, f := range r.round.Finish(err) {
		r.note("  flushed %s up to %d", f.Log.ID(), f.Flushed)
		if r.crashed {
			continue
		}
		for _, j := range r.logs {
			if j.id == f.Log.ID() {
				j.flushed(int64(f.Flushed))
			}
		}
	}
	r.round = nil
}

// flushed notes a promise. If it lies above a cut in doubt, the cut is durable.
func (j *judgedLog) flushed(end int64) {
	j.now.mustHave = max(j.now.mustHave, end)
	kept := j.before[:0]
	for _, h := range j.before {
		if end <= h.cut {
			h.mustHave = max(h.mustHave, end)
			kept = append(kept, h)
		}
	}
	j.before = kept
}

// truncate cuts as a follower does whose leader's history has parted: afterwards there
// is a new epoch.
func (r *crashRun) truncate(j *judgedLog, l *Log) {
	if len(j.now.batches) == 0 {
		return
	}
	i := len(j.now.batches) - 1 - r.rand.IntN(min(5, len(j.now.batches)))
	to := j.now.batches[i].base
	if l.segments()[0].BaseOffset() > to {
		r.startAfresh(j, l, to, func() error { return l.TruncateTo(to) })
		return
	}
	j.deleted = min(j.deleted, to)
	old := j.now
	old.mustHave, old.cut = min(old.mustHave, to), to
	cut := history{batches: append([]judgedBatch(nil), old.batches[:i]...), start: old.start, mustHave: old.mustHave}
	if j.appended >= 0 {
		j.appended = min(j.appended, to)
	}
	err := l.TruncateTo(to)
	r.note("truncate %s to %d: end %d %v", j.id, to, l.LogEnd(), err)
	for i := range j.before {
		j.before[i].mustHave, j.before[i].cut = min(j.before[i].mustHave, to), min(j.before[i].cut, to)
	}
	j.before = append(j.before, old)
	j.now = cut
	j.epoch++
	if r.check(err, "truncate") {
		j.before = nil
	}
}

func (r *crashRun) startAfresh(j *judgedLog, l *Log, to int64, do func() error) {
	j.deleted = 0
	old := j.now
	old.mustHave, old.cut, old.wiped = 0, 0, true
	for i := range j.before {
		j.before[i].mustHave, j.before[i].cut = 0, 0
	}
	j.appended = -1
	err := do()
	r.note("start %s afresh at %d: %v", j.id, to, err)
	j.before = append(j.before, old)
	j.now = history{start: to}
	j.epoch++
	if r.check(err, "start afresh") {
		j.before, j.appended = nil, to
		j.now.mustHave = to
	}
}

func (r *crashRun) deleteLog(j *judgedLog, l *Log) {
	r.note("delete %s", j.id)
	err := r.d.DeleteLogs(r.now, l)
	for i, other := range r.logs {
		if other == j {
			r.logs = append(r.logs[:i], r.logs[i+1:]...)
			break
		}
	}
	r.check(err, "delete")
	if _, err := l.AppendAsLeader(AppendParams{Now: r.now, Records: produced(r.now, "x")}); err == nil || !r.crashed && !errors.Is(err, ErrClosed) {
		r.fail("append to a deleted log: %v", err)
	}
}
