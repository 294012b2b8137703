package exact

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/offset"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

const (
	brokerID   = 1
	followerID = 2
	dataDir    = "/data"
	topic      = "t"
)

var topicID = uuid.UUID{15: 42}

// broker is one process: the cores of a broker, and what drives them here.
type broker struct {
	w          *world
	dir        *logstore.Dir
	keeper     *logstore.Keeper
	partitions []*partition
	flushing   bool // a round is under way or scheduled
	wanted     bool // another one is to follow
}

type partition struct {
	*replica.Partition
	log   *logstore.Log
	index int32
	// follower is true from demote to promote.
	follower bool
	waiting  []*attempt
}

// restart begins a new process on what the disk holds.
func (w *world) restart() {
	if w.broker != nil {
		return
	}
	w.life++
	b := &broker{w: w}
	if err := b.open(); err != nil {
		w.fail("CleanRecovery", "after a crash, start fails: %v", err)
		w.crashed = true // nothing of it is of use
		return
	}
	w.broker = b
	for _, p := range b.partitions {
		if w.crashed {
			return
		}
		b.promote(p)
	}
	b.tick()
	w.judge.restarted()
	w.judge.everything()
}

func (b *broker) open() (err error) {
	w := b.w
	b.dir, err = logstore.OpenDir(logstore.DirOptions{
		FS: w.brokenFS(w.fs.Process()), Path: dataDir, NodeID: brokerID, ClusterID: "exact",
		Rand: randReader{rand.New(rand.NewPCG(w.opts.Seed, uint64(w.life)))}, Logger: slog.New(slog.DiscardHandler),
		Codecs: w.codecs, ReserveBytes: 1,
	})
	if err != nil {
		return err
	}
	report, err := b.dir.OpenLogs(context.Background(), logstore.OpenLogsParams{
		Now: w.now, Threads: 1, Config: func(logstore.ID) logstore.Config { return w.plan.config },
	})
	if err != nil {
		return err
	}
	for _, f := range report.Failed {
		return fmt.Errorf("partition %s: %w", f.ID, f.Err)
	}
	for i := range w.plan.partitions {
		p, err := b.openPartition(i)
		if err != nil {
			return err
		}
		b.partitions = append(b.partitions, p)
	}
	o := w.plan.keeper
	o.HighWatermark, o.Wake = b.highWatermark, b.wantFlush
	b.keeper = logstore.NewKeeper(b.dir, o)
	w.recovered()
	return nil
}

func (b *broker) openPartition(index int32) (*partition, error) {
	l := b.dir.Log(topicID, index)
	if l == nil {
		var err error
		l, err = b.dir.CreateLog(b.w.now, logstore.ID{Topic: topic, TopicID: topicID, Partition: index}, b.w.plan.config)
		if err != nil {
			return nil, err
		}
	}
	return &partition{index: index, log: l, Partition: replica.NewPartition(replica.PartitionOptions{
		ID: replica.TopicIDPartition{TopicID: topicID, Partition: index}, Topic: topic, BrokerID: brokerID,
		Log: l, Config: replica.TopicConfig{Log: b.w.plan.config, MinInSyncCount: 1}, Brokers: registered{}, ReplicaLagMax: time.Hour,
	})}, nil
}

// registered is metadata in which every broker lives on.
type registered struct{}

// BrokerEpoch implements replica.Brokers.
func (registered) BrokerEpoch(int32) (int64, bool) { return 1, true }

// randReader draws bytes from a seed.
type randReader struct{ *rand.Rand }

// Read implements io.Reader.
func (r randReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return len(p), nil
}

var _ io.Reader = randReader{}

func (b *broker) highWatermark(l *logstore.Log) (offset.HighWatermark, bool) {
	return b.partitions[l.ID().Partition].HighWatermark(), true
}

// tick runs the keeper and schedules its next run.
func (b *broker) tick() {
	next := b.keeper.Tick(b.w.now)
	b.w.inLife(next.Sub(b.w.now), "tick", b.tick)
}

// carryOut does what replica.Manager does with effects.
func (b *broker) carryOut(p *partition, e replica.Effects) {
	if e.FlushWanted {
		b.wantFlush()
	}
	if e.Wake {
		b.answer(p)
	}
}

// answer lets every produce that waits on p look whether it is done.
func (b *broker) answer(p *partition) {
	still := p.waiting[:0]
	for _, a := range p.waiting {
		if done, err := p.Reached(a.awaited); done {
			a.finish(err)
			continue
		}
		still = append(still, a)
	}
	p.waiting = still
}

// wantFlush is Committer.Wake: rounds follow each other, and those who come while one is
// under way share the next.
func (b *broker) wantFlush() {
	if b.flushing {
		b.wanted = true
		return
	}
	b.flushing, b.wanted = true, false
	b.w.inLife(b.w.delay()/4, "begin flush", b.beginFlush)
}

