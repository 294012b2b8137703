package metamorphic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/offset"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// run is one list of operations under one configuration.
type run struct {
	c    Config
	rand *rand.Rand // of what must not matter
	fs   *vfs.CrashFS
	now  time.Time
	pool *segment.FilePool
	d    *logstore.Dir
	k    *logstore.Keeper
	l    *logstore.Log

	epoch   int32
	n       int             // values so far
	batches []batch.View    // of the log, as far as the operations know
	txns    map[int64]bool  // producers with an open transaction
	seqs    map[int64]int32 // next sequence numbers
	start   int64           // the log start that was asked for
}

var partition = logstore.ID{Topic: "t", TopicID: uuid.UUID{1}}

// Run executes the operations and returns what a client sees. The error is that of
// something which must not fail.
func Run(ops []Op, c Config) (history []string, err error) {
	r := newRun(c)
	if err := r.begin(); err != nil {
		return nil, err
	}
	history, err = r.all(ops)
	r.d.Abandon()
	return history, err
}

func newRun(c Config) *run {
	r := &run{
		c: c, rand: rand.New(rand.NewPCG(c.Seed, 1)), fs: vfs.NewCrash(rand.NewPCG(c.Seed, 2)),
		now: time.UnixMilli(1_700_000_000_000), pool: segment.NewFilePool(c.Pool),
		epoch: 1, txns: map[int64]bool{}, seqs: map[int64]int32{},
	}
	r.fs.SetClock(func() time.Time { return r.now })
	r.fs.SetPageSize(c.Page)
	return r
}

// begin makes an empty log.
func (r *run) begin() (err error) {
	if err := r.open(); err != nil {
		return err
	}
	if r.l, err = r.d.CreateLog(r.now, partition, r.c.Log); err != nil {
		return err
	}
	// An empty log that no round has seen may be gone after a power cut.
	return r.l.TruncateFullyAndStartAt(0)
}

// all executes the operations.
func (r *run) all(ops []Op) (history []string, err error) {
	for i, op := range ops {
		line, err := r.do(op)
		if err != nil {
			return history, fmt.Errorf("operation %d %v: %w", i, op, err)
		}
		history = append(history, line)
		if err := r.whatMustNotMatter(); err != nil {
			return history, fmt.Errorf("after operation %d %v: %w", i, op, err)
		}
	}
	return history, nil
}

func (r *run) open() error {
	d, err := logstore.OpenDir(logstore.DirOptions{
		FS: r.fs.Process(), Path: "/data", NodeID: 1, ClusterID: "c", Pool: r.pool, ReserveBytes: 1,
		Rand: rand.NewChaCha8([32]byte{byte(r.c.Seed)}),
	})
	if err != nil {
		return err
	}
	report, err := d.OpenLogs(context.Background(), logstore.OpenLogsParams{
		Now: r.now, Threads: 1, Config: func(logstore.ID) logstore.Config { return r.c.Log },
	})
	if err != nil {
		return err
	}
	if len(report.Failed) > 0 {
		return report.Failed[0].Err
	}
	r.d, r.l = d, d.Log(partition.TopicID, partition.Partition)
	if r.l == nil && r.k != nil {
		return errors.New("the log is gone")
	}
	r.k = logstore.NewKeeper(d, logstore.KeeperOptions{RecoveryPointBytes: 2000, Wake: func() { d.Flush() }})
	r.k.Tick(r.now)
	return nil
}

// whatMustNotMatter rolls and restarts as the configuration says.
func (r *run) whatMustNotMatter() error {
	if r.c.Rolls > 0 && r.rand.IntN(r.c.Rolls) == 0 {
		if err := r.l.Roll(r.now); err != nil {
			return err
		}
	}
	if len(r.c.Stops) == 0 || r.rand.IntN(r.c.StopPer) > 0 {
		return nil
	}
	stop := pick(r.rand, r.c.Stops...)
	if err := r.stop(stop); err != nil {
		return fmt.Errorf("%s: %w", stop, err)
	}
	if err := r.open(); err != nil {
		return fmt.Errorf("start after %s: %w", stop, err)
	}
	return nil
}

