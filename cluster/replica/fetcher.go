package replica

import (
	"log/slog"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Fetcher is what a follower asks of one leader for the replicas of one log directory, as
// a core: it has no goroutine, clock or connection (Kafka's AbstractFetcherThread and
// FetchSessionHandler). Its driver goes round and round:
//
//	  ┌──────────────────────────────────────────────────────────┐
//	  ▼                                                          │
//	Next ── Request ──► leader ── response ──► Answered ── Effects
//	  │
//	  └── ForFlush: until the directory's group commit has ended; Until; or a change
//
// A Fetch goes out only when everything that it vouches for is durable (see
// Partition.FollowerPosition), and all replicas go into one: those that have nothing new
// are not named in it, since the leader keeps a session (KIP-227), and cost no step anything
// (see attend).
//
// A replica that failed, or whose leader answered an error, pauses, and leaves the session
// meanwhile. One whose leader knows a later epoch waits for metadata. Methods are not safe
// for concurrent use.
type Fetcher struct {
	o       FetcherOptions
	parts   map[TopicIDPartition]*followed
	order   []*followed
	session fetcherSession

	attention []*followed // of order, those to be looked at; see attend
	quiet     int         // how many of the others the session fetches

	turn   uint64             // counts answers that brought records
	asked  *kmsg.FetchRequest // without an answer yet
	listed int64              // timestamp of a ListOffsets without an answer yet, 0: none
	pause  backoff            // of the whole fetcher, after a request that failed
}

// FetcherOptions configure a Fetcher.
type FetcherOptions struct {
	BrokerID          int32
	BrokerEpoch       func() int64  // of the registration in force
	PartitionMaxBytes int32         // replica.fetch.max.bytes
	MaxBytes          int32         // replica.fetch.response.max.bytes
	MinBytes          int32         // replica.fetch.min.bytes
	MaxWait           time.Duration // replica.fetch.wait.max.ms
	Backoff           time.Duration // replica.fetch.backoff.ms: the longest pause
	// Full tells whether the log directory is; nil: it never is.
	Full func() bool
	// Throttle holds throttled replicas back that are behind; nil: it never does.
	Throttle Throttle
	// Prepare lowers the checkpoints for several truncations with one write; nil: each
	// truncation does so for itself.
	Prepare func([]*Truncation)
	Logger  *slog.Logger
}

// followed is one replica of a Fetcher.
type followed struct {
	p     *Partition
	id    TopicIDPartition
	topic string
	epoch int32 // leader epoch in which it follows

	inSession   bool // the leader's session has it
	told, next  told // what the session has of it, and what it is to have
	news        bool // told may be out of date, or what it has not be durable
	awaits      awaits
	pause       backoff
	leaderEnd   int64  // while awaits == theRange: where the leader's log ends, -1 until that is known
	listing     bool   // the ListOffsets under way is about it
	lag         int64  // behind the leader's high watermark by its last answer; unknownLag before one
	toForget    bool   // the session is to forget it
	lastRecords uint64 // orders those that brought records
	full        bool   // its last answer was as large as it might be: there is more
	attended    bool   // it is in attention
	quiet       bool   // the session fetches it, and there is nothing to say of it
}

// told is what a request says of a replica.
type told struct {
	epoch         int32
	at            FollowerPosition
	highWatermark int64
	maxBytes      int32
}

// awaits is what a replica waits for before it is fetched again.
type awaits int8

const (
	nothingElse awaits = iota
	endOfPause
	newMetadata // with a later leader epoch
	theRange    // it is out of the leader's, see listed
)

// fetcherSession is the session that the leader keeps for the Fetcher.
type fetcherSession struct {
	id, epoch int32 // of the next request that goes on with it
	// renew says that the next request names everything and begins a session; the leader
	// then drops the one that it has.
	renew bool
}

// firstPause follows the first failure; each further one doubles it, up to
// replica.fetch.backoff.ms. It is short, since after an election followers often know of it
// before their leader does.
const firstPause = 20 * time.Millisecond

// backoff is a growing pause.
type backoff struct {
	until    time.Time
	failures int
}

func (b *backoff) failed(now time.Time, longest time.Duration) {
	d := min(firstPause<<min(b.failures, 10), longest)
	b.failures++
	b.until = now.Add(d)
}

// NewFetcher makes a fetcher without replicas.
func NewFetcher(o FetcherOptions) *Fetcher {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Throttle == nil {
		o.Throttle = noThrottle{}
	}
	return &Fetcher{o: o, parts: make(map[TopicIDPartition]*followed), session: fetcherSession{renew: true}}
}

// Follow takes in a replica that follows the leader in a leader epoch, or notes a later
// epoch of it.
func (f *Fetcher) Follow(p *Partition, epoch int32) {
	old := f.parts[p.ID()]
	switch {
	case old == nil:
		r := &followed{p: p, id: p.ID(), topic: p.Topic(), epoch: epoch, news: true, lag: unknownLag}
		f.parts[r.id] = r
		f.order = append(f.order, r)
		f.attend(r)
		p.fetchFailed.Store(false)
	case old.p != p:
		f.Leave(p.ID())
		f.Follow(p, epoch)
	case old.epoch != epoch:
		f.attend(old)
		old.epoch, old.news, old.lag = epoch, true, unknownLag
		old.awaits, old.pause = nothingElse, backoff{}
		p.fetchFailed.Store(false)
	}
}

// Leave lets a replica go.
func (f *Fetcher) Leave(id TopicIDPartition) {
	r := f.parts[id]
	if r == nil {
		return
	}
	f.dropFromSession(r)
	delete(f.parts, id)
	f.attend(r) // so that it is in one place
	r.attended = false
	f.order = slices.DeleteFunc(f.order, func(o *followed) bool { return o == r })
	f.attention = slices.DeleteFunc(f.attention, func(o *followed) bool { return o == r })
}

// Len counts the replicas.
func (f *Fetcher) Len() int { return len(f.parts) }

// FetchStep is what a Fetcher wants next: one of its fields.
type FetchStep struct {
	// Request goes to the leader, and its response to Answered, before Next is called
	// again. It is a Fetch, or a ListOffsets.
	Request kmsg.Request
	// ForFlush: nothing before the directory has flushed more.
	ForFlush bool
	// Until is when to ask again. With none of all this there is nothing to do before the
	// replicas change.
	Until time.Time
}

// Next tells what to do now.
func (f *Fetcher) Next(now time.Time) FetchStep {
	if now.Before(f.pause.until) {
		return FetchStep{Until: f.pause.until}
	}
	if f.asked != nil || f.listed != 0 {
		return FetchStep{} // it waits for an answer
	}
	begins := f.session.renew
	if begins {
		f.attendAll()
	}
	ready, until := f.ready(now)
	if req := f.listOffsets(); req != nil {
		return FetchStep{Request: req}
	}
	ready, durable := f.positions(ready)
	switch {
	case f.session.renew && !begins: // one that had to go was in the session: all are named
		return f.Next(now)
	case !durable:
		return FetchStep{ForFlush: true, Until: until}
	case len(ready)+f.quiet == 0:
		f.session.renew = true
		return FetchStep{Until: until}
	}
	return FetchStep{Request: f.fetch(ready, mayWait(now, until, f.o.MaxWait))}
}

// mayWait is how long a leader may wait for records: who pauses is not to wait for those who
// don't. Requests count whole milliseconds, and with none the follower would ask again and
// again until the pause has ended.
func mayWait(now, endOfPause time.Time, most time.Duration) time.Duration {
	if endOfPause.IsZero() {
		return most
	}
	return min(most, max(endOfPause.Sub(now), time.Millisecond))
}

// ready gives the replicas in attention that may be fetched, and the end of the shortest pause
// of the others.
func (f *Fetcher) ready(now time.Time) (ready []*followed, until time.Time) {
	f.dismissed()
	gate := throttleGate{f: f, now: now}
	for _, r := range f.attention {
		if r.awaits == endOfPause {
			if now.Before(r.pause.until) {
				until = earlier(until, r.pause.until)
				continue
			}
			r.awaits, r.news = nothingElse, true
		}
		if r.awaits != nothingElse {
			continue
		}
		if opens := gate.opens(r); !opens.IsZero() {
			f.holdBack(r)
			until = earlier(until, opens)
			continue
		}
		f.letThrough(r)
		ready = append(ready, r)
	}
	return ready, until
}

// earlier is the earlier of two times, of which a may be none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// positions finds out what is to be said of those of which there is news, and leaves out
// those that do not follow any more. durable is false if any has to wait for a group
// commit.
//
// That all wait for one is no loss: they are in one directory, and its commit serves all.
// To leave one out would be wrong: the session would go on fetching what was fetched.
func (f *Fetcher) positions(ready []*followed) (still []*followed, durable bool) {
	durable = true
	all := f.session.renew
	for _, r := range ready {
		if !all && !r.news {
			still = append(still, r)
			continue
		}
		at, err := r.p.FollowerPosition(r.epoch)
		if err != nil {
			f.giveUp(r) // metadata is ahead of this fetcher, or the replica has failed
			continue
		}
		durable = durable && at.Durable
		r.next = told{epoch: r.epoch, at: at, highWatermark: int64(r.p.HighWatermark())}
		still = append(still, r)
	}
	return still, durable
}

// failed pauses a replica.
func (f *Fetcher) failed(now time.Time, r *followed) {
	r.awaits = endOfPause
	r.pause.failed(now, f.o.Backoff)
	f.dropFromSession(r)
}

// giveUp leaves a replica alone until metadata brings a new epoch.
func (f *Fetcher) giveUp(r *followed) {
	r.awaits = newMetadata
	r.p.fetchFailed.Store(true)
	f.dropFromSession(r)
}

// dropFromSession: a session that has a replica which is not to be fetched begins anew. It
// could be told to forget it, but not to forget and take it in again with one request; and
// replicas pause seldom.
func (f *Fetcher) dropFromSession(r *followed) {
	f.session.renew = f.session.renew || r.inSession || r.toForget
	r.inSession, r.toForget = false, false
}
