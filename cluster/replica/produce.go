package replica

import (
	"time"

	"github.com/klamm-mq/klamm/cluster/purgatory"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// ownFlushWait bounds how long a produce waits where nothing but the leader's own flush is
// awaited. With acks 0 or 1 it promises the leader's write only, which has been done, so a
// disk that takes longer is no reason to fail it, nor to hold the connection back any
// longer. With acks=all the request's timeout, if it is shorter, is meant for replicas:
// Kafka answers a leader alone at once, so that there even a timeout of 0 is enough.
const ownFlushWait = 30 * time.Second

// Append appends each batch of req to its partition, if this broker leads it. It returns
// true if req has all its results. With false some are still awaited (see
// Partition.Reached), and req.Done is called when they are there: possibly before Append
// returns, so it must be ready before. Either way req's records are not used any more
// when Append returns, and another request of the same producer may follow
// (ReplicaManager.handleProduceAppend).
func (m *Manager) Append(req *AppendRequest) (answered bool) {
	if req.Acks != AcksAll && req.Acks != AcksOne && req.Acks != AcksNone {
		for i := range req.Partitions {
			req.Partitions[i].Result = failedAppend(kafkaerr.InvalidRequiredAcks)
		}
		return true
	}
	now := time.Now()
	pending := false
	for i := range req.Partitions {
		part := &req.Partitions[i]
		m.appendOne(now, req, part)
		part.Records = nil // what waits for its high watermark must not keep a frame alive
		m.traffic.produced(&part.Result)
		pending = pending || part.awaited.Pending()
	}
	wakeCommitters(req)
	return !pending || m.park(req)
}

func (m *Manager) appendOne(now time.Time, req *AppendRequest, part *AppendPartition) {
	part.awaited, part.flush = Awaited{}, false
	h, err := m.find(part.TopicIDPartition)
	if err != nil {
		part.Result = failedAppend(err)
		if kafkaerr.Code(err) == kafkaerr.NotLeaderOrFollower.Code {
			part.Result.CurrentLeader = m.leaderInMetadata(part.TopicIDPartition)
		}
		return
	}
	var e Effects
	part.Result, part.awaited, e = h.AppendAsLeader(now, LeaderAppend{
		Records: part.Records, Acks: req.Acks, RequestVersion: req.RequestVersion, Origin: logstore.OriginClient,
	})
	part.hosted, part.flush = h, e.FlushWanted
	m.carryOut(h, e)
}

// wakeCommitters asks for the flushes that the appends of req made due, once all of them
// are written, so that one round covers them.
func wakeCommitters(req *AppendRequest) {
	for i := range req.Partitions {
		if part := &req.Partitions[i]; part.flush {
			part.hosted.at().dir.committer.Wake()
		}
	}
}

// park makes req wait for what its batches still have to reach.
func (m *Manager) park(req *AppendRequest) (answered bool) {
	d := &req.delayed
	d.req = req
	d.keys = d.one[:0]
	alone := true
	for i := range req.Partitions {
		if part := &req.Partitions[i]; part.awaited.Pending() {
			d.keys = append(d.keys, waitKey{TopicIDPartition: part.TopicIDPartition})
			alone = alone && part.awaited.alone
		}
	}
	timeout := req.Timeout
	if alone {
		timeout = max(timeout, ownFlushWait)
	}
	cause := m.produces.TryCompleteElseWatch(&d.item, d, d.keys, timeout)
	if cause == purgatory.Waiting {
		return false
	}
	d.finish(cause)
	return true
}

// delayedProduce is a produce whose batches have not all reached what they await
// (Kafka's DelayedProduce).
type delayedProduce struct {
	item purgatory.Item[waitKey]
	req  *AppendRequest
	keys []waitKey
	one  [1]waitKey
}

// TryComplete implements purgatory.Operation: done once no batch is pending. A batch that
// has reached its end, or failed to, is settled there and then; it must not be judged
// again by what happens to its partition later.
func (d *delayedProduce) TryComplete() bool {
	done := true
	for i := range d.req.Partitions {
		part := &d.req.Partitions[i]
		if !part.awaited.Pending() {
			continue
		}
		reached, err := part.hosted.Reached(part.awaited)
		if !reached {
			done = false
			continue
		}
		part.settle(err)
	}
	return done
}

// OnComplete implements purgatory.Operation.
func (d *delayedProduce) OnComplete(cause purgatory.Cause) {
	d.finish(cause)
	d.req.Done(d.req)
}

// finish settles what is still pending when the wait has ended otherwise:
//
//	expired    acks=all: REQUEST_TIMED_OUT. The batch stays in the log and may be
//	           acknowledged to a retry, as a duplicate.
//	refused    the same: there is no room to wait in.
//	cancelled  the broker stops: NOT_LEADER_OR_FOLLOWER, so that clients look elsewhere.
//
// With acks 0 and 1 the leader's write was all that was asked for.
func (d *delayedProduce) finish(cause purgatory.Cause) {
	for i := range d.req.Partitions {
		part := &d.req.Partitions[i]
		switch {
		case !part.awaited.Pending():
		case d.req.Acks != AcksAll:
			part.settle(nil)
		case cause == purgatory.Cancelled:
			part.settle(kafkaerr.NotLeaderOrFollower)
		default:
			part.settle(kafkaerr.RequestTimedOut)
		}
	}
}

// settle gives the partition its final answer; offsets stay, as in Kafka.
func (part *AppendPartition) settle(err error) {
	part.awaited = Awaited{}
	part.Result.Err = err
	if kafkaerr.Code(err) == kafkaerr.NotLeaderOrFollower.Code {
		part.Result.CurrentLeader, _ = part.hosted.Leader()
	}
}
