package replica

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// brake is a Throttle that a test closes.
type brake struct {
	wait  time.Duration
	limit float64 // 0: none
	bytes int
}

func (b *brake) Record(_ time.Time, bytes int)    { b.bytes += bytes }
func (b *brake) Exceeded(time.Time) time.Duration { return b.wait }
func (b *brake) Limit() (float64, bool)           { return b.limit, b.limit > 0 }

func withThrottles(leader, follower Throttle) func(*harness) {
	return withOptions(func(o *Options) { o.LeaderThrottle, o.FollowerThrottle = leader, follower })
}

// TestLeaderHoldsBackWhoIsNotInSync: above the limit, followers outside the ISR are sent no
// records of throttled replicas. Members of the ISR are, and what they are sent counts.
func TestLeaderHoldsBackWhoIsNotInSync(t *testing.T) {
	leader := &brake{wait: time.Second}
	bubble(t, func(h *harness) {
		h.registerBrokers(1, 2, 3)
		a := assignment{replicas: []int32{1, 2, 3}, isr: []int32{1, 2}}
		throttled := h.topic("t", 2, a, "durability=replicated", "leader.throttled=1")
		for i := range 2 {
			h.produce(throttled.partition(i), AcksOne, "a")
		}
		fetch := func(replica int32, partition int) *FetchRequest {
			req := withWait(fetchOf(throttled.partition(partition), 0), 500*time.Millisecond)
			req.ReplicaID, req.ReplicaEpoch = replica, int64(100+replica)
			return req
		}
		for _, test := range []struct {
			name      string
			replica   int32
			partition int
			waits     time.Duration
			values    []string
		}{
			{"not in sync", 3, 1, 500 * time.Millisecond, nil},
			{"not throttled", 3, 0, 0, []string{"a"}},
			{"in sync", 2, 1, 0, []string{"a"}},
		} {
			f := h.park(fetch(test.replica, test.partition))
			expect(t, test.name+" waits", <-f.done, test.waits)
			h.m.Sent(f.FetchRequest)
			expect(t, test.name, h.values(&f.Partitions[0].Result), test.values)
		}
		expect(t, "bytes counted", leader.bytes, len(h.records(nil, "a")))
		h.apply(setConfig("t", "leader.throttled=0"))
		f := h.park(fetch(3, 1))
		expect(t, "no throttle any more", h.values(&f.Partitions[0].Result), []string{"a"})
	}, withThrottles(leader, nil))
}

// TestFollowerLeavesOutWhatIsThrottled: above the limit it does not ask for throttled
// replicas that are behind, and the session forgets them; back below it takes them in again.
func TestFollowerLeavesOutWhatIsThrottled(t *testing.T) {
	bubble(t, func(h *harness) {
		h.registerBrokers(1, 2)
		id := h.topic("t", 2, assignment{replicas: []int32{2, 1}, isr: []int32{2}}, "durability=replicated", "follower.throttled=1")
		follower := &brake{}
		f := NewFetcher(FetcherOptions{BrokerID: 1, BrokerEpoch: func() int64 { return 101 }, MaxWait: time.Second, Throttle: follower})
		for i := range 2 {
			f.Follow(h.m.get(id.partition(i)).Partition, 0)
		}
		a := answers{t: t, h: h, f: f, id: id}

		a.next("both at first", []int32{0, 1}, nil, time.Second)
		a.answer(map[int32]int64{0: 0, 1: 5}, h.records(nil, "a"))
		expect(t, "bytes counted", follower.bytes, len(h.records(nil, "a")))

		follower.wait = 300 * time.Millisecond
		a.next("one is left out", nil, []int32{1}, 300*time.Millisecond)
		a.answer(nil, nil)
		a.next("and stays out", nil, nil, 300*time.Millisecond)
		a.answer(nil, nil)
		follower.wait = 0
		a.next("it is back", []int32{1}, nil, time.Second)
		a.answer(map[int32]int64{1: 2}, h.records(nil, "b"))

		follower.wait = time.Minute
		a.next("in sync", []int32{1}, nil, time.Second)
	})
}