func (b *broker) beginFlush() {
	r := b.dir.BeginFlush()
	if r == nil {
		b.endFlush()
		return
	}
	b.w.report.Rounds++
	b.w.inLife(b.w.delay(), "sync", func() {
		err := r.Sync()
		if b.w.crashed {
			return
		}
		b.w.inLife(b.w.delay()/4, "finish flush", func() { b.finishFlush(r, err) })
	})
}

func (b *broker) finishFlush(r *logstore.FlushRound, err error) {
	if err != nil {
		b.w.fail("CleanSync", "sync fails without a fault: %v", err)
	}
	for _, f := range r.Finish(err) {
		p := b.partitions[f.Log.ID().Partition]
		b.carryOut(p, p.FlushDone(b.w.now))
	}
	b.endFlush()
}

func (b *broker) endFlush() {
	b.flushing = false
	if b.wanted {
		b.wantFlush()
	}
}

// idle tells that no round and no change of role is under way.
func (b *broker) idle() bool {
	return !b.flushing && !slices.ContainsFunc(b.partitions, func(p *partition) bool { return p.follower })
}

// promote makes p the leader in a higher epoch (D20).
func (b *broker) promote(p *partition) {
	p.follower = false
	epoch := b.w.judge.nextEpoch(p.index)
	e, err := p.BecomeLeader(b.w.now, &metadata.Partition{
		Index: p.index, Replicas: b.w.replicas(), ISR: b.w.replicas(), Leader: brokerID,
		LeaderEpoch: epoch, PartitionEpoch: epoch,
	})
	if err != nil {
		b.w.fail("CleanRecovery", "partition %d cannot lead: %v", p.index, err)
		return
	}
	b.carryOut(p, e)
	if b.w.plan.follower {
		b.w.followers[p.index].truncate(int64(p.log.LogEnd()))
	}
}

// replicas of every partition; all are in sync.
func (w *world) replicas() []int32 {
	if w.plan.follower {
		return []int32{brokerID, followerID}
	}
	return []int32{brokerID}
}

// demote takes p's leadership away; it will come back without the tail that nobody was
// promised, or with a part of it.
func (b *broker) demote(p *partition) {
	p.follower = true
	epoch := b.w.judge.nextEpoch(p.index)
	b.carryOut(p, p.BecomeFollower(&metadata.Partition{Index: p.index, Leader: 2, LeaderEpoch: epoch, PartitionEpoch: epoch}))
	ends := b.batchEnds(p)
	to := ends[b.w.rand.IntN(len(ends))]
	b.w.inLife(b.w.delay(), "lower marks", func() { b.lowerMarks(p, to) })
}

// batchEnds are the offsets at which another leader could cut p: logs diverge between
// batches, and not where the follower, who would be that leader, agrees. The high
// watermark alone is no bound: after a restart the one that is known may be old.
func (b *broker) batchEnds(p *partition) []int64 {
	ends := []int64{int64(p.HighWatermark())}
	if b.w.plan.follower {
		ends[0] = max(ends[0], b.w.followers[p.index].end)
	}
	for {
		from := ends[len(ends)-1]
		info, err := p.log.Read(logstore.ReadParams{Offset: from, MaxBytes: 1 << 20, UpTo: int64(p.log.LogEnd())})
		if err != nil {
			b.w.fail("CleanTruncation", "read partition %d at %d: %v", p.index, from, err)
		}
		if info.Region == nil {
			return ends
		}
		for _, v := range b.w.batches(info.Region) {
			ends = append(ends, v.NextOffset())
		}
	}
}

func (b *broker) lowerMarks(p *partition, to int64) {
	b.w.losingRenames = b.w.opts.Break == MarksNotLowered
	err := b.dir.PrepareTruncations(logstore.Truncation{Log: p.log, To: to})
	b.w.losingRenames = false
	if err != nil {
		b.w.fail("CleanTruncation", "lower marks of %d to %d: %v", p.index, to, err)
		return
	}
	b.w.inLife(b.w.delay(), "truncate", func() { b.truncate(p, to) })
}

func (b *broker) truncate(p *partition, to int64) {
	b.w.tracef("partition %d from %d to %d", p.index, p.log.LogEnd(), to)
	b.w.report.Truncations++
	if err := p.log.TruncateTo(to); err != nil {
		b.w.fail("CleanTruncation", "truncate %d to %d: %v", p.index, to, err)
		return
	}
	b.w.inLife(b.w.delay(), "promote", func() { b.promote(p) })
}

// stopCleanly closes the directory and opens it again: nothing may be missing, and no
// scan be needed.
func (w *world) stopCleanly() {
	w.tracef("clean stop")
	if err := w.broker.dir.Close(w.now, 7); err != nil {
		w.fail("CleanStop", "%v", err)
		return
	}
	w.judge.files()
	w.broker = nil
	w.tracef("restart")
	w.restart()
	if w.broker == nil {
		return
	}
	if epoch, clean := w.broker.dir.PreviousBrokerEpoch(); !clean || epoch != 7 {
		w.fail("CleanStop", "after a clean stop in epoch 7: epoch %d, clean %v", epoch, clean)
	}
	w.judge.files()
}
