package fetchsession

import (
	"container/list"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/klamm-mq/klamm/protocol/uuid"
)

// Key names a partition in a request: by topic id from version 13 on, before that by
// topic name. The other one is empty.
type Key struct {
	TopicID   uuid.UUID
	Topic     string
	Partition int32
}

// Partition is what a fetcher wants of one partition; epochs and offsets as in the
// request, negative for none.
type Partition struct {
	Key
	// Name is that of a topic that goes by id, "" while nobody knows it. A session keeps
	// it: of a topic that was deleted since, or made anew, the name is still known.
	Name               string
	CurrentLeaderEpoch int32
	FetchOffset        int64
	LastFetchedEpoch   int32
	LogStartOffset     int64 // the follower's
	HighWatermark      int64 // that the follower knows (KIP-1166)
	MaxBytes           int32

	// Of a partition in a follower's session: what the follower was last told, -1 for nothing,
	// and how to tell the session of news.
	KnownHighWatermark, KnownLogStart int64
	Watch                             *Watch
}

// session is one open session.
type session struct {
	id           int32
	privileged   bool // a follower's
	usesTopicIDs bool
	created      time.Time

	// Guarded by Cache.mu.
	lastUsed   time.Time
	cachedSize int // number of partitions at the last touch
	place      *list.Element

	mu      sync.Mutex
	epoch   int32 // of the next request
	parts   *partitions
	watches *watches // of a follower's, else nil
}

// worth orders sessions by how much is lost when one is evicted.
type worth struct {
	privileged bool
	size       int
	id         int32
}

func (s *session) worth() worth { return worth{s.privileged, s.cachedSize, s.id} }

func (a worth) less(b worth) bool {
	switch {
	case a.privileged != b.privileged:
		return b.privileged
	case a.size != b.size:
		return a.size < b.size
	}
	return a.id < b.id
}

// nextEpoch is the epoch after a request's: it skips 0, which asks for a new session,
// when it wraps (FetchMetadata.nextEpoch).
func nextEpoch(epoch int32) int32 {
	switch {
	case epoch < 0:
		return finalEpoch
	case epoch == math.MaxInt32:
		return 1
	}
	return epoch + 1
}

// cachedPartition is a partition of a session: what is wanted and what the fetcher was
// last told (FetchSession.CachedPartition).
type cachedPartition struct {
	want           Partition
	highWatermark  int64 // as last answered, -1: answer again
	logStartOffset int64
	place          *list.Element
	turn           uint64 // rises in the order of the session

	// In a follower's session only.
	watch  *Watch
	listed bool // in watches.awake
}

// partitions is a set of cachedPartitions with an order.
type partitions struct {
	byKey map[Key]*cachedPartition
	order list.List // of *cachedPartition
	turn  uint64    // of the last
}

func newPartitions(n int) *partitions {
	return &partitions{byKey: make(map[Key]*cachedPartition, n)}
}

func (ps *partitions) len() int { return len(ps.byKey) }

// put updates what is wanted of a partition, or adds it at the end. The name is copied,
// since the request's may alias a buffer that is used again.
func (ps *partitions) put(want Partition) *cachedPartition {
	if cached := ps.byKey[want.Key]; cached != nil {
		want.Key = cached.want.Key
		if cached.want.Name != "" {
			want.Name = cached.want.Name
		}
		cached.want = want
		return cached
	}
	want.Topic = strings.Clone(want.Topic)
	cached := &cachedPartition{want: want, highWatermark: -1, logStartOffset: -1}
	ps.turn++
	cached.place, cached.turn = ps.order.PushBack(cached), ps.turn
	ps.byKey[want.Key] = cached
	return cached
}

// missing counts those of want that are not in the set.
func (ps *partitions) missing(want []Partition) (n int) {
	for i := range want {
		if ps.byKey[want[i].Key] == nil {
			n++
		}
	}
	return n
}

func (ps *partitions) remove(k Key) {
	if cached := ps.byKey[k]; cached != nil {
		ps.order.Remove(cached.place)
		delete(ps.byKey, k)
		if cached.watch != nil {
			cached.watch.end()
		}
	}
}

func (ps *partitions) moveToEnd(cached *cachedPartition) {
	ps.turn++
	cached.turn = ps.turn
	ps.order.MoveToBack(cached.place)
}

func (ps *partitions) appendTo(dst []Partition, names func(uuid.UUID) string) []Partition {
	for e := ps.order.Front(); e != nil; e = e.Next() {
		dst = append(dst, e.Value.(*cachedPartition).wanted(names))
	}
	return dst
}

// wanted is what is asked of the one who reads.
func (p *cachedPartition) wanted(names func(uuid.UUID) string) Partition {
	p.want.resolve(names)
	want := p.want
	want.KnownHighWatermark, want.KnownLogStart, want.Watch = p.highWatermark, p.logStartOffset, p.watch
	return want
}

// resolve looks for the name of a topic that has none yet
// (CachedPartition.maybeResolveUnknownName).
func (p *Partition) resolve(names func(uuid.UUID) string) {
	if p.Name == "" && names != nil {
		p.Name = names(p.TopicID)
	}
}

// concerns tells whether an answer says anything that the fetcher does not know. A follower
// that says that it knows less of the high watermark than it was told is told again: it takes
// nothing over from an answer that has it truncate, or that came for another leader epoch.
func (p *cachedPartition) concerns(a *Answer) bool {
	return a.RecordsBytes > 0 || a.Failed || a.Redirected || a.Diverging ||
		p.want.HighWatermark < a.HighWatermark || p.highWatermark != a.HighWatermark || p.logStartOffset != a.LogStartOffset
}

// update decides whether an incremental answer contains the partition, and remembers
// what the fetcher is told (CachedPartition.maybeUpdateResponseData).
func (p *cachedPartition) update(a *Answer) (include bool) {
	include = p.concerns(a)
	p.highWatermark, p.logStartOffset = a.HighWatermark, a.LogStartOffset
	if a.Failed {
		p.highWatermark = -1
	}
	return include
}