// TestMemberOfTheISRIsAskedForAtOnce: who has just begun to follow is not held back before the
// leader's first answer if it is in sync. The rate may be above the limit because of what it
// has fetched itself, a moment ago by another fetcher.
func TestMemberOfTheISRIsAskedForAtOnce(t *testing.T) {
	bubble(t, func(h *harness) {
		h.registerBrokers(1, 2)
		fetch := func(isr ...int32) *answers {
			topic := fmt.Sprint("of-", len(isr))
			id := h.topic(topic, 1, assignment{replicas: []int32{2, 1}, isr: isr, dir: uuid.DirUnassigned}, "follower.throttled=0")
			f := NewFetcher(FetcherOptions{BrokerID: 1, BrokerEpoch: func() int64 { return 101 }, MaxWait: time.Second, Throttle: &brake{wait: time.Minute}})
			f.Follow(h.m.get(id).Partition, 0)
			return &answers{t: t, h: h, f: f, id: id}
		}
		fetch(2, 1).next("in sync", []int32{0}, nil, time.Second)
		if step := fetch(2).f.Next(time.Now()); step.Request != nil {
			t.Errorf("not in sync: asked for %+v", step.Request)
		}
	})
}

// answers plays the leader of a Fetcher.
type answers struct {
	t  *testing.T
	h  *harness
	f  *Fetcher
	id TopicIDPartition
}

func (a *answers) next(what string, asked, forgotten []int32, wait time.Duration) {
	a.t.Helper()
	req := a.f.Next(time.Now()).Request.(*kmsg.FetchRequest)
	var gotAsked, gotForgotten []int32
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			gotAsked = append(gotAsked, p.Partition)
		}
	}
	for _, t := range req.ForgottenTopics {
		gotForgotten = append(gotForgotten, t.Partitions...)
	}
	expect(a.t, what+": asked", gotAsked, asked)
	expect(a.t, what+": forgotten", gotForgotten, forgotten)
	expect(a.t, what+": wait", time.Duration(req.MaxWaitMillis)*time.Millisecond, wait)
}

// answer gives high watermarks, and records of partition 1.
func (a *answers) answer(highWatermarks map[int32]int64, records []byte) {
	a.t.Helper()
	resp := kmsg.NewPtrFetchResponse()
	resp.SessionID = 7
	topic := kmsg.NewFetchResponseTopic()
	topic.TopicID = a.id.TopicID
	for partition, hw := range highWatermarks {
		p := kmsg.NewFetchResponseTopicPartition()
		p.Partition, p.HighWatermark = partition, hw
		if partition == 1 {
			end := int64(a.h.m.get(a.id.partition(1)).log().LogEnd())
			batch.View(records).SetBaseOffset(end)
			p.RecordBatches = records
		}
		topic.Partitions = append(topic.Partitions, p)
	}
	resp.Topics = append(resp.Topics, topic)
	a.f.Answered(time.Now(), resp, nil)
}

// TestThrottledReplicasAreFetchedApart: over a connection of their own, as soon as they are
// named, and with the others again when they are not any more.
func TestThrottledReplicasAreFetchedApart(t *testing.T) {
	pairBubble(t, func(d *duo) {
		id := d.topic("t", 2, pair).partition(1)
		fetchers := func(what string, want int) {
			t.Helper()
			got, replicas := d.other.m.fetchers.counts()
			expect(t, what+": fetchers and replicas", [2]int{got, replicas}, [2]int{want, 2})
			for range 2 { // whoever fetches it, it arrives
				d.must(id, "a")
				expect(t, what+": the follower's log end", d.other.log(id).LogEnd(), d.log(id).LogEnd())
			}
		}
		fetchers("nothing is throttled", 1)
		d.apply(setConfig("t", "follower.throttled=1"))
		fetchers("one is", 2)
		d.apply(setConfig("t", "follower.throttled=7"))
		fetchers("it is not any more", 1)
	})
}

