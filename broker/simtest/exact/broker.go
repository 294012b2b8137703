package exact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/offset"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

const (
	brokerID   = 1
	followerID = 2
)

// broker is one process: the cores of a broker, and what drives them here.
type broker struct {
	w          *world
	dirs       []*directory
	partitions []*partition
}

// partition is a replica of this broker.
type partition struct {
	*replica.Partition
	*part
	d   *directory
	log *logstore.Log // nil if it could not be created yet
	// following is true from demote to promote.
	following bool
	waiting   []*attempt
}

// restart begins a new process on what the disks hold.
func (w *world) restart() {
	if w.broker != nil {
		return
	}
	w.life++
	b := &broker{w: w}
	if err := b.open(); err != nil {
		w.startFailed(b, err)
		return
	}
	w.broker = b
	w.diskErrors = 0 // those of a disk that works again
	for _, t := range slices.Clone(w.topics) {
		b.add(t)
	}
	for _, d := range b.dirs {
		d.tick()
	}
	if w.crashed {
		return
	}
	w.judge.restarted()
	w.judge.everything()
}

// startFailed ends a process that could not start, as broker.Stop does: in good order.
func (w *world) startFailed(b *broker, err error) {
	if !w.crashed && !w.excused(err) {
		w.fail("CleanRecovery", "after a crash, start fails: %v", err)
	}
	w.tracef("start fails: %v", err)
	for _, d := range b.dirs {
		_ = d.Close(w.now, -1)
	}
	w.crashed = true // nothing of it is of use
}

func (b *broker) open() error {
	pool := segment.NewFilePool(segment.PoolOptions{MaxOpenFiles: b.w.plan.openFiles})
	for i := range b.w.plan.dirs {
		d, err := b.openDirectory(i, pool)
		if err != nil {
			return err
		}
		b.dirs = append(b.dirs, d)
	}
	for _, d := range b.dirs {
		if err := d.openLogs(); err != nil {
			return err
		}
	}
	b.w.recovered()
	return nil
}

func (b *broker) openDirectory(i int, pool *segment.FilePool) (*directory, error) {
	w := b.w
	dir, err := logstore.OpenDir(logstore.DirOptions{
		FS: w.brokenFS(w.process()), Path: w.plan.dirs[i], NodeID: brokerID, ClusterID: "exact",
		Rand: randReader{rand.New(rand.NewPCG(w.opts.Seed, uint64(w.life*len(w.plan.dirs)+i)))}, Logger: slog.New(slog.DiscardHandler),
		Codecs: w.codecs, ReserveBytes: 1, Pool: pool,
	})
	if err != nil {
		return nil, err
	}
	d := &directory{Dir: dir, b: b, number: i}
	o := w.plan.keeper
	o.HighWatermark, o.Wake = b.highWatermark, d.wantFlush
	d.keeper = logstore.NewKeeper(dir, o)
	return d, nil
}

// openLogs opens what the directory holds and sets aside what metadata does not know, as
// replica.Manager does.
func (d *directory) openLogs() error {
	w := d.b.w
	report, err := d.OpenLogs(context.Background(), logstore.OpenLogsParams{
		Now: w.now, Threads: 1, Config: func(id logstore.ID) logstore.Config {
			if p := w.find(id); p != nil {
				return p.config
			}
			return logstore.DefaultConfig()
		},
	})
	if err != nil {
		return err
	}
	var unknown []logstore.ID
	for _, f := range report.Failed {
		if w.find(f.ID) != nil {
			return fmt.Errorf("partition %s: %w", f.ID, f.Err)
		}
		unknown = append(unknown, f.ID)
	}
	if err := d.SetAsideFailed(w.now, unknown...); err != nil {
		return err
	}
	var strays, empty []*logstore.Log
	for _, l := range report.Opened {
		switch {
		case w.find(l.ID()) != nil:
		case l.SizeBytes() == 0:
			empty = append(empty, l)
		default:
			strays = append(strays, l)
		}
	}
	return errors.Join(d.DeleteLogs(w.now, empty...), d.SetAside(w.now, strays...))
}

// add begins the replicas of a topic, and makes each the leader.
func (b *broker) add(t *topic) {
	for _, p := range t.parts {
		if b.w.crashed {
			return
		}
		b.begin(p)
	}
}

