package fetchsession

import (
	"time"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// Epochs with a meaning of their own, and the id of no session (FetchMetadata).
const (
	initialEpoch int32 = 0  // a full request that wants a session
	finalEpoch   int32 = -1 // a full request that wants none, or ends the one it names
	noSession    int32 = 0
)

// firstVersionWithIDs is the Fetch version from which topics go by id.
const firstVersionWithIDs = 13

// Request is the part of a Fetch request that concerns sessions.
type Request struct {
	Version          int16
	SessionID, Epoch int32 // 0 and -1 before version 7
	Follower         bool
	ReplicaID        int32       // of a follower
	ReplicaEpoch     int64       // of its broker, -1 if the request has none
	Partitions       []Partition // kept by the Context until the answer
	Forgotten        []Key
	// WalkAll has a follower's session walked in full.
	WalkAll bool
}

// Answer is what the handler is about to answer about one partition.
type Answer struct {
	Key
	RecordsBytes   int
	HighWatermark  int64 // -1 with an error
	LogStartOffset int64 // -1 with an error
	Failed         bool  // has an error code
	Redirected     bool  // has a preferred read replica
	Diverging      bool  // has a diverging epoch

	Include bool // set by UpdateAndFilter and Filter: the partition belongs into the answer
}

// kind of a request, as in the table of the package comment.
type kind int8

const (
	sessionError kind = iota
	sessionless
	full
	incremental
)

// Context accompanies one Fetch request from the state of its session before it to that after.
// It is used by one goroutine.
type Context struct {
	cache   *Cache
	kind    kind
	err     error // of a sessionError
	request Request
	session *session // of an incremental request
}

// NewContext decides what kind of request r is and applies to its session what it adds
// and forgets (FetchManager.newContext).
func (c *Cache) NewContext(now time.Time, r Request) *Context {
	if r.Epoch != initialEpoch && r.Epoch != finalEpoch {
		return c.incremental(now, r)
	}
	if r.SessionID != noSession {
		c.close(r.SessionID)
	}
	r.Partitions = withoutDuplicates(r.Partitions)
	if r.Epoch == finalEpoch {
		return &Context{cache: c, kind: sessionless, request: r}
	}
	return &Context{cache: c, kind: full, request: r}
}

func (c *Cache) close(id int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.sessions[id]; s != nil {
		c.remove(s)
	}
}

func (c *Cache) incremental(now time.Time, r Request) *Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sessions[r.SessionID]
	if s == nil {
		return &Context{kind: sessionError, err: kafkaerr.FetchSessionIDNotFound}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.epoch != r.Epoch:
		return &Context{kind: sessionError, err: kafkaerr.InvalidFetchSessionEpoch}
	case s.usesTopicIDs != (r.Version >= firstVersionWithIDs):
		return &Context{kind: sessionError, err: kafkaerr.FetchSessionTopicIDError}
	case c.partitions+s.parts.missing(r.Partitions) > c.maxPartitions:
		// The session outgrew the cache. To its owner this is an eviction: it asks for
		// everything again, and gets it without a session.
		c.evict(s)
		return &Context{kind: sessionError, err: kafkaerr.FetchSessionIDNotFound}
	}
	for _, p := range r.Partitions {
		if cached := s.parts.put(p); s.watches != nil {
			s.wake(cached)
		}
	}
	for _, k := range r.Forgotten {
		s.parts.remove(k)
	}
	if s.parts.len() == 0 {
		// Nothing left: the session ends. As in Kafka the request's own partitions, all
		// forgotten in the same breath, are answered nevertheless.
		c.remove(s)
		r.Partitions = withoutDuplicates(r.Partitions)
		return &Context{cache: c, kind: sessionless, request: r}
	}
	c.touch(now, s)
	s.epoch = nextEpoch(s.epoch)
	if s.watches != nil && r.Follower {
		s.fetched(now, &r, c.walkEvery)
	}
	return &Context{cache: c, kind: incremental, request: r, session: s}
}

// Err is the error of a request whose session is not what it believes. It is answered at
// the top level with session id 0 and no partitions.
func (x *Context) Err() error { return x.err }

// Partitions appends what is to be fetched, in that order, each partition once. Where
// topics go by id, names finds the name of one, "" for an id that nobody has. Of a follower's
// session it is what does not rest; to ask again shows which have been woken, or put to rest.
func (x *Context) Partitions(dst []Partition, names func(uuid.UUID) string) []Partition {
	if x.request.Version < firstVersionWithIDs {
		names = nil
	}
	if x.kind != incremental {
		for i := range x.request.Partitions {
			x.request.Partitions[i].resolve(names)
		}
		return append(dst, x.request.Partitions...)
	}
	x.session.mu.Lock()
	defer x.session.mu.Unlock()
	if !x.watches() {
		return x.session.parts.appendTo(dst, names)
	}
	for _, cached := range x.session.gather() {
		dst = append(dst, cached.wanted(names))
	}
	return dst
}

