package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/klamm-mq/klamm/cluster/purgatory"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// DeleteToHighWatermark is the offset of a DeleteRecords that means all that is
// acknowledged.
const DeleteToHighWatermark int64 = -1

// DeleteRecordsRequest is one DeleteRecords request whose topics have been resolved. It
// carries its results.
type DeleteRecordsRequest struct {
	Timeout    time.Duration
	Partitions []DeleteRecordsPartition // each partition at most once
}

// DeleteRecordsPartition is the part of a DeleteRecordsRequest for one partition.
type DeleteRecordsPartition struct {
	TopicIDPartition
	Offset int64 // the first to stay, or DeleteToHighWatermark

	// Result is valid when DeleteRecords returns. With an error from before, nothing is
	// deleted.
	Result DeleteRecordsResult

	required int64 // what Offset came to
	pending  bool  // replicas are awaited
}

// DeleteRecordsResult is the answer for one partition.
type DeleteRecordsResult struct {
	Err error
	// LowWatermark is the smallest log start of the replicas that are alive; -1 on error.
	LowWatermark int64
}

// DeleteRecords moves log starts forward and waits, up to the timeout or the end of ctx,
// until every replica that is alive has followed (ReplicaManager.deleteRecords). With
// durability=fsync the log start of this replica is on the disk before it counts: no crash
// lets a record reappear that was deleted and acknowledged as such. Files go with the next
// retention.
//
// A partition with an error from before is left alone.
func (m *Manager) DeleteRecords(ctx context.Context, req *DeleteRecordsRequest) {
	dirs := make(map[*directory][]promisedDeletion)
	for i := range req.Partitions {
		part := &req.Partitions[i]
		if part.Result.Err == nil {
			m.deleteOne(part, dirs)
		}
	}
	for dir, deletions := range dirs {
		persistDeletions(dir, deletions)
	}
	pending := false
	for i := range req.Partitions {
		part := &req.Partitions[i]
		part.pending = part.Result.Err == nil && part.Result.LowWatermark < part.required
		pending = pending || part.pending
	}
	if pending {
		m.awaitDeletions(ctx, req)
	}
}

// deleteOne moves one log start, and adds the partition to those that must be durable.
func (m *Manager) deleteOne(part *DeleteRecordsPartition, durable map[*directory][]promisedDeletion) {
	h, err := m.find(part.TopicIDPartition)
	if err != nil {
		part.fail(err)
		return
	}
	required, low, promised, err := h.DeleteRecords(part.Offset)
	if err != nil {
		part.fail(err)
		return
	}
	part.required, part.Result.LowWatermark = required, low
	if promised {
		at := h.at()
		durable[at.dir] = append(durable[at.dir], promisedDeletion{part, h, at.log})
	}
}

// persistDeletions leaves out the logs that were moved meanwhile: the directories where they
// are now have their log starts (logstore.Move.Finish).
func persistDeletions(dir *directory, deletions []promisedDeletion) {
	for len(deletions) > 0 {
		logs := make([]*logstore.Log, 0, len(deletions))
		for _, d := range deletions {
			logs = append(logs, d.log)
		}
		err := dir.PersistLogStarts(logs...)
		if err == nil {
			return
		}
		all := len(deletions)
		deletions = slices.DeleteFunc(deletions, func(d promisedDeletion) bool { return d.hosted.at().log != d.log })
		if errors.Is(err, logstore.ErrClosed) && len(deletions) < all {
			continue
		}
		for _, d := range deletions {
			d.part.fail(storageError(err))
		}
		return
	}
}

// promisedDeletion is one that is answered when it is durable.
type promisedDeletion struct {
	part   *DeleteRecordsPartition
	hosted *hosted
	log    *logstore.Log
}

func (part *DeleteRecordsPartition) fail(err error) {
	part.Result = DeleteRecordsResult{Err: err, LowWatermark: -1}
}