func (r *run) stop(s Stop) error {
	if s == Clean {
		return r.d.Close(r.now, 1)
	}
	// Every append is wanted flushed here, also with durability=replicated, whose logs
	// are only flushed when something else asks for it.
	if err := r.l.Roll(r.now); err != nil {
		return err
	}
	r.d.Flush()
	r.k.Tick(r.now.Add(time.Hour)) // checkpoints the log start
	if s == Kill {
		r.fs.Kill()
	} else {
		r.fs.PowerCut()
	}
	return nil
}

func (r *run) do(o Op) (string, error) {
	switch o.Kind {
	case Append:
		return r.append(o)
	case Repeat:
		return r.repeat(o.P)
	case Follow:
		return r.follow(o)
	case EndTxn:
		return r.endTxn(o)
	case Truncate:
		return r.truncate(o.N)
	case Start:
		return r.advance(o.N)
	case Tick:
		r.now = r.now.Add(time.Duration(o.N) * time.Second)
		r.k.Tick(r.now)
		return "", nil
	case Flush:
		r.d.Flush()
		return "", nil
	case ReadFrom:
		from := r.start
		if n := len(r.batches) - o.N; n >= 0 && len(r.batches) > 0 {
			from = max(from, r.batches[min(n, len(r.batches)-1)].BaseOffset())
		}
		return r.read(from, 200+o.Size)
	case ReadAll:
		return r.read(r.start, 1<<20)
	case ByTime:
		at, found, err := r.l.OffsetForTimestamp(r.now.Add(-time.Duration(o.N) * time.Second).UnixMilli())
		return fmt.Sprint(at, found), err
	default:
		return r.epochs(), nil
	}
}

// build makes a batch of values that never repeat.
func (r *run) build(records, size int, o batch.BuilderOptions) batch.View {
	b := batch.NewBuilder(o)
	for range records {
		r.n++
		b.Append(batch.NewRecord{TimestampMs: r.now.UnixMilli() + int64(r.n%7), Value: fmt.Appendf(nil, "%d%s", r.n, strings.Repeat("x", size))})
	}
	v, err := b.Build(nil)
	if err != nil {
		panic(err) // uncompressed batches are always built
	}
	return v
}

// note takes a batch into what the operations know of the log.
func (r *run) note(v batch.View, base int64) {
	v = slices.Clone(v)
	v.SetBaseOffset(base)
	r.batches = append(r.batches, v)
}

func (r *run) append(o Op) (string, error) {
	var opts batch.BuilderOptions
	if o.P >= 0 {
		opts.Producer = &batch.Producer{ID: o.P, BaseSequence: r.seqs[o.P]}
		opts.Transactional = o.P >= 2
	}
	v := r.build(o.N, o.Size, opts)
	line, err := r.leaderAppend(v, logstore.OriginClient)
	if err == nil && o.P >= 0 {
		r.seqs[o.P] += int32(o.N)
		r.txns[o.P] = opts.Transactional
	}
	return line, err
}

func (r *run) leaderAppend(v batch.View, origin logstore.Origin) (string, error) {
	info, err := r.l.AppendAsLeader(logstore.AppendParams{
		Now: r.now, Records: slices.Clone(v), LeaderEpoch: r.epoch, Origin: origin, RequestVersion: 12,
	})
	if err != nil {
		return "", err
	}
	if !info.Duplicate {
		r.note(v, info.FirstOffset)
	}
	return fmt.Sprintf("%d..%d duplicate=%v", info.FirstOffset, info.LastOffset, info.Duplicate), nil
}

// repeat sends a producer's last batch again, if it is above the log start.
func (r *run) repeat(producer int64) (string, error) {
	for _, v := range slices.Backward(r.batches) {
		if v.ProducerID() != producer || v.IsControl() || producer < 0 {
			continue
		}
		if v.BaseOffset() < r.start {
			break
		}
		again := slices.Clone(v)
		again.SetBaseOffset(0)
		return r.leaderAppend(again, logstore.OriginClient)
	}
	return "", nil
}

func (r *run) follow(o Op) (string, error) {
	var all []byte
	next := int64(r.l.LogEnd())
	for range o.N {
		v := r.build(1, o.Size, batch.BuilderOptions{BaseOffset: next, LeaderEpoch: r.epoch})
		r.note(v, next)
		all = append(all, v...)
		next = v.NextOffset()
	}
	appendTo := r.l.AppendAsFollower
	if o.N%2 == 0 {
		appendTo = r.l.AppendBehind
	}
	info, err := appendTo(r.now, all, r.epoch)
	if info.FlushAlone {
		r.l.FlushAlone(true)
	}
	return fmt.Sprintf("%d..%d", info.FirstOffset, info.LastOffset), err
}