// watches tells whether partitions may rest: in a follower's session, for a follower.
func (x *Context) watches() bool {
	return x.kind == incremental && x.session.watches != nil && x.request.Follower
}

// News receives when there may be news of partitions that Partitions would show, in a session
// where they rest; it is nil for all others.
func (x *Context) News() <-chan struct{} {
	if !x.watches() {
		return nil
	}
	return x.session.watches.news
}

// UpdateAndFilter takes the answers about all partitions that were fetched, in the
// order in which they will be sent, marks those to Include, and returns the session id
// and error of the answer. With an error none is to be included.
func (x *Context) UpdateAndFilter(now time.Time, answers []Answer) (sessionID int32, err error) {
	switch x.kind {
	case sessionError:
		return noSession, x.err
	case incremental:
		return x.session.id, x.updateSession(answers)
	case sessionless, full:
	}
	for i := range answers {
		answers[i].Include = true
	}
	if x.kind == sessionless {
		return noSession, nil
	}
	usesIDs := x.request.Version >= firstVersionWithIDs
	return x.cache.open(now, &x.request, usesIDs, len(answers), func() *partitions { return x.newSession(answers) }), nil
}

// Filter marks what UpdateAndFilter would include, and changes nothing: the answer may yet
// be withheld.
func (x *Context) Filter(answers []Answer) {
	if x.kind != incremental {
		for i := range answers {
			answers[i].Include = x.kind != sessionError
		}
		return
	}
	x.session.mu.Lock()
	defer x.session.mu.Unlock()
	known := x.checkEpoch() == nil
	for i := range answers {
		cached := x.session.parts.byKey[answers[i].Key]
		answers[i].Include = known && cached != nil && cached.concerns(&answers[i])
	}
}

// Throttled is the session id and error of an answer that is empty because of a quota:
// the session must not learn that its fetcher was told anything. As in Kafka the fetcher is
// not told of an error in its session either.
func (x *Context) Throttled() (sessionID int32, err error) {
	if x.kind != incremental {
		return noSession, nil
	}
	x.session.mu.Lock()
	defer x.session.mu.Unlock()
	return x.session.id, x.checkEpoch()
}

func (x *Context) updateSession(answers []Answer) error {
	s := x.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := x.checkEpoch(); err != nil {
		return err
	}
	for i := range answers {
		a := &answers[i]
		cached := s.parts.byKey[a.Key]
		if a.Include = cached != nil && cached.update(a); a.Include && a.RecordsBytes > 0 {
			s.parts.moveToEnd(cached)
		}
	}
	return nil
}

// checkEpoch finds out whether another request of the session has overtaken this one: a
// client that timed out sends the same epoch again on a new connection, and only one of
// the two may be told what is then taken as known.
func (x *Context) checkEpoch() error {
	if x.session.epoch != nextEpoch(x.request.Epoch) {
		return kafkaerr.InvalidFetchSessionEpoch
	}
	return nil
}

// newSession is the content of the session that a full request opens, in the order of
// its answer.
func (x *Context) newSession(answers []Answer) *partitions {
	wanted := make(map[Key]*Partition, len(x.request.Partitions))
	for i := range x.request.Partitions {
		wanted[x.request.Partitions[i].Key] = &x.request.Partitions[i]
	}
	parts := newPartitions(len(answers))
	for i := range answers {
		if want := wanted[answers[i].Key]; want != nil {
			parts.put(*want).update(&answers[i])
		}
	}
	return parts
}

// withoutDuplicates keeps each partition once: at the place where it is named first, as
// it is named last, which is what a Java LinkedHashMap makes of it.
func withoutDuplicates(ps []Partition) []Partition {
	if !hasDuplicates(ps) {
		return ps
	}
	at := make(map[Key]int, len(ps))
	var kept []Partition
	for _, p := range ps {
		if i, ok := at[p.Key]; ok {
			kept[i] = p
			continue
		}
		at[p.Key] = len(kept)
		kept = append(kept, p)
	}
	return kept
}

// fewPartitions is up to where comparing each with each is cheaper than a map.
const fewPartitions = 16

func hasDuplicates(ps []Partition) bool {
	if len(ps) > fewPartitions {
		seen := make(map[Key]struct{}, len(ps))
		for i := range ps {
			seen[ps[i].Key] = struct{}{}
		}
		return len(seen) != len(ps)
	}
	for i := range ps {
		for j := range i {
			if ps[i].Key == ps[j].Key {
				return true
			}
		}
	}
	return false
}
