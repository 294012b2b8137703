package replica

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// TestEndOfAPauseIsNotAskedForWithoutWaiting: less than a millisecond before it, a fetch that
// waits for zero of them would be sent in a loop.
func TestEndOfAPauseIsNotAskedForWithoutWaiting(t *testing.T) {
	now, most := time.Unix(1, 0), 500*time.Millisecond
	for ends, want := range map[time.Time]time.Duration{
		{}:                               most,
		now.Add(time.Second):             most,
		now.Add(20 * time.Millisecond):   20 * time.Millisecond,
		now.Add(300 * time.Microsecond):  time.Millisecond,
		now.Add(-300 * time.Microsecond): time.Millisecond,
	} {
		if got := mayWait(now, ends, most); got != want {
			t.Errorf("pause ends after %v: waits %v, want %v", ends.Sub(now), got, want)
		}
	}
}

// TestReplicasFarBehindShareAnAnswer: a replica whose answers come full asks for more than
// replica.fetch.max.bytes, those of one leader together for no more than a whole answer.
func TestReplicasFarBehindShareAnAnswer(t *testing.T) {
	f := NewFetcher(FetcherOptions{PartitionMaxBytes: 100, MaxBytes: 1000})
	replicas := make([]*followed, 12)
	for i := range replicas {
		replicas[i] = &followed{}
	}
	for full, want := range map[int]int32{0: 1000, 1: 1000, 4: 250, 9: 111, 12: 100} {
		for i, r := range replicas {
			r.full = i < full
		}
		if got := f.shareOfBehind(replicas, f.o.MaxBytes); got != want {
			t.Errorf("%d of 12 came full: each asks for %d, want %d", full, got, want)
		}
	}
}

// manyFollowed is a Fetcher of many replicas that have all been answered about, and are quiet.
func manyFollowed(t testing.TB) (f *Fetcher, answer func(changed ...int32) *kmsg.FetchRequest) {
	const replicas = 10_000
	topic := uuid.UUID{1}
	f = NewFetcher(FetcherOptions{BrokerEpoch: func() int64 { return 1 }, PartitionMaxBytes: 1 << 20, MaxBytes: 10 << 20, MinBytes: 1, MaxWait: time.Second})
	for i := range int32(replicas) {
		p := NewPartition(PartitionOptions{
			ID: TopicIDPartition{TopicID: topic, Partition: i}, Topic: "t", BrokerID: 2,
			Log: &fakeLog{end: 5, flushed: 5, lso: -1}, Config: TopicConfig{Log: logstore.DefaultConfig()}, Brokers: fakeBrokers{},
		})
		p.BecomeFollower(&metadata.Partition{Replicas: []int32{1, 2}, ISR: []int32{1, 2}, Leader: 1, LeaderEpoch: 1})
		f.Follow(p, 1)
	}
	hw := int64(0)
	answer = func(changed ...int32) *kmsg.FetchRequest {
		now := time.Unix(1, 0)
		req, ok := f.Next(now).Request.(*kmsg.FetchRequest)
		if !ok {
			t.Fatal("nothing is fetched")
		}
		resp := &kmsg.FetchResponse{SessionID: 7, Topics: []kmsg.FetchResponseTopic{{TopicID: topic}}}
		hw = min(hw+1, 5)
		for _, i := range changed {
			p := kmsg.NewFetchResponseTopicPartition()
			p.Partition, p.HighWatermark, p.DivergingEpoch.EndOffset = i, hw, -1
			resp.Topics[0].Partitions = append(resp.Topics[0].Partitions, p)
		}
		f.Answered(now, resp, nil)
		return req
	}
	var all []int32
	for i := range int32(replicas) {
		all = append(all, i)
	}
	answer(all...)
	answer()
	return f, answer
}

// TestQuietReplicasAreLeftAlone: with 10,000 replicas of which one is busy, a step looks at one.
func TestQuietReplicasAreLeftAlone(t *testing.T) {
	f, answer := manyFollowed(t)
	expect(t, "all are quiet", f.quiet, len(f.order))
	answer(7)
	if len(f.attention) != 1 || f.attention[0] != f.order[7] {
		t.Errorf("%d in attention", len(f.attention))
	}
	req := answer(7)
	expect(t, "named", req.Topics[0].Partitions[0].Partition, int32(7))
	answer()
	expect(t, "all are quiet again", f.quiet, len(f.order))
	allocs := testing.AllocsPerRun(10, func() { answer() })
	if allocs > maxQuietAllocs {
		t.Errorf("%v allocations, budget %d", allocs, maxQuietAllocs)
	}
	f.Leave(f.order[9].id)
	expect(t, "a session without it", len(answer().Topics[0].Partitions), len(f.order))
}

// maxQuietAllocs is of a request and its answer about nothing, the answer's own included.
const maxQuietAllocs = 10

// BenchmarkFetcherStep is one request and answer about one of 10,000 replicas.
func BenchmarkFetcherStep(b *testing.B) {
	_, answer := manyFollowed(b)
	for b.Loop() {
		answer(7)
	}
}
