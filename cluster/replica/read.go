package replica

import (
	"errors"
	"fmt"
	"time"

	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// Reader is who reads, as far as a partition cares.
type Reader struct {
	ReplicaID   int32 // ConsumerReplicaID or the id of a follower
	BrokerEpoch int64 // of the follower, -1: not checked
	Isolation   Isolation
	AnyReplica  bool // a consumer that a follower may answer
	Rack        string
	Racks       Racks
	// Peek leaves what is known of the follower as it is.
	Peek bool
	// NoRoom: the follower's log directory is full, see tagNoRoom.
	NoRoom bool
	// OverQuota tells whether throttled replicas are to be sent nothing now; nil: they are not.
	OverQuota func() bool
	// Served: what has been read for the same answer is more than half of what it may have.
	Served bool
}

func (r *Reader) isFollower() bool { return r.ReplicaID >= 0 }

// ReadRecords reads for want, up to maxBytes; minOne lets the first batch be larger
// (KIP-74). The result says at which offsets the partition was when it was read.
//
// The order of the checks is Kafka's, so that a request with two faults gets the error
// that Kafka names: leader epoch, role, follower known, divergence, range
// (Partition.fetchRecords, readRecords).
func (p *Partition) ReadRecords(now time.Time, r *Reader, want *FetchPartition, maxBytes int, minOne bool) (FetchResult, Effects) {
	if id, found := p.preferred(now, r, want); found {
		result, err := p.redirect(r, want, id)
		if err != nil {
			return p.readFailed(err), Effects{}
		}
		return result, Effects{}
	}
	at, err := p.admit(r, want)
	if err != nil {
		return p.readFailed(err), Effects{}
	}
	result, err := p.read(at, r, want, maxBytes, minOne)
	if err != nil {
		return p.readFailed(err), Effects{}
	}
	if !r.isFollower() || r.Peek || result.Diverging != nil {
		return result, Effects{}
	}
	e, err := p.FollowerFetched(now, FollowerFetch{
		ReplicaID: r.ReplicaID, LeaderEpoch: at.epoch, BrokerEpoch: r.BrokerEpoch, Offset: want.FetchOffset,
		LogStart: want.LogStartOffset, LeaderEnd: at.logEnd, NoRoom: r.NoRoom,
		Watch: want.Watch, KnownHighWatermark: want.KnownHighWatermark, KnownLogStart: want.KnownLogStart, HighWatermark: want.HighWatermark,
	})
	if err != nil {
		result.release()
		return p.readFailed(err), e
	}
	return result, e
}

// offsets are the ends of a partition at one moment. The log is read after it, without
// the partition's lock: what is appended meanwhile is not in the answer, and a follower
// that is told of logEnd and has it counts as caught up.
type offsets struct {
	logStart, lastStable, highWatermark, logEnd int64

	epoch int32 // of the leader at that moment

	throttled, limited bool // see setThrottle
}

// bound is where r must stop reading: a follower at the log end, unflushed and
// unreplicated records included, since reading them is how they are replicated.
func (o *offsets) bound(r *Reader) int64 {
	switch {
	case r.isFollower():
		return o.logEnd
	case r.Isolation == ReadCommitted:
		return o.lastStable
	}
	return o.highWatermark
}

// admit checks that this replica may answer r, and takes the offsets.
func (p *Partition) admit(r *Reader, want *FetchPartition) (offsets, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if err := p.checkReader(want.CurrentLeaderEpoch < 0, want.CurrentLeaderEpoch, r.isFollower() || !r.AnyReplica); err != nil {
		return offsets{}, err
	}
	if r.isFollower() && p.follower(r.ReplicaID) == nil {
		if want.CurrentLeaderEpoch >= 0 {
			// The epoch is right but the replica is not in the assignment: ours may be
			// behind, so the follower is to try again.
			return offsets{}, kafkaerr.UnknownLeaderEpoch
		}
		return offsets{}, kafkaerr.NotLeaderOrFollower
	}
	at := p.offsets()
	p.setThrottle(&at, r)
	return at, nil
}

// checkReader is Partition.getLocalLog: the epoch is looked at before the role. Caller
// holds mu.
func (p *Partition) checkReader(anyEpoch bool, epoch int32, leaderOnly bool) error {
	if p.gone != nil {
		return p.gone
	}
	if !anyEpoch {
		if err := p.checkEpoch(epoch); err != nil {
			return err
		}
	}
	if leaderOnly && !p.isLeader {
		return kafkaerr.NotLeaderOrFollower
	}
	return nil
}

func (p *Partition) offsets() offsets {
	return offsets{
		logStart:      int64(p.log().LogStart()),
		lastStable:    int64(p.log().LastStable(p.HighWatermark())),
		highWatermark: p.hw.Load(),
		logEnd:        int64(p.log().LogEnd()),
		epoch:         p.leader.Epoch,
	}
}

// read is the part that needs no lock.
func (p *Partition) read(at offsets, r *Reader, want *FetchPartition, maxBytes int, minOne bool) (FetchResult, error) {
	result := FetchResult{
		HighWatermark: at.highWatermark, LastStableOffset: at.lastStable, LogStartOffset: at.logStart,
		CurrentLeader: noLeader, throttled: at.throttled,
	}
	if want.LastFetchedEpoch >= 0 {
		diverging, err := p.divergence(at, want)
		if err != nil || diverging != nil {
			result.Diverging = diverging
			return result, err
		}
	}
	if want.FetchOffset < at.logStart || want.FetchOffset > at.logEnd {
		return result, outOfRange(at, want)
	}
	bound := at.bound(r)
	if want.FetchOffset < bound && maxBytes < 0 {
		return result, errNegativeMaxBytes
	}
	if want.FetchOffset < bound && (maxBytes > 0 || minOne) && !r.passesOver(at) {
		info, err := p.readLog(logstore.ReadParams{
			Offset: want.FetchOffset, MaxBytes: maxBytes, UpTo: bound, MinOne: minOne, Aborted: skipsAborted(r),
			// What a follower cannot append is sent again, and would count twice.
			Whole: at.throttled,
			// It reads what nobody else has asked for in a while.
			Prefetch: at.limited,
			// A follower has them as they are, but some consumers stay at them.
			SkipEmpty: !r.isFollower(),
		})
		if err != nil {
			return result, fmt.Errorf("read %s-%d at %d: %w", p.opts.Topic, p.opts.ID.Partition, want.FetchOffset, err)
		}
		// A batch that was cut short is of no use to anybody, and a consumer would have
		// to guess that it is incomplete. In its place comes nothing at all, not even a
		// list of aborted transactions (Kafka's ReplicaManager.readFromLog).
		if result.Records = info.Region; info.FirstIncomplete {
			result.release()
			return result, nil
		}
		result.AbortedTransactions = abortedTransactions(info.Aborted)
	}
	if skipsAborted(r) && result.AbortedTransactions == nil {
		result.AbortedTransactions = []AbortedTransaction{}
	}
	return result, nil
}

// readLog reads from whichever log the replica has.
func (p *Partition) readLog(params logstore.ReadParams) (info logstore.ReadInfo, err error) {
	err = p.reading(func(log Log) error {
		info, err = log.Read(params)
		return err
	})
	return info, err
}

// skipsAborted tells whether r is to be told of aborted transactions.
func skipsAborted(r *Reader) bool { return r.Isolation == ReadCommitted && !r.isFollower() }

func abortedTransactions(txns []logstore.AbortedTxn) (out []AbortedTransaction) {
	for _, t := range txns {
		out = append(out, AbortedTransaction(t))
	}
	return out
}

// errNegativeMaxBytes has no kind, as in Kafka: UNKNOWN_SERVER_ERROR.
var errNegativeMaxBytes = errors.New("fetch asks for a negative number of bytes")

func outOfRange(at offsets, want *FetchPartition) error {
	return fmt.Errorf("offset %d is not in %d to %d: %w", want.FetchOffset, at.logStart, at.logEnd, kafkaerr.OffsetOutOfRange)
}

// divergence compares the epoch of the last record that the reader has with this log
// (KIP-595's truncation on fetch): nil if the logs agree up to the fetch offset.
func (p *Partition) divergence(at offsets, want *FetchPartition) (*EpochEndOffset, error) {
	end, ok := p.log().EndOffsetForEpoch(want.LastFetchedEpoch)
	if !ok {
		return nil, fmt.Errorf("no end known for epoch %d: %w", want.LastFetchedEpoch, kafkaerr.OffsetOutOfRange)
	}
	if want.FetchOffset < at.logStart {
		return nil, outOfRange(at, want) // diverging or not
	}
	if end.Epoch < want.LastFetchedEpoch || end.EndOffset < want.FetchOffset {
		return &EpochEndOffset{Epoch: end.Epoch, EndOffset: end.EndOffset}, nil
	}
	return nil, nil
}

// availability is what a reader who waits for enough bytes would find.
type availability struct {
	size int
	now  bool // not to wait at all, see delayedFetch.TryComplete
	news bool // a follower knows a high watermark that the leader's has passed
}

// available tells how much r could read of want, as far as it matters to somebody who
// waits for enough bytes.
//
// A consumer beyond the high watermark waits like one at it. Kafka takes that for a
// truncation and answers at once, so that such a consumer fetches in a tight loop.
func (p *Partition) available(r *Reader, want *FetchPartition, enough int) availability {
	at, err := p.admit(r, want)
	if err != nil || want.FetchOffset > at.logEnd || want.FetchOffset < at.logStart {
		return availability{now: true}
	}
	if want.LastFetchedEpoch >= 0 {
		if diverging, err := p.divergence(at, want); err != nil || diverging != nil {
			return availability{now: true}
		}
	}
	a := availability{news: r.isFollower() && want.HighWatermark < min(at.highWatermark, want.FetchOffset)}
	switch bound := at.bound(r); {
	case want.FetchOffset >= bound || r.NoRoom || r.heldBack(at):
	case enough <= 1:
		a.size, a.now = 1, true // the usual minimum: whatever there is
	default:
		a.size, a.now = p.bytesBetween(want, bound)
	}
	return a
}

// bytesBetween counts the bytes from the fetch offset to bound, at most want.MaxBytes;
// now says that they begin on an older segment than they end.
func (p *Partition) bytesBetween(want *FetchPartition, bound int64) (size int, now bool) {
	log := p.log()
	from, err := log.PositionOf(want.FetchOffset)
	if err != nil {
		return 0, true
	}
	to, err := log.PositionOf(bound)
	if err != nil || from.SegmentBase < to.SegmentBase {
		return 0, true
	}
	return int(min(to.Pos-from.Pos, int64(want.MaxBytes))), false
}

// readFailed is the answer about a partition that could not be read.
func (p *Partition) readFailed(err error) FetchResult {
	r := failedFetch(err)
	switch kafkaerr.Code(err) {
	case kafkaerr.NotLeaderOrFollower.Code, kafkaerr.FencedLeaderEpoch.Code:
		r.CurrentLeader, _ = p.Leader()
	}
	return r
}

func failedFetch(err error) FetchResult {
	return FetchResult{Err: err, HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1, CurrentLeader: noLeader}
}

func (r *FetchResult) release() {
	if r.Records != nil {
		r.Records.Release()
		r.Records = nil
	}
}

// size is the number of bytes of the records.
func (r *FetchResult) size() int {
	if r.Records == nil {
		return 0
	}
	return r.Records.Len()
}

// OffsetForLeaderEpoch tells where an epoch ends in this log; only a leader does.
func (p *Partition) OffsetForLeaderEpoch(currentLeaderEpoch, epoch int32) (EpochEndOffset, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if err := p.checkReader(currentLeaderEpoch == NoEpoch, currentLeaderEpoch, true); err != nil {
		return EpochEndOffset{Epoch: -1, EndOffset: -1}, err
	}
	end, ok := p.log().EndOffsetForEpoch(epoch)
	if !ok {
		return EpochEndOffset{Epoch: -1, EndOffset: -1}, nil
	}
	return EpochEndOffset{Epoch: end.Epoch, EndOffset: end.EndOffset}, nil
}
