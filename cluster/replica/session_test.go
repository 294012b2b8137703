package replica

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/cluster/fetchsession"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// remote is broker 2 with the session that the leader keeps for it: what the handler of Fetch
// does.
type remote struct {
	h         *harness
	cache     *fetchsession.Cache
	id, epoch int32
	broker    int64 // its epoch
	noRoom    bool
	all       []TopicIDPartition
	ends, hws map[TopicIDPartition]int64 // what it has, and knows

	session *fetchsession.Context // of the fetch under way
	ask     *FetchRequest
	keys    []fetchsession.Key
	visited int // partitions, in all fetches
}

// newRemote follows the first partitions of a topic, and has fetched twice: it has a session.
func newRemote(h *harness, id TopicIDPartition, partitions int, o fetchsession.Options) *remote {
	r := &remote{
		h: h, cache: fetchsession.NewCache(o), broker: 102,
		ends: map[TopicIDPartition]int64{}, hws: map[TopicIDPartition]int64{},
	}
	for i := range partitions {
		r.all = append(r.all, id.partition(i))
	}
	r.fetch(0, r.all...)
	r.fetch(0)
	return r
}

// fetch names partitions, and takes in what the leader answers. It gives those that the answer
// tells of.
func (r *remote) fetch(wait time.Duration, named ...TopicIDPartition) (told []TopicIDPartition) {
	r.begin(named)
	r.ask = &FetchRequest{ReplicaID: 2, ReplicaEpoch: r.broker, MinBytes: 1, MaxBytes: 10 << 20, MaxWait: wait, NoRoom: r.noRoom}
	r.resolve()
	if r.ask.News = r.session.News(); r.ask.News != nil {
		r.ask.Again = r.resolve
	}
	r.h.m.Fetch(context.Background(), r.ask)
	answers := make([]fetchsession.Answer, len(r.keys))
	for i := range answers {
		f := &r.ask.Partitions[i].Result
		answers[i] = fetchsession.Answer{Key: r.keys[i], RecordsBytes: f.size(), HighWatermark: f.HighWatermark, LogStartOffset: f.LogStartOffset, Failed: f.Err != nil}
	}
	id, err := r.session.UpdateAndFilter(time.Now(), answers)
	if err != nil {
		r.h.t.Fatal(err)
	}
	r.id, r.epoch = id, r.epoch+1
	for i := range answers {
		if answers[i].Include {
			told = append(told, r.ask.Partitions[i].TopicIDPartition)
			r.take(&r.ask.Partitions[i])
		}
	}
	return told
}

// request is one that goes on with the session.
func (r *remote) request() fetchsession.Request {
	return fetchsession.Request{
		Version: 18, SessionID: r.id, Epoch: r.epoch,
		Follower: true, ReplicaID: 2, ReplicaEpoch: r.broker, WalkAll: r.noRoom,
	}
}

func (r *remote) begin(named []TopicIDPartition) {
	req := r.request()
	for _, id := range named {
		req.Partitions = append(req.Partitions, fetchsession.Partition{
			Key: fetchsession.Key{TopicID: id.TopicID, Partition: id.Partition}, Name: "t",
			FetchOffset: r.ends[id], LastFetchedEpoch: -1, HighWatermark: r.hws[id], MaxBytes: 1 << 20,
		})
	}
	if r.session = r.cache.NewContext(time.Now(), req); r.session.Err() != nil {
		r.h.t.Fatal(r.session.Err())
	}
}

func (r *remote) resolve() (failed bool) {
	r.keys, r.ask.Partitions = nil, nil
	for _, p := range r.session.Partitions(nil, func(uuid.UUID) string { return "t" }) {
		want := FetchPartition{
			TopicIDPartition: TopicIDPartition{p.TopicID, p.Partition}, CurrentLeaderEpoch: p.CurrentLeaderEpoch,
			FetchOffset: p.FetchOffset, LastFetchedEpoch: p.LastFetchedEpoch, LogStartOffset: p.LogStartOffset,
			HighWatermark: p.HighWatermark, MaxBytes: int(p.MaxBytes),
			KnownHighWatermark: p.KnownHighWatermark, KnownLogStart: p.KnownLogStart,
		}
		if p.Watch != nil {
			want.Watch = p.Watch
		}
		r.keys, r.ask.Partitions = append(r.keys, p.Key), append(r.ask.Partitions, want)
	}
	r.visited += len(r.keys)
	return false
}

func (r *remote) take(p *FetchPartition) {
	if p.Result.Err == nil {
		r.ends[p.TopicIDPartition] += int64(len(r.h.values(&p.Result)))
		r.hws[p.TopicIDPartition] = min(p.Result.HighWatermark, r.ends[p.TopicIDPartition])
	}
}

// round has one batch replicated and acknowledged.
func (r *remote) round(id TopicIDPartition) (fetches int) {
	p := r.h.produce(id, AcksAll, "v")
	var told []TopicIDPartition
	for {
		select {
		case <-p.done:
			if err := p.Partitions[0].Result.Err; err != nil {
				r.h.t.Error(err)
			}
			return fetches
		default:
			told = r.fetch(time.Second, told...)
			fetches++
		}
	}
}

// manyQuiet is a leader of many partitions, all of which rest in the session of their follower.
func manyQuiet(t testing.TB) (h *harness, id TopicIDPartition, r *remote) {
	const partitions = 10_000
	h = quiet(t, bare)
	h.registerBrokers(1, 2)
	id = h.topic("t", partitions, pair)
	r = newRemote(h, id, partitions, fetchsession.Options{WalkEvery: time.Hour})
	r.round(id)
	return h, id, r
}

// maxVisits is how often a fetch looks at the one partition that is busy: when it begins, twice
// before it waits, at each of two signals, and when it answers.
const maxVisits = 6

// TestFetchVisitsWhatHasNews: with 10,000 partitions of which one is busy, a fetch of their
// follower looks at one.
func TestFetchVisitsWhatHasNews(t *testing.T) {
	_, id, r := manyQuiet(t)
	const rounds = 20
	fetches := 0
	r.visited = 0
	for range rounds {
		fetches += r.round(id)
	}
	if r.visited > maxVisits*fetches {
		t.Errorf("%d fetches visit %d partitions, budget %d each", fetches, r.visited, maxVisits)
	}
}

// maxRestingAllocs is of a fetch of a follower in whose session 10,000 partitions rest; the
// remote's own requests and answers are in it.
const maxRestingAllocs = 12

// TestRestingFetchAllocations: a fetch does not pay for what rests.
func TestRestingFetchAllocations(t *testing.T) {
	_, id, r := manyQuiet(t)
	for range 3 {
		r.fetch(0, id) // knows the high watermark
	}
	r.visited = 0
	allocs := math.Inf(1)
	// Beside them others run by the clock; on one processor for as long as it takes to make the
	// files of 10,000 partitions.
	for i := 0; i < 1000 && allocs > maxRestingAllocs; i++ {
		allocs = min(allocs, testing.AllocsPerRun(10, func() { r.fetch(time.Millisecond) }))
	}
	if allocs > maxRestingAllocs {
		t.Errorf("%v allocations, budget %d", allocs, maxRestingAllocs)
	}
	if r.visited > 0 {
		t.Errorf("%d visits to partitions that rest", r.visited)
	}
}

// BenchmarkFollowerRound is one batch on one of 10,000 partitions, on a file system in memory,
// with the fetches that replicate it.
func BenchmarkFollowerRound(b *testing.B) {
	_, id, r := manyQuiet(b)
	for b.Loop() {
		r.round(id)
	}
}