// DeleteRecords moves the log start to upTo, which is not above the high watermark, if it
// lies below it. required is what upTo came to, low the low watermark then; promised says
// that the topic wants it durable before it is answered (Partition.deleteRecordsOnLeader).
func (p *Partition) DeleteRecords(upTo int64) (required, low int64, promised bool, err error) {
	p.rlockToWrite()
	defer p.mu.RUnlock()
	if err := p.requireLeader(); err != nil {
		return -1, -1, false, err
	}
	hw := p.hw.Load()
	if upTo == DeleteToHighWatermark {
		upTo = hw
	}
	switch {
	case p.config.Log.Compact && !p.config.Log.Delete:
		return -1, -1, false, fmt.Errorf("records of %s, which is compacted only: %w", p.opts.Topic, kafkaerr.PolicyViolation)
	case upTo < 0 || upTo > hw:
		return -1, -1, false, fmt.Errorf("delete records of %s-%d up to %d, the high watermark is %d: %w",
			p.opts.Topic, p.opts.ID.Partition, upTo, hw, kafkaerr.OffsetOutOfRange)
	}
	if err := p.log().AdvanceLogStart(upTo); err != nil {
		return -1, -1, false, deletionError(err)
	}
	p.signal()
	return upTo, p.lowWatermark(), p.config.Log.Durability == logstore.DurabilityFsync, nil
}

// deletionError makes a failure of the disk known as one.
func deletionError(err error) error {
	if errors.Is(err, kafkaerr.OffsetOutOfRange) {
		return err
	}
	return storageError(err)
}

// lowWatermark is the smallest log start of the replicas whose brokers are alive. Caller
// holds mu and has checked that the replica leads.
func (p *Partition) lowWatermark() int64 {
	low := int64(p.log().LogStart())
	for i := range p.followers {
		f := &p.followers[i]
		if epoch, _ := p.opts.Brokers.BrokerEpoch(f.id); epoch >= 0 {
			low = min(low, f.logStart)
		}
	}
	return low
}

// LowWatermark is the smallest log start of the replicas that are alive, if this one leads.
func (p *Partition) LowWatermark() (int64, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if err := p.requireLeader(); err != nil {
		return -1, err
	}
	return p.lowWatermark(), nil
}

// awaitDeletions waits for the replicas. What is still pending then has timed out; it is
// deleted here all the same.
func (m *Manager) awaitDeletions(ctx context.Context, req *DeleteRecordsRequest) {
	d := &delayedDelete{m: m, req: req, ended: make(chan struct{})}
	var keys []waitKey
	for i := range req.Partitions {
		if part := &req.Partitions[i]; part.pending {
			keys = append(keys, waitKey{TopicIDPartition: part.TopicIDPartition})
		}
	}
	if m.deletes.TryCompleteElseWatch(&d.item, d, keys, req.Timeout) == purgatory.Waiting {
		select {
		case <-d.ended:
		case <-ctx.Done():
			m.deletes.Cancel(&d.item)
			<-d.ended
		}
	}
	for i := range req.Partitions {
		if part := &req.Partitions[i]; part.pending {
			// With the low watermark of the beginning, as Kafka.
			part.Result.Err = kafkaerr.RequestTimedOut
		}
	}
}

// delayedDelete is a DeleteRecords that waits for replicas (Kafka's DelayedDeleteRecords).
type delayedDelete struct {
	item  purgatory.Item[waitKey]
	m     *Manager
	req   *DeleteRecordsRequest
	ended chan struct{}
}

// TryComplete implements purgatory.Operation: done once no partition is pending.
func (d *delayedDelete) TryComplete() bool {
	done := true
	for i := range d.req.Partitions {
		part := &d.req.Partitions[i]
		if !part.pending {
			continue
		}
		low, err := d.m.lowWatermark(part.TopicIDPartition)
		switch {
		case err != nil:
			part.fail(err)
		case low < part.required:
			done = false
			continue
		default:
			part.Result.LowWatermark = low
		}
		part.pending = false
	}
	return done
}

// OnComplete implements purgatory.Operation.
func (d *delayedDelete) OnComplete(purgatory.Cause) { close(d.ended) }

func (m *Manager) lowWatermark(id TopicIDPartition) (int64, error) {
	h, err := m.find(id)
	if err != nil {
		return -1, err
	}
	return h.LowWatermark()
}
