package replica

import (
	"testing"
	"time"

	"github.com/klamm-mq/klamm/cluster/fetchsession"
	"github.com/klamm-mq/klamm/cluster/metadata"
)

// resting is a leader with a follower in whose session both partitions of a topic rest.
func resting(t *testing.T, f func(h *harness, id TopicIDPartition, r *remote), config ...string) {
	t.Helper()
	bubble(t, func(h *harness) {
		h.registerBrokers(1, 2)
		id := h.topic("t", 2, pair, config...)
		r := newRemote(h, id, 2, fetchsession.Options{})
		r.visited = 0
		expect(t, "nothing is told", r.fetch(0), []TopicIDPartition(nil))
		expect(t, "nothing is visited", r.visited, 0)
		f(h, id, r)
	})
}

// TestNewsEndsTheRest: a fetch that begins after it, and one that waits, hear of an append.
func TestNewsEndsTheRest(t *testing.T) {
	resting(t, func(h *harness, id TopicIDPartition, r *remote) {
		p := h.produce(id, AcksAll, "a")
		expect(t, "told", r.fetch(time.Minute), []TopicIDPartition{id})
		go func() {
			time.Sleep(time.Second)
			h.produce(id.partition(1), AcksOne, "b")
		}()
		expect(t, "named, and told of the high watermark", r.fetch(time.Minute, id), []TopicIDPartition{id})
		expect(t, "acknowledged", p.answered(), true)
		begin := time.Now()
		expect(t, "told while it waits", r.fetch(time.Minute, id), []TopicIDPartition{id.partition(1)})
		expect(t, "after", time.Since(begin), time.Second-highWatermarkPatience)
		for range 3 { // acknowledges; is told of the high watermark; knows it
			r.fetch(0, id.partition(1))
		}
		r.visited = 0
		expect(t, "nothing", r.fetch(0), []TopicIDPartition(nil))
		expect(t, "all rest again", r.visited, 0)
	})
}

// TestRestingFollowerStaysInSync: as long as it fetches, and not longer.
func TestRestingFollowerStaysInSync(t *testing.T) {
	resting(t, func(h *harness, id TopicIDPartition, r *remote) {
		p := h.m.get(id).Partition
		fetchFor := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); {
				r.fetch(500*time.Millisecond, r.all[1:]...) // the other one is named all the time
			}
		}
		leaves := func() bool {
			p.Tick(time.Now())
			p.mu.RLock()
			defer p.mu.RUnlock()
			return p.isr.pending != nil
		}
		fetchFor(5 * time.Minute)
		h.produce(id, AcksOne, "a")
		time.Sleep(29 * time.Second)
		expect(t, "it had everything when the record came", leaves(), false)
		time.Sleep(2 * time.Second)
		expect(t, "it has not fetched since", leaves(), true)
	})
}

// TestForgottenPartitionIsNotFetched: the session goes on without it.
func TestForgottenPartitionIsNotFetched(t *testing.T) {
	resting(t, func(h *harness, id TopicIDPartition, r *remote) {
		p := h.m.get(id).Partition
		since := time.Now()
		w := p.follower(2).watch
		for range 10 {
			time.Sleep(time.Second)
			r.fetch(0)
		}
		expect(t, "by its session", p.follower(2).everythingAt().Sub(since), 10*time.Second)
		req := r.request()
		req.Forgotten = []fetchsession.Key{{TopicID: id.TopicID, Partition: id.Partition}}
		r.cache.NewContext(time.Now(), req)
		time.Sleep(time.Second)
		r.epoch++
		r.fetch(0)
		expect(t, "no more", w.LastFetch().Sub(since), 10*time.Second)
	})
}

// TestRolesEndTheRest: whoever fetches hears of an end of the leadership at once.
func TestRolesEndTheRest(t *testing.T) {
	for name, record := range map[string]func(TopicIDPartition) metadata.Record{
		"another leader": func(id TopicIDPartition) metadata.Record {
			return metadata.PartitionChangeRecord{TopicID: id.TopicID, Leader: metadata.Ptr(int32(2))}
		},
		"deleted": func(id TopicIDPartition) metadata.Record { return metadata.RemoveTopicRecord{ID: id.TopicID} },
	} {
		t.Run(name, func(t *testing.T) {
			resting(t, func(h *harness, id TopicIDPartition, r *remote) {
				h.apply(record(id))
				told := r.fetch(time.Minute)
				expect(t, "told", told, r.all[:len(told)])
				if len(told) == 0 || r.ask.Partitions[0].Result.Err == nil {
					t.Errorf("answered %+v", r.ask.Partitions)
				}
			})
		})
	}
}

