package replica

import (
	"fmt"
	"time"

	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/offset"
)

// LeaderAppend is one batch for a leader.
type LeaderAppend struct {
	Records        []byte
	Acks           int16
	RequestVersion int16
	Origin         logstore.Origin
}

// Awaited is what an appended batch still has to reach before it is acknowledged; the
// zero value awaits nothing.
type Awaited struct {
	what       awaitedFor
	alone      bool  // nobody but the leader has to flush: the ISR was the leader when it appended
	end        int64 // after the last record
	leadership uint64
}

// awaitedFor is the kind of acknowledgement.
type awaitedFor int8

const (
	nothing     awaitedFor = iota
	ownFlush               // acks 0 and 1 of a leader alone with durability=fsync
	allReplicas            // acks=all
)

// Pending tells whether there is anything to wait for.
func (a Awaited) Pending() bool { return a.what != nothing }

// AppendAsLeader appends one batch. It writes nothing if the replica does not lead, or if
// acks=all is asked of an ISR smaller than min.insync.replicas (NOT_ENOUGH_REPLICAS). The
// append is never flushed here: what the batch still has to reach is in Awaited
// (Partition.appendRecordsToLeader).
func (p *Partition) AppendAsLeader(now time.Time, a LeaderAppend) (AppendResult, Awaited, Effects) {
	return p.appendAndAdvance(now, NoEpoch, a)
}

func (p *Partition) appendAndAdvance(now time.Time, epoch int32, a LeaderAppend) (AppendResult, Awaited, Effects) {
	result, awaited, e := p.append(now, epoch, a)
	if result.Err != nil {
		return result, awaited, e
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signalAppended()
	e.add(p.advanceHighWatermark(now)) // with replicated, the log end counts at once
	return result, awaited, e
}

// append holds the partition's lock for reading, as Kafka does: batches are validated
// beside each other and beside reads, and the log orders the writes. What it excludes is
// a change of role between the check and the write.
func (p *Partition) append(now time.Time, epoch int32, a LeaderAppend) (AppendResult, Awaited, Effects) {
	p.rlockToWrite()
	defer p.mu.RUnlock()
	if err := p.checkAppend(epoch, a.Acks); err != nil {
		return p.appendFailed(err), Awaited{}, Effects{}
	}
	info, err := p.log().AppendAsLeader(logstore.AppendParams{
		Now: now, Records: a.Records, LeaderEpoch: p.leader.Epoch, Origin: a.Origin, RequestVersion: a.RequestVersion,
	})
	if err != nil {
		return p.appendFailed(err), Awaited{}, Effects{}
	}
	result := AppendResult{
		BaseOffset:      info.FirstOffset,
		LogAppendTimeMs: info.LogAppendTimeMs,
		LogStartOffset:  int64(p.log().LogStart()),
	}
	if !info.Duplicate {
		result.appendedRecords, result.appendedBytes = info.LastOffset-info.FirstOffset+1, int64(info.AppendedBytes)
	}
	return result, p.awaited(a.Acks, info.LastOffset+1), Effects{FlushWanted: info.FlushWanted, WakeFetcher: len(p.followers) > 0}
}

func (p *Partition) checkAppend(epoch int32, acks int16) error {
	if err := p.requireEpoch(epoch); err != nil {
		return err
	}
	if minISR := p.effectiveMinISR(); acks == AcksAll && len(p.isr.committed) < minISR { // case A of Reached
		return fmt.Errorf("%d of %d in-sync replicas that acks=all of %s-%d needs: %w",
			len(p.isr.committed), minISR, p.opts.Topic, p.opts.ID.Partition, kafkaerr.NotEnoughReplicas)
	}
	return nil
}

// awaited says what makes an append count as done.
//
//	acks=all   until every in-sync replica has it. A duplicate waits just as long as the
//	           original: to answer it earlier would acknowledge what may still be lost.
//	acks=1, 0  nothing, by their promise. But while the leader is alone in the ISR, a
//	           consumer sees the record only after the leader's flush; so that whoever
//	           produced can read, as in Kafka, the append is done only then.
func (p *Partition) awaited(acks int16, end int64) Awaited {
	a := Awaited{end: end, leadership: p.leadership, alone: p.isr.maximalSize() == 1}
	switch {
	case acks == AcksAll:
		a.what = allReplicas
	case a.alone && p.config.Log.Durability == logstore.DurabilityFsync:
		a.what = ownFlush
	}
	return a
}

// Reached tells whether what a batch awaited has come about, or cannot any more. The cases
// of acks=all:
//
//	A  there were too few in-sync replicas before the append (see checkAppend)
//	                                           → NOT_ENOUGH_REPLICAS, nothing is written
//	B  the high watermark has not passed the batch; an ISR below min.insync.replicas only
//	   makes it wait                           → until REQUEST_TIMED_OUT
//	C  the high watermark has passed it
//	   C.1  and the maximal ISR is not smaller than min.insync.replicas
//	                                           → success
//	   C.2  but the ISR has shrunk below it meanwhile
//	                                           → NOT_ENOUGH_REPLICAS_AFTER_APPEND
//	D  the replica leads no more, or has not all the time
//	                                           → NOT_LEADER_OR_FOLLOWER
//
// With any acks a replica that is of no use (topic deleted, replica moved away, log damaged
// or its directory offline) ends the wait with that error. With acks 0 or 1 of a leader
// that is alone, its flush is awaited.
//
// (DelayedProduce.tryComplete, Partition.checkEnoughReplicasReachOffset)
func (p *Partition) Reached(a Awaited) (done bool, err error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if err := p.requireLeader(); err != nil {
		return true, err // D, or of no use
	}
	if a.leadership != p.leadership {
		return true, kafkaerr.NotLeaderOrFollower // D
	}
	switch a.what {
	case allReplicas:
		if p.hw.Load() < a.end {
			return false, nil // B
		}
		if p.isr.maximalSize() < p.effectiveMinISR() {
			return true, kafkaerr.NotEnoughReplicasAfterAppend // C.2
		}
		return true, nil // C.1
	case ownFlush:
		return p.log().Flushed() >= offset.Flushed(a.end), nil
	case nothing:
	}
	return true, nil
}

// appendFailed is the result of an append that wrote nothing, or nothing that counts.
// Kafka tells the log start with some errors only (ReplicaManager.appendToLocalLog).
func (p *Partition) appendFailed(err error) AppendResult {
	r := failedAppend(err)
	if p.isLeader && !withoutLogStart(err) {
		r.LogStartOffset = int64(p.log().LogStart())
	}
	if kafkaerr.Code(err) == kafkaerr.NotLeaderOrFollower.Code {
		r.CurrentLeader = p.leader
	}
	return r
}

func withoutLogStart(err error) bool {
	switch kafkaerr.Code(err) {
	case kafkaerr.UnknownTopicOrPartition.Code, kafkaerr.UnknownTopicID.Code, kafkaerr.NotLeaderOrFollower.Code,
		kafkaerr.MessageTooLarge.Code, kafkaerr.RecordListTooLarge.Code, kafkaerr.CorruptMessage.Code,
		kafkaerr.KafkaStorageError.Code:
		return true
	}
	return false
}

func failedAppend(err error) AppendResult {
	return AppendResult{Err: err, BaseOffset: -1, LogAppendTimeMs: -1, LogStartOffset: -1, CurrentLeader: noLeader}
}