// begin makes a replica of the log that is there, or of a new one. One that cannot be
// created comes again.
func (b *broker) begin(of *part) {
	w, d := b.w, b.dirs[of.dir]
	l := d.Log(of.id, of.index)
	if l == nil && d.Err() == nil {
		var err error
		l, err = d.CreateLog(w.now, of.logID(), of.config)
		switch {
		case w.crashed:
			return
		case err == nil:
		case !w.excused(err):
			w.fail("CleanRecovery", "%s cannot be created: %v", of, err)
			return
		case logstore.MayPass(err):
			w.inLife(w.plan.maxDelay*5, "create again", func() {
				if !of.deleted {
					b.begin(of)
				}
			})
			return
		}
	}
	if l == nil {
		return // the disk has failed
	}
	p := &partition{part: of, d: d, log: l}
	p.Partition = replica.NewPartition(replica.PartitionOptions{
		ID: replica.TopicIDPartition{TopicID: of.id, Partition: of.index}, Topic: of.name, BrokerID: brokerID,
		Log: l, Config: of.topicConfig(), Brokers: registered{}, ReplicaLagMax: time.Hour,
	})
	b.partitions = append(b.partitions, p)
	b.promote(p)
}

func (p *part) topicConfig() replica.TopicConfig {
	return replica.TopicConfig{Log: p.config, MinInSyncCount: 1}
}

// remove ends the replicas of a topic that was deleted.
func (b *broker) remove(t *topic) {
	for _, d := range b.dirs {
		var logs []*logstore.Log
		for _, p := range b.partitions {
			if p.topic == t && p.d == d {
				b.carryOut(p, p.Retire(kafkaerr.UnknownTopicOrPartition))
				logs = append(logs, p.log)
			}
		}
		if err := d.DeleteLogs(b.w.now, logs...); err != nil && !b.w.excused(err) {
			b.w.fail("CleanDeletion", "delete %s: %v", t.name, err)
		}
	}
	b.partitions = slices.DeleteFunc(b.partitions, func(p *partition) bool { return p.topic == t })
}

// of is the replica of a partition, nil if this broker has none that can be used.
func (b *broker) of(of *part) *partition {
	for _, p := range b.partitions {
		if p.part == of {
			return p
		}
	}
	return nil
}

// ofLog is the replica that has a log, nil if it was deleted.
func (b *broker) ofLog(l *logstore.Log) *partition {
	for _, p := range b.partitions {
		if p.log == l {
			return p
		}
	}
	return nil
}

// registered is metadata in which every broker lives on.
type registered struct{}

// BrokerEpoch implements replica.Brokers.
func (registered) BrokerEpoch(int32) (int64, bool)    { return 1, true }
func (registered) HasOnlineDir(int32, uuid.UUID) bool { return true }

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
	p := b.ofLog(l)
	if p == nil {
		return 0, false
	}
	return p.HighWatermark(), true
}