// TestAnswersOfThrottledReplicasAreSmall: while one is behind, a fetch asks for a thousandth of a
// second of what is let in, or 128 KiB if that is more. Beside one that is in sync it is a fiftieth
// of a second, at least what one partition may have.
func TestAnswersOfThrottledReplicasAreSmall(t *testing.T) {
	bubble(t, func(h *harness) {
		h.registerBrokers(1, 2)
		id := h.topic("t", 2, assignment{replicas: []int32{2, 1}, isr: []int32{2}}, "follower.throttled=1")
		follower := &brake{}
		f := NewFetcher(FetcherOptions{BrokerID: 1, BrokerEpoch: func() int64 { return 101 }, PartitionMaxBytes: 100, MaxBytes: 1000, Throttle: follower})
		other, throttled := &followed{p: h.m.get(id.partition(0)).Partition, lag: 5}, &followed{p: h.m.get(id.partition(1)).Partition, lag: 5}
		for _, c := range []struct {
			limit float64
			lag   int64
			want  int32
		}{{0, 5, 1000}, {1, 5, 100}, {20_000, 5, 400}, {20_000, unknownLag, 400}, {1e12, 5, 1000}, {20_000, 0, 1000}} {
			follower.limit, throttled.lag = c.limit, c.lag
			if got := f.answerSize([]*followed{other, throttled}); got != c.want {
				t.Errorf("limit %v, lag %d: %d bytes, want %d", c.limit, c.lag, got, c.want)
			}
		}
		f.o.MaxBytes, throttled.lag = 10<<20, 5
		for limit, want := range map[float64]int32{0: 10 << 20, 1: 128 << 10, 50e6: 128 << 10, 500e6: 500_000, 1e12: 10 << 20} {
			follower.limit = limit
			if got := f.answerSize([]*followed{throttled}); got != want {
				t.Errorf("limit %v, alone: %d bytes, want %d", limit, got, want)
			}
		}
	})
}

// TestLittleIsLookedAtForAThrottledFollower: an answer that is half full takes in no more throttled
// replicas that are behind. Members of the ISR, and others, get what is left.
func TestLittleIsLookedAtForAThrottledFollower(t *testing.T) {
	bubble(t, func(h *harness) {
		h.registerBrokers(1, 2, 3)
		a := assignment{replicas: []int32{1, 2, 3}, isr: []int32{1, 2}}
		throttled, other := h.topic("t", 3, a, "durability=replicated", "leader.throttled=*"), h.topic("u", 1, a, "durability=replicated")
		all := []TopicIDPartition{throttled.partition(0), throttled.partition(1), other.partition(0), throttled.partition(2)}
		for _, id := range all {
			h.produce(id, AcksOne, "a")
		}
		size := len(h.records(nil, "a"))
		for _, c := range []struct {
			replica  int32
			maxBytes int
			want     string
		}{
			{3, 10 * size, "[1 1 1 1]"},
			{3, 4 * size, "[1 1 1 0]"}, // half is used when the third has been read
			{3, 3 * size, "[1 1 1 0]"},
			{3, size, "[1 0 0 0]"},
			{2, 4 * size, "[1 1 1 1]"},
		} {
			req := fetchOf(all[0], 0)
			for _, id := range all[1:] {
				req.Partitions = append(req.Partitions, fetchOf(id, 0).Partitions...)
			}
			req.ReplicaID, req.ReplicaEpoch, req.MaxBytes = c.replica, int64(100+c.replica), c.maxBytes
			h.m.Fetch(t.Context(), req)
			var found []int
			for i := range req.Partitions {
				found = append(found, len(h.values(&req.Partitions[i].Result)))
			}
			expect(t, fmt.Sprintf("replica %d, %d bytes", c.replica, c.maxBytes/size), fmt.Sprint(found), c.want)
		}
	})
}

// TestWhatIsFarBehindIsForgotten: more than 64 MiB behind the leader, by the size of the records that
// have come, a throttled replica does not keep in memory what it takes in.
func TestWhatIsFarBehindIsForgotten(t *testing.T) {
	bubble(t, func(h *harness) {
		h.registerBrokers(1, 2)
		id := h.topic("t", 1, assignment{replicas: []int32{2, 1}, isr: []int32{2}}, "follower.throttled=0")
		records := h.records(nil, "a")
		for lag, want := range map[int64]bool{0: false, 64 << 20 / int64(len(records)): false, 64<<20/int64(len(records)) + 1: true} {
			p := h.m.get(id.partition(0)).Partition
			end := int64(p.log().LogEnd())
			batch.View(records).SetBaseOffset(end)
			_, e, err := p.AppendFetched(time.Now(), Fetched{Offset: end, Records: records, HighWatermark: end + 1 + lag})
			if err != nil || e.Forget != want {
				t.Errorf("%d records behind: forget %v, want %v; %v", lag, e.Forget, want, err)
			}
		}
	})
}
