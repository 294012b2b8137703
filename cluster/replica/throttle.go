package replica

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/uuid"
)

// Replicas that are throttled (leader.replication.throttled.replicas, follower.…) are held
// back while together they are above the broker's rate for that side, except those that are
// in sync: those would leave the ISR. Everything of a throttled replica counts, in sync or
// not (Kafka's shouldLeaderThrottle and shouldFollowerThrottle):
//
//	leader     a follower outside the ISR that asks is sent no records; the rest of its
//	           answer is what it would be, and its fetch waits as if there were none
//	follower   a replica that lacks what is below the leader's high watermark, as far as it
//	           knows, is not asked for; before the leader's first answer metadata tells
//	           whether it is in sync
//
// A follower fetches throttled replicas over connections of their own: the others would wait
// behind their answers. Nor do others wait for what it flushes of those that are not in the ISR:
// that goes beside the group commits.

// Throttle measures the throttled replicas of one side. *quota.Replication is one.
type Throttle interface {
	// Record counts bytes.
	Record(now time.Time, bytes int)
	// Exceeded is 0 while the rate is within its limit, else how long that will take.
	Exceeded(now time.Time) time.Duration
	// Limit is the rate that is allowed, if there is one.
	Limit() (bytesPerSecond float64, set bool)
}

type noThrottle struct{}

func (noThrottle) Record(time.Time, int)            {}
func (noThrottle) Exceeded(time.Time) time.Duration { return 0 }
func (noThrottle) Limit() (float64, bool)           { return 0, false }

// Throttled are the partitions of a topic whose replica on this broker is throttled.
type Throttled struct {
	All        bool
	Partitions []int32
}

func (t Throttled) has(partition int32) bool {
	return t.All || slices.Contains(t.Partitions, partition)
}

// overQuota tells whether followers are to be held back here.
func (m *Manager) overQuota() bool { return m.opts.LeaderThrottle.Exceeded(time.Now()) > 0 }

// countThrottled counts what is sent to a follower of throttled replicas.
func (m *Manager) countThrottled(req *FetchRequest) {
	if req.ReplicaID < 0 {
		return
	}
	var size int
	for i := range req.Partitions {
		if r := &req.Partitions[i].Result; r.throttled {
			size += r.size()
		}
	}
	if size > 0 {
		m.opts.LeaderThrottle.Record(time.Now(), size)
	}
}

// setThrottle notes whether what r reads counts, and whether r may be held back. Caller holds
// mu.
func (p *Partition) setThrottle(at *offsets, r *Reader) {
	at.throttled = r.isFollower() && p.config.LeaderThrottled.has(p.opts.ID.Partition)
	at.limited = at.throttled && !slices.Contains(p.isr.committed, r.ReplicaID)
}

func (r *Reader) heldBack(at offsets) bool { return at.limited && r.OverQuota != nil && r.OverQuota() }

// passesOver tells whether r is to get no records now, being throttled or, since the answers of
// a throttled follower are small, behind others that have most of this one: a look at each of a
// thousand replicas, for what is left, would cost more than what it finds is worth.
func (r *Reader) passesOver(at offsets) bool { return at.limited && r.Served || r.heldBack(at) }

// followsThrottled tells whether the replica is throttled as a follower.
func (p *Partition) followsThrottled() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.config.FollowerThrottled.has(p.opts.ID.Partition)
}

// unknownLag is that of a replica whose leader has not answered yet: it may be behind.
const unknownLag int64 = -1

// maxHold is after how long a changed limit is noticed, or a replica that is not throttled
// any more.
const maxHold = time.Second

// throttleGate is for replicas that follow, at one moment.
type throttleGate struct {
	f     *Fetcher
	now   time.Time
	asked bool
	wait  time.Duration
}

// opens is when a replica that is to be held back may be looked at again, zero for one that
// is not.
func (g *throttleGate) opens(r *followed) time.Time {
	if !r.isBraked() {
		return time.Time{}
	}
	if !g.asked {
		g.asked, g.wait = true, g.f.o.Throttle.Exceeded(g.now)
	}
	if g.wait <= 0 {
		return time.Time{}
	}
	return g.now.Add(min(g.wait, maxHold))
}

// isBraked tells whether the replica has to wait while the rate is above its limit. Before the
// leader has answered, a member of the ISR does not: it has all that is acknowledged, and
// acknowledgements wait for it (Kafka has it wait).
func (r *followed) isBraked() bool {
	switch r.lag {
	case 0:
		return false
	case unknownLag:
		return r.p.followsThrottled() && !r.p.isInISR()
	default:
		return r.p.followsThrottled()
	}
}

func (p *Partition) isInISR() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.inISR
}

// holdBack leaves a replica out of the next requests. The leader is told to forget it, and
// keeps the session: that happens several times a second.
func (f *Fetcher) holdBack(r *followed) {
	r.toForget = r.toForget || r.inSession
	r.inSession, r.news = false, true
}

// letThrough takes a replica in again. One that the leader was not told to forget is still in
// the session.
func (f *Fetcher) letThrough(r *followed) {
	if r.toForget {
		r.inSession, r.toForget = true, false
	}
}

// forgotten are the replicas that a session is to forget; none if it begins with this
// request.
func (f *Fetcher) forgotten(begins bool) (topics []kmsg.FetchRequestForgottenTopic) {
	places := map[uuid.UUID]int{}
	for _, r := range f.attention {
		if !r.toForget {
			continue
		}
		r.toForget = false
		if begins {
			continue
		}
		i, ok := places[r.id.TopicID]
		if !ok {
			i = len(topics)
			places[r.id.TopicID] = i
			t := kmsg.NewFetchRequestForgottenTopic()
			t.Topic, t.TopicID = r.topic, r.id.TopicID
			topics = append(topics, t)
		}
		topics[i].Partitions = append(topics[i].Partitions, r.id.Partition)
	}
	return topics
}

// count notes what a leader has answered: its bytes, and how far behind the replica is now.
func (f *Fetcher) count(now time.Time, r *followed, p *kmsg.FetchResponseTopicPartition) {
	r.lag = max(0, p.HighWatermark-int64(r.p.log().LogEnd()))
	if len(p.RecordBatches) > 0 && r.p.followsThrottled() {
		f.o.Throttle.Record(now, len(p.RecordBatches))
	}
}