func (r *run) endTxn(o Op) (string, error) {
	if !r.txns[o.P] {
		return "", nil
	}
	m := batch.EndTxnMarker{Type: batch.ControlAbort}
	if o.Commit {
		m.Type = batch.ControlCommit
	}
	r.txns[o.P] = false
	return r.leaderAppend(batch.NewEndTxnMarker(r.now.UnixMilli(), o.P, 0, m), logstore.OriginCoordinator)
}

// truncate cuts batches off, but none below the log start. Producers go back with it.
func (r *run) truncate(n int) (string, error) {
	for ; n > 0 && len(r.batches) > 0 && r.batches[len(r.batches)-1].BaseOffset() >= r.start; n-- {
		r.batches = r.batches[:len(r.batches)-1]
	}
	to := r.start
	if n := len(r.batches); n > 0 {
		to = max(to, r.batches[n-1].NextOffset())
	}
	err := r.l.TruncateTo(to)
	r.epoch++
	clear(r.seqs)
	clear(r.txns)
	for _, v := range r.batches {
		if v.HasProducerID() && !v.IsControl() {
			r.seqs[v.ProducerID()] = batch.IncrementSequence(v.LastSequence(), 1)
		}
		if v.HasProducerID() {
			r.txns[v.ProducerID()] = v.IsTransactional() && !v.IsControl()
		}
	}
	return fmt.Sprint(r.l.LogEnd()), err
}

// advance moves the log start over whole batches without producers: what becomes of
// producers whose batches are gone depends on when the process was restarted, as in
// Kafka.
func (r *run) advance(n int) (string, error) {
	to := r.start
	for _, v := range r.batches {
		if v.BaseOffset() < to {
			continue
		}
		if n == 0 || v.HasProducerID() {
			break
		}
		to = v.NextOffset()
		n--
	}
	err := r.l.AdvanceLogStart(to)
	r.start = max(r.start, to)
	return fmt.Sprint(r.l.LogStart()), err
}

// read reads like a read_committed consumer up to the last stable offset.
func (r *run) read(from int64, maxBytes int) (string, error) {
	end := r.l.LastStable(offset.HighWatermark(r.l.LogEnd()))
	var line strings.Builder
	fmt.Fprintf(&line, "[%d, %d) stable %d:", r.l.LogStart(), r.l.LogEnd(), end)
	for from < int64(end) {
		info, err := r.l.Read(logstore.ReadParams{Offset: from, MaxBytes: maxBytes, UpTo: int64(end), MinOne: true})
		if err != nil || info.Region == nil {
			return line.String(), err
		}
		if from, err = readBatches(&line, info, from); err != nil {
			return line.String(), err
		}
	}
	txns, err := r.l.AbortedTransactions(r.start, int64(end))
	fmt.Fprintf(&line, " aborted %v", txns)
	return line.String(), err
}

func readBatches(line *strings.Builder, info logstore.ReadInfo, from int64) (next int64, err error) {
	defer info.Region.Release()
	buf := make([]byte, info.Region.Len())
	if _, err := info.Region.ReadAt(buf, 0); err != nil && !errors.Is(err, io.EOF) {
		return from, err
	}
	for {
		v, rest, err := batch.Next(buf)
		if err != nil {
			return from, nil // the last one may be cut short
		}
		if err := v.Check(); err != nil {
			return from, err
		}
		it := batch.NewIterator(v, nil)
		for it.Next() {
			value := it.Record.Value
			fmt.Fprintf(line, " %d@%d/%d=%s+%d", v.BaseOffset()+int64(it.Record.OffsetDelta), it.Record.Timestamp%100_000, v.LeaderEpoch(), bytes.TrimRight(value, "x"), len(value))
		}
		it.Close()
		from, buf = v.NextOffset(), rest
	}
}

// epochs are the ends of the epochs that have records above the log start.
func (r *run) epochs() string {
	var line strings.Builder
	seen := int32(-1)
	for _, v := range r.batches {
		if v.NextOffset() <= r.start || v.LeaderEpoch() == seen {
			continue
		}
		seen = v.LeaderEpoch()
		end, ok := r.l.EndOffsetForEpoch(seen)
		fmt.Fprintf(&line, "%d: %v %v ", seen, end, ok)
	}
	return line.String()
}
