package replica

import (
	"cmp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/uuid"
)

// Versions of the requests that followers send: topics by id, with the high watermark that
// the follower knows; ListOffsets goes by name.
const (
	followerFetchVersion       = 18
	followerListOffsetsVersion = 9
)

// fetch builds the next Fetch. One that begins a session names all replicas, those that
// brought records last behind the others, so that an answer of bounded size gets round to
// all. Any other names those of which there is news.
func (f *Fetcher) fetch(ready []*followed, wait time.Duration) *kmsg.FetchRequest {
	all := f.session.renew
	if all {
		slices.SortStableFunc(ready, func(a, b *followed) int { return cmp.Compare(a.lastRecords, b.lastRecords) })
		f.session.epoch, f.session.renew = 0, false
	}
	b := requestBuilder{topics: map[uuid.UUID]int{}}
	most := f.answerSize(ready)
	behind := f.shareOfBehind(ready, most)
	for _, r := range ready {
		r.next.maxBytes = f.o.PartitionMaxBytes
		if r.full {
			r.next.maxBytes = behind
		}
		if all || r.news && (!r.inSession || r.next != r.told) {
			b.add(r, r.next)
			r.told, r.inSession = r.next, true
		}
		r.news = false
	}
	req := kmsg.NewPtrFetchRequest()
	req.Version = followerFetchVersion
	req.ReplicaState.ID, req.ReplicaState.Epoch = f.o.BrokerID, f.o.BrokerEpoch()
	req.MaxWaitMillis = int32(wait.Milliseconds())
	req.MinBytes, req.MaxBytes = f.o.MinBytes, most
	req.SessionID, req.SessionEpoch = f.session.id, f.session.epoch
	req.Topics, req.ForgottenTopics = b.request, f.forgotten(all)
	if f.o.Full != nil && f.o.Full() {
		SetNoRoom(req)
	}
	f.asked = req
	f.settle()
	return req
}

// shareOfBehind is how much is asked of each replica whose last answer came full: together
// they may have a whole answer, if that is more than replica.fetch.max.bytes. Each round trip
// costs a group commit, so that a replica which is many answers behind, under a load that is
// as much as the machine can bear, would else stay behind, and leave the ISR.
func (f *Fetcher) shareOfBehind(ready []*followed, most int32) int32 {
	n := int32(0)
	for _, r := range ready {
		if r.full {
			n++
		}
	}
	return max(f.o.PartitionMaxBytes, most/max(n, 1))
}

// answerSize is the most that an answer may have. Where replicas are behind that are let in
// at a certain rate it is small: large ones a few times a second would have whatever else
// the disk and the leader do wait for each of them. Measured beside a steady producer, pieces of
// 128 or 256 KiB, each of them flushed, cost it a fifth to a third of its 99th percentile, and those
// of 1 MiB more than doubled it.
//
// Members of the ISR that are throttled too must keep up with their leader, and get more.
func (f *Fetcher) answerSize(ready []*followed) int32 {
	limit, set := f.o.Throttle.Limit()
	braked := 0
	for _, r := range ready {
		if r.isBraked() {
			braked++
		}
	}
	if !set || braked == 0 {
		return f.o.MaxBytes
	}
	least, share := float64(throttledAnswer), throttledTime
	if braked < len(ready) {
		least, share = float64(f.o.PartitionMaxBytes), sharedTime
	}
	return int32(min(float64(f.o.MaxBytes), max(least, limit*share.Seconds())))
}

const (
	// throttledAnswer is what a follower asks for at once of throttled records, or throttledTime
	// of its rate, if that is more.
	throttledAnswer = 128 << 10
	throttledTime   = time.Millisecond
	// sharedTime is that where members of the ISR share the answer.
	sharedTime = 20 * time.Millisecond
)

// requestBuilder groups partitions by topic, in the order in which they come.
type requestBuilder struct {
	topics  map[uuid.UUID]int
	request []kmsg.FetchRequestTopic
}

func (b *requestBuilder) add(r *followed, now told) {
	i, ok := b.topics[r.id.TopicID]
	if !ok {
		i = len(b.request)
		b.topics[r.id.TopicID] = i
		t := kmsg.NewFetchRequestTopic()
		t.Topic, t.TopicID = r.topic, r.id.TopicID
		b.request = append(b.request, t)
	}
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch = r.id.Partition, now.epoch
	p.FetchOffset, p.LastFetchedEpoch, p.LogStartOffset = now.at.Offset, now.at.LastEpoch, now.at.LogStart
	p.HighWatermark, p.PartitionMaxBytes = now.highWatermark, now.maxBytes
	b.request[i].Partitions = append(b.request[i].Partitions, p)
}

// listOffsets asks where the logs end that have replicas out of range, or, once that is
// known of all, where they begin; nil if none is out of range.
func (f *Fetcher) listOffsets() kmsg.Request {
	timestamp := EarliestTimestamp
	for _, r := range f.attention {
		if r.awaits == theRange && r.leaderEnd < 0 {
			timestamp = LatestTimestamp
		}
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = followerListOffsetsVersion, f.o.BrokerID
	for _, r := range f.attention {
		if r.awaits != theRange || timestamp == LatestTimestamp && r.leaderEnd >= 0 {
			continue
		}
		r.listing = true
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != r.topic {
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = r.topic
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.Timestamp = r.id.Partition, r.epoch, timestamp
		last := &req.Topics[len(req.Topics)-1]
		last.Partitions = append(last.Partitions, p)
	}
	if len(req.Topics) == 0 {
		return nil
	}
	f.listed = timestamp
	return req
}
