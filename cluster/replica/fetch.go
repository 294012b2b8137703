package replica

import (
	"context"
	"time"

	"github.com/klamm-mq/klamm/cluster/purgatory"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// Fetch reads what req asks for. If that is less than MinBytes it waits, up to MaxWait or
// the end of ctx, and reads again. It answers at once if it is told not to wait, has
// nothing to read, has enough, or any partition has an error, a diverging epoch or a replica
// that had better be asked (ReplicaManager.fetchMessages). A partition that the caller has given an error already
// is not read.
//
// The caller releases the Records of every result, and calls Sent if it sends them.
func (m *Manager) Fetch(ctx context.Context, req *FetchRequest) {
	defer m.traffic.fetched(req)
	r := &Reader{ReplicaID: req.ReplicaID, BrokerEpoch: req.ReplicaEpoch, Isolation: req.Isolation, AnyReplica: req.AnyReplica, NoRoom: req.NoRoom}
	r.Rack, r.Racks = req.Rack, req.Racks
	if r.isFollower() {
		r.OverQuota = m.overQuota
	}
	size, urgent := m.readAll(r, req)
	if req.MaxWait <= 0 || len(req.Partitions) == 0 && req.Again == nil || size >= req.MinBytes || urgent {
		return
	}
	// Too little: nothing of it is kept over the wait, since regions keep files open.
	releaseAll(req)
	if !m.await(ctx, r, req) {
		return
	}
	// What a follower has was noted at the first read. It has sent nothing since.
	r.Peek = true
	m.readAll(r, req)
}

// Sent counts what a fetch has found as sent.
func (m *Manager) Sent(req *FetchRequest) {
	m.traffic.sent(req)
	m.countThrottled(req)
}

// readAll reads every partition in order. The whole answer is bounded by MaxBytes, but
// the first partition that has anything gives at least one batch (KIP-74). Partitions
// behind the limit still get an answer without records: it carries their offsets.
func (m *Manager) readAll(r *Reader, req *FetchRequest) (size int, urgent bool) {
	now := time.Now()
	left := req.MaxBytes
	for i := range req.Partitions {
		want := &req.Partitions[i]
		r.Served = left < req.MaxBytes/2
		m.readOne(now, r, want, min(want.MaxBytes, left), size == 0)
		n := want.Result.size()
		size += n
		left = max(0, left-n)
		urgent = urgent || want.Result.Err != nil || want.Result.Diverging != nil || want.Result.PreferredReplica != nil
	}
	return size, urgent
}

func (m *Manager) readOne(now time.Time, r *Reader, want *FetchPartition, maxBytes int, minOne bool) {
	if want.Result.Err != nil {
		want.Result = failedFetch(want.Result.Err)
		return
	}
	h, err := m.find(want.TopicIDPartition)
	if err != nil {
		want.Result = failedFetch(err)
		if kafkaerr.Code(err) == kafkaerr.NotLeaderOrFollower.Code {
			want.Result.CurrentLeader = m.leaderInMetadata(want.TopicIDPartition)
		}
		return
	}
	if r.NoRoom {
		r, maxBytes, minOne = r.withoutRoom(h), 0, false
	}
	var e Effects
	want.Result, e = h.ReadRecords(now, r, want, maxBytes, minOne)
	m.carryOut(h, e)
}

func releaseAll(req *FetchRequest) {
	for i := range req.Partitions {
		req.Partitions[i].Result.release()
	}
}

// await waits until the fetch should be read again; false if its connection has ended.
func (m *Manager) await(ctx context.Context, r *Reader, req *FetchRequest) bool {
	d := &delayedFetch{m: m, reader: r, req: req, ended: make(chan struct{})}
	var keys []waitKey
	if req.Again == nil { // else those who read tell of news
		keys = make([]waitKey, len(req.Partitions))
	}
	for i := range keys {
		keys[i] = waitKey{req.Partitions[i].TopicIDPartition, r.isFollower()}
	}
	if m.fetches.TryCompleteElseWatch(&d.item, d, keys, req.MaxWait) != purgatory.Waiting {
		return true
	}
	if req.Waits != nil {
		req.Waits.Park()
	}
	for {
		select {
		case <-d.ended:
			return true
		case <-req.News:
			m.fetches.Check(&d.item)
		case <-ctx.Done():
			m.fetches.Cancel(&d.item)
			<-d.ended
			return false
		}
	}
}

// delayedFetch is a fetch that waits for MinBytes (Kafka's DelayedFetch).
type delayedFetch struct {
	item   purgatory.Item[waitKey]
	m      *Manager
	reader *Reader
	req    *FetchRequest
	told   bool // that there is news for it, see highWatermarkNews
	ended  chan struct{}
}

// TryComplete implements purgatory.Operation. The fetch is worth reading again if
//
//	A  this broker leads one of its partitions no more, or has lost the replica
//	B  it does not know one of them any more
//	C  one is in a directory that is offline
//	D  the leader epoch of one has passed the reader's
//	E  one has been truncated below the fetch offset, or diverges from the reader's log
//	F  a reader is on an older segment than the end: it catches up, and need not wait
//	G  all together have MinBytes
//
// A follower that knows a high watermark which the leader's has passed is answered soon, with
// or without records (highWatermarkNews).
func (d *delayedFetch) TryComplete() bool {
	if d.req.Again != nil && d.req.Again() {
		return true
	}
	size := 0
	for i := range d.req.Partitions {
		want := &d.req.Partitions[i]
		h, err := d.m.find(want.TopicIDPartition)
		if err != nil || want.Result.Err != nil {
			return true // A, B
		}
		a := h.available(d.reader, want, d.req.MinBytes-size)
		size += a.size
		if a.now || size >= d.req.MinBytes {
			return true
		}
		if a.news && !d.told {
			d.told = true
			d.m.news.tell(d)
		}
	}
	return false
}

// OnComplete implements purgatory.Operation.
func (d *delayedFetch) OnComplete(purgatory.Cause) { close(d.ended) }

// ListOffsets answers each partition of req, except those that the caller has given an
// error already: they are left alone, so that what Kafka checks before it looks for the
// partition comes first.
func (m *Manager) ListOffsets(req *ListOffsetsRequest) {
	for i := range req.Partitions {
		want := &req.Partitions[i]
		if want.Result.Err != nil {
			continue
		}
		h, err := m.find(want.TopicIDPartition)
		if err != nil {
			want.Result = failedListOffsets(err)
			continue
		}
		want.Result = h.ListOffsets(req, want)
	}
}

// OffsetForLeaderEpoch answers each partition: where the epoch asked for ends here. One
// that the caller has given an error already is left alone.
func (m *Manager) OffsetForLeaderEpoch(parts []EpochRequestPartition) {
	for i := range parts {
		want := &parts[i]
		if want.Err != nil {
			continue
		}
		h, err := m.find(want.TopicIDPartition)
		if err != nil {
			want.Result, want.Err = EpochEndOffset{Epoch: -1, EndOffset: -1}, err
			continue
		}
		want.Result, want.Err = h.OffsetForLeaderEpoch(want.CurrentLeaderEpoch, want.LeaderEpoch)
	}
}
