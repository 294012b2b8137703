package replica

import (
	"time"
)

// Watch is a partition in the fetch session of a follower, *fetchsession.Watch. A follower that
// has all of a partition, and knows all that there is to tell of it, is not looked after at each
// of its fetches: the partition rests, and a fetch costs what has news. Three things make that
// safe:
//
//	signal   whatever a follower might want to know of wakes the partition in its session:
//	         an append, a new high watermark or log start, another role, epoch, ISR
//	freeze   a fetch that leaves a partition out says of it what the last one that had it
//	         said. While nothing is appended the follower was caught up at each of them;
//	         the last of them before an append is noted with it
//	walk     the session has all its partitions looked at now and then, and whenever there is
//	         more to a fetch than usual: a signal that is forgotten costs time, no more
//
// A follower that rests can have acknowledged nothing new: its end is the log end. So no high
// watermark waits for, and no acknowledgement rests on, a fetch that was not looked at.
//
// Methods are called under Partition.mu.
type Watch interface {
	// Rest says that the follower knows all that there is to know.
	Rest()
	// Signal says that there may be news.
	Signal()
	// LastFetch is the follower's last fetch of this partition, resting or not.
	LastFetch() time.Time
}

// watched begins to watch for a session, or for none, in the place of another one. Caller holds
// mu, as for all here.
func (f *follower) watched(by Watch) {
	f.freeze()
	if f.watch != nil && f.watch != by {
		f.watch.Signal() // a session that is used no more, or is used by mistake
	}
	f.watch = by
}

// freeze ends the rest of a follower.
func (f *follower) freeze() {
	if f.rests {
		f.rests = false
		f.lastFetchAt = latest(f.lastFetchAt, f.watch.LastFetch())
		f.caughtUpAt = latest(f.caughtUpAt, f.lastFetchAt)
		f.mark = logEndAt{f.end, f.lastFetchAt}
	}
}

// everythingAt is the last time at which the follower had everything, as far as is known.
func (f *follower) everythingAt() time.Time {
	if f.rests {
		return latest(f.caughtUpAt, f.watch.LastFetch())
	}
	return f.caughtUpAt
}

// signal tells the sessions of all followers of news. Caller holds mu, for reading at least.
func (p *Partition) signal() {
	for i := range p.followers {
		if w := p.followers[i].watch; w != nil {
			w.Signal()
		}
	}
}

// signalAppended is signal after an append.
func (p *Partition) signalAppended() {
	for i := range p.followers {
		p.followers[i].freeze()
	}
	p.signal()
}

// letRest has a follower rest that has just fetched, if it may: it has everything and is in
// sync, and neither side has anything to tell the other.
func (p *Partition) letRest(f *follower, r *FollowerFetch) {
	hw := p.hw.Load()
	f.rests = f.watch != nil && !f.noRoom && f.end == int64(p.log().LogEnd()) && p.isr.has(f.id) &&
		r.KnownHighWatermark == hw && r.HighWatermark >= hw && r.KnownLogStart == int64(p.log().LogStart())
	if f.rests {
		f.watch.Rest()
	}
}

// LogStartMoved is called when the log start has moved by itself.
func (p *Partition) LogStartMoved() {
	p.mu.RLock()
	defer p.mu.RUnlock()
	p.signal()
}