// TestLogStartEndsTheRest: of a deletion, and of retention.
func TestLogStartEndsTheRest(t *testing.T) {
	resting(t, func(h *harness, id TopicIDPartition, r *remote) {
		for range 30 {
			r.round(id)
			r.fetch(0, id)
			r.fetch(0, id)
		}
		expect(t, "at rest", r.fetch(0), []TopicIDPartition(nil))
		if _, _, _, err := h.m.get(id).DeleteRecords(1); err != nil {
			t.Fatal(err)
		}
		expect(t, "deleted", r.fetch(0), []TopicIDPartition{id})
		expect(t, "log start", r.ask.Partitions[0].Result.LogStartOffset, int64(1))
		for end := time.Now().Add(6 * time.Minute); time.Now().Before(end); {
			if told := r.fetch(time.Second); len(told) > 0 {
				if now := r.ask.Partitions[0].Result.LogStartOffset; now > 1 {
					return
				}
			}
		}
		t.Error("nothing was heard of retention")
	}, "segment.bytes=300", "retention.bytes=600")
}

// TestMoreThanUsualIsWalkedInFull: another epoch of the follower's broker, a full disk, ten
// seconds.
func TestMoreThanUsualIsWalkedInFull(t *testing.T) {
	resting(t, func(h *harness, id TopicIDPartition, r *remote) {
		visits := func() int {
			r.visited = 0
			r.fetch(0)
			return r.visited
		}
		h.apply(metadata.RegisterBrokerRecord{Broker: metadata.Broker{ID: 2, Epoch: 202}})
		r.broker = 202
		expect(t, "another epoch", visits(), 2)
		expect(t, "known", h.m.get(id).follower(2).brokerEpoch, int64(202))
		expect(t, "the same epoch", visits(), 0)
		r.noRoom = true
		expect(t, "no room", visits(), 2)
		expect(t, "proposed", h.m.get(id).isr.pending != nil, true)
		r.noRoom = false
		expect(t, "room again", visits(), 2)
		r.fetch(0)
		expect(t, "at rest", visits(), 0)
		time.Sleep(10 * time.Second)
		expect(t, "after ten seconds", visits(), 2)
		expect(t, "and then no more", visits(), 0)
	})
}

// deaf is a Watch that hears of nothing.
type deaf struct{ Watch }

// Signal does nothing.
func (deaf) Signal() {}

// TestForgottenSignal: what a session was not told of is neither acknowledged nor lost, and the
// next walk finds it.
func TestForgottenSignal(t *testing.T) {
	resting(t, func(h *harness, id TopicIDPartition, r *remote) {
		f := h.m.get(id).follower(2)
		f.watch = deaf{f.watch}
		p := h.produce(id, AcksAll, "a")
		begin := time.Now()
		var told []TopicIDPartition
		for len(told) == 0 {
			expect(t, "acknowledged", p.answered(), false)
			expect(t, "high watermark", int64(h.m.get(id).HighWatermark()), int64(0))
			told = r.fetch(500 * time.Millisecond)
		}
		expect(t, "told", told, []TopicIDPartition{id})
		expect(t, "after", time.Since(begin) <= 11*time.Second, true)
		r.fetch(0, told...)
		expect(t, "acknowledged", p.answered(), true)
	})
}

// TestNewSessionTakesTheRestOver: the old one walks what it has lost.
func TestNewSessionTakesTheRestOver(t *testing.T) {
	resting(t, func(_ *harness, _ TopicIDPartition, r *remote) {
		old := *r
		r.id, r.epoch = 0, 0
		r.fetch(0, r.all...)
		r.fetch(0)
		old.visited, r.visited = 0, 0
		r.fetch(0)
		expect(t, "the new one rests", r.visited, 0)
		old.fetch(0)
		expect(t, "the old one does not", old.visited, 2)
	})
}