// carryOut does what replica.Manager does with effects.
func (b *broker) carryOut(p *partition, e replica.Effects) {
	if e.FlushWanted {
		p.d.wantFlush()
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

// noticeFailures does what replica.Manager does when it hears that a disk has failed.
func (b *broker) noticeFailures() {
	for _, d := range b.dirs {
		if d.noticed || d.Err() == nil {
			continue
		}
		d.noticed = true
		b.w.tracef("directory %d is offline: %v", d.number, d.Err())
		if b.w.diskErrors == 0 {
			b.w.fail("CleanSync", "directory %d is offline without a fault: %v", d.number, d.Err())
		}
		b.w.report.Offline++
		for _, p := range b.partitions {
			if p.d == d {
				b.carryOut(p, p.Retire(d.Err()))
			}
		}
		// Somebody looks after the machine.
		b.w.inLife(b.w.plan.maxDelay*20, "restart after a disk's failure", func() { b.w.crash("with a failed disk") })
	}
}

// idle tells that no round and no change of role is under way, and everything is online.
func (b *broker) idle() bool {
	for _, d := range b.dirs {
		if d.flushing || d.Err() != nil {
			return false
		}
	}
	if len(b.partitions) < len(b.w.parts()) {
		return false
	}
	return !slices.ContainsFunc(b.partitions, func(p *partition) bool { return p.following })
}

// promote makes p the leader in a higher epoch (D20).
func (b *broker) promote(p *partition) {
	if p.deleted || p.Failure() != nil {
		return
	}
	p.following = false
	epoch := p.judged.nextEpoch()
	e, err := p.BecomeLeader(b.w.now, &metadata.Partition{
		Index: p.index, Replicas: b.w.replicas(), ISR: b.w.replicas(), Leader: brokerID,
		LeaderEpoch: epoch, PartitionEpoch: epoch,
	})
	switch {
	case b.w.crashed:
	case err != nil && !b.w.excused(err):
		b.w.fail("CleanRecovery", "%s cannot lead: %v", p, err)
		return
	case err != nil:
		return // its directory fails
	}
	b.carryOut(p, e)
	if f := p.part.follower; f != nil {
		f.truncate(int64(p.log.LogEnd()))
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
	p.following = true
	epoch := p.judged.nextEpoch()
	b.carryOut(p, p.BecomeFollower(&metadata.Partition{Index: p.index, Leader: followerID, LeaderEpoch: epoch, PartitionEpoch: epoch}))
	ends := b.batchEnds(p)
	to := ends[b.w.rand.IntN(len(ends))]
	b.w.inLife(b.w.delay(), "lower marks", func() { b.lowerMarks(p, to) })
}

// batchEnds are the offsets at which another leader could cut p: logs diverge between
// batches, and not where the follower, who would be that leader, agrees. The high
// watermark alone is no bound: after a restart the one that is known may be old.
func (b *broker) batchEnds(p *partition) []int64 {
	ends := []int64{int64(p.HighWatermark())}
	if f := p.part.follower; f != nil {
		ends[0] = max(ends[0], f.end)
	}
	for {
		from := ends[len(ends)-1]
		info, err := p.log.Read(logstore.ReadParams{Offset: from, MaxBytes: 1 << 20, UpTo: int64(p.log.LogEnd())})
		if err != nil && !b.w.excused(err) {
			b.w.fail("CleanTruncation", "read %s at %d: %v", p, from, err)
		}
		if err != nil || info.Region == nil {
			return ends
		}
		views := b.w.batches(info.Region)
		for _, v := range views {
			ends = append(ends, v.NextOffset())
		}
		if len(views) == 0 {
			return ends // the process has died
		}
	}
}

// again tries a step of a truncation once more if what it met passes; it tells whether
// there is nothing more to do now.
func (b *broker) again(p *partition, err error, doing string, step func()) (over bool) {
	switch {
	case err == nil:
		return false
	case p.deleted, p.d.Err() != nil, b.w.crashed:
	case logstore.MayPass(err) && b.w.excused(err):
		b.w.inLife(b.w.plan.maxDelay*5, doing+" again", step)
	default:
		b.w.fail("CleanTruncation", "%s of %s: %v", doing, p, err)
	}
	return true
}

func (b *broker) lowerMarks(p *partition, to int64) {
	if p.deleted {
		return
	}
	b.w.losingRenames = b.w.opts.Break == MarksNotLowered
	err := p.d.PrepareTruncations(logstore.Truncation{Log: p.log, To: to})
	b.w.losingRenames = false
	if b.again(p, err, "lower marks", func() { b.lowerMarks(p, to) }) {
		return
	}
	b.w.inLife(b.w.delay(), "truncate", func() { b.truncate(p, to) })
}

func (b *broker) truncate(p *partition, to int64) {
	if p.deleted {
		return
	}
	b.w.tracef("%s from %d to %d", p, p.log.LogEnd(), to)
	b.w.report.Truncations++
	if b.again(p, p.log.TruncateTo(to), "truncate", func() { b.truncate(p, to) }) {
		return
	}
	b.w.inLife(b.w.delay(), "promote", func() { b.promote(p) })
}

// stop closes everything in the order of replica.Manager.
func (b *broker) stop() error {
	var errs []error
	for _, d := range b.dirs {
		d.stop()
		for _, p := range b.partitions {
			if p.d == d {
				b.carryOut(p, p.Retire(kafkaerr.NotLeaderOrFollower))
			}
		}
		errs = append(errs, d.Close(b.w.now, stopEpoch))
	}
	return errors.Join(errs...)
}

// stopEpoch is the broker epoch of every clean stop.
const stopEpoch = 7

// stopCleanly stops the broker and starts it again: nothing may be missing, and no scan
// be needed.
func (w *world) stopCleanly() {
	w.tracef("clean stop")
	offline := slices.ContainsFunc(w.broker.dirs, func(d *directory) bool { return d.Err() != nil })
	err := w.broker.stop()
	if w.crashed {
		return
	}
	clean := err == nil && !offline
	if !clean && !offline && !w.excused(err) {
		w.fail("CleanStop", "%v", err)
		return
	}
	w.report.Stops++
	w.judge.files(leftByStop(offline))
	w.broker = nil
	for _, p := range w.producers {
		p.disconnected()
	}
	w.tracef("restart")
	w.restart()
	if w.broker == nil || !clean {
		return
	}
	for _, d := range w.broker.dirs {
		if epoch, clean := d.PreviousBrokerEpoch(); !clean || epoch != stopEpoch {
			w.fail("CleanStop", "after a clean stop in epoch %d: epoch %d, clean %v", stopEpoch, epoch, clean)
		}
	}
	w.judge.files(nil)
}
