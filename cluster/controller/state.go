package controller

import (
	"iter"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/internal/invariant"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// maxRecordsPerRequest bounds what a client's request may decide (Kafka's
// QuorumController.MAX_RECORDS_PER_USER_OP). What brokers cause, such as fencing one that
// leads a hundred thousand partitions, has no such bound and is split into entries.
const maxRecordsPerRequest = 10_000

// state is what decisions see: the working image, and what brokers told this controller
// since it was elected. Its methods that end in a decision are pure but for sessions:
// they do not change the image. Not safe for concurrent use.
type state struct {
	opts      *Options
	image     *metadata.Image // committed records, and those of pending decisions on top
	committed metadata.Position
	names     collisions   // of the topics in image
	topics    TopicConfigs // with what image sets on brokers
	sessions  map[int32]*session
	lastEpoch int64 // highest broker epoch given by this leadership

	resigned                 time.Time // when this process last ceased to be active
	nextBalance, nextUnclean time.Time // periodic elections
	suspectAt                time.Time // see suspects; zero when that is over

	complaints complaints // of registrations that were refused
}

// session is what this controller heard from a registered broker.
type session struct {
	epoch   int64
	contact time.Time // last heartbeat or registration; zero: the session has ended
	heard   bool      // a request came from it since this controller was elected
	// position is the metadata position of its last heartbeat, -1 before the first.
	position int64
	// caughtUpAt is the position that the broker must have reached to be unfenced: that of
	// its registration.
	caughtUpAt int64
	// shutdownAt is the position that every broker in service must have reached before
	// this one may stop; -1 if it is not shutting down.
	shutdownAt int64
	// replaced is the incarnation in whose place this one came because of its address alone;
	// contested tells that such a one has turned out to be alive.
	replaced  uuid.UUID
	contested bool
	full      []uuid.UUID // log directories without room, as its last heartbeat says
	// failed are the replicas that it reported with its last heartbeat, each with the leader
	// epoch that began because of that. A record that is lost later leaves metadata below it.
	// None of them may lead.
	failed map[partitionID]int32
	// ends are the logs of partitions that are Undecided, as far as the broker has told.
	ends map[partitionID]LogEnd
}

// notCommitted is the position of a record that is still on its way.
const notCommitted = math.MaxInt64

// decision is what a request, or the passing of time, comes to.
type decision struct {
	records []metadata.Record
	// atomic records take effect together. Others may be split anywhere: each is valid
	// after those before it.
	atomic   bool
	response kmsg.Response // nil if nobody asked
	// fencing tells that a broker is fenced because it seems dead; for the metric.
	fencing bool
	// committed, if not nil, updates sessions when all records are committed.
	committed func(metadata.Position)
}

// activate makes the state that of a new leadership. image holds all that is committed.
// Every unfenced broker gets a session to be heard in.
func (s *state) activate(now time.Time, image *metadata.Image) {
	before := s.sessions
	s.sessions = map[int32]*session{}
	s.nextBalance = now.Add(s.opts.LeaderBalanceInterval)
	s.nextUnclean = now.Add(s.opts.UncleanElectionPeriod)
	s.suspectAt = now.Add(suspectAfter)
	s.rebuild(now, image)
	s.resume(now, before)
}

// leastSession is what a new leadership grants everybody, whatever was known before. A broker
// that lives sends a heartbeat to a new controller at once.
const leastSession = time.Second

// resume goes on with the sessions of this process's leadership before, where its brokers are
// the same. While it did not lead, nobody could be heard: that time counts for none. Without
// this a dead broker would get a full session each time that a controller on a busy machine
// loses its followers for a moment and wins them back. After longer than that another one may
// have led: it was to that one that brokers have spoken meanwhile, and what this one knows of
// them is from when it was cut off itself.
func (s *state) resume(now time.Time, before map[int32]*session) {
	if now.Sub(s.resigned) > s.opts.SessionTimeout {
		return
	}
	least := now.Add(min(leastSession, s.opts.SessionTimeout) - s.opts.SessionTimeout)
	for id, n := range s.sessions {
		o := before[id]
		if o == nil || o.epoch != n.epoch || o.contact.IsZero() || n.contact.IsZero() {
			continue
		}
		contact := o.contact.Add(now.Sub(s.resigned))
		if contact.Before(least) {
			contact = least
		}
		if contact.Before(n.contact) {
			n.contact = contact
		}
	}
}

// rebuild drops everything pending and goes on from image. Sessions whose registration
// is in image stay.
func (s *state) rebuild(now time.Time, image *metadata.Image) {
	s.image, s.committed = image, image.Position()
	s.lastEpoch = 0 // what was given since and is not in image was given to nobody
	for b := range image.Brokers() {
		s.lastEpoch = max(s.lastEpoch, b.Epoch)
	}
	s.names = collisions{}
	for t := range image.Topics() {
		s.names.add(t.Name)
	}
	s.configureTopics()
	old, awaited := s.sessions, s.awaited()
	s.sessions = make(map[int32]*session, image.NumBrokers())
	for b := range image.Brokers() {
		n := &session{epoch: b.Epoch, position: -1}
		if o := old[b.ID]; o != nil && o.epoch == b.Epoch {
			n.contact, n.heard, n.position, n.full, n.failed = o.contact, o.heard, o.position, o.full, o.failed
			n.ends = o.ends
			n.replaced, n.contested = o.replaced, o.contested
		} else if !b.Fenced {
			n.contact = now
		}
		if n.contact.IsZero() && b.Fenced && awaited[b.ID] {
			n.contact = now
		}
		// The exact position of an earlier leader's registration is not known here, this
		// one is not before it.
		n.caughtUpAt, n.shutdownAt = int64(s.committed.Index), -1
		if b.InControlledShutdown {
			n.shutdownAt = int64(s.committed.Index)
		}
		s.sessions[b.ID] = n
	}
}

// awaited are the fenced brokers that partitions wait for: see sessionEnded.
func (s *state) awaited() map[int32]bool {
	fenced := map[int32]bool{}
	for b := range s.image.Brokers() {
		if b.Fenced {
			fenced[b.ID] = true
		}
	}
	awaited := map[int32]bool{}
	if len(fenced) == 0 {
		return awaited
	}
	for tp := range s.partitions(func(*metadata.Partition) bool { return true }) {
		for _, id := range tp.partition.ISR { // the leader is among them
			awaited[id] = awaited[id] || fenced[id]
		}
	}
	return awaited
}

// take applies a decision, and says which of its elections are unclean. That of the only replica
// is none that anybody could have done without: nobody else has more.
func (s *state) take(records []metadata.Record) {
	before := s.image
	s.apply(records)
	for _, r := range records {
		c, ok := r.(metadata.PartitionChangeRecord)
		if !ok || c.Leader == nil || *c.Leader == metadata.NoLeader {
			continue
		}
		old, next := before.Partition(c.TopicID, c.Index), s.image.Partition(c.TopicID, c.Index)
		if old == nil || next == nil || next.RecoveryState != metadata.Recovering || len(next.Replicas) == 1 ||
			slices.Contains(slices.Concat(old.ISR, old.ELR), *c.Leader) {
			continue
		}
		s.opts.Logger.Warn("unclean election: records may be lost", "topic", s.image.TopicByID(c.TopicID).Name, "partition", c.Index,
			"leader", *c.Leader, "isr", old.ISR, "elr", old.ELR)
	}
}

// apply puts the records of a decision on top of the working image.
func (s *state) apply(records []metadata.Record) {
	if len(records) == 0 {
		return
	}
	delta := metadata.NewDelta(s.image)
	brokersConfigured := false
	for _, r := range records {
		err := delta.Replay(r)
		invariant.Check(err == nil, "controller decided a record that does not fit: %v", err)
		switch r := r.(type) {
		case metadata.TopicRecord:
			s.names.add(r.Name)
		case metadata.RemoveTopicRecord:
			s.names.remove(s.image.TopicByID(r.ID).Name)
		case metadata.ConfigRecord:
			brokersConfigured = brokersConfigured || r.Type == metadata.BrokerResource
		}
	}
	s.image = delta.Image(s.image.Position())
	if brokersConfigured {
		s.configureTopics()
	}
}

// configureTopics takes what the working image sets on brokers as the defaults of topics.
func (s *state) configureTopics() {
	own := strconv.Itoa(int(s.opts.NodeID))
	s.topics = s.opts.Topics.With(
		s.image.Config(metadata.Resource{Type: metadata.BrokerResource}),
		s.image.Config(metadata.Resource{Type: metadata.BrokerResource, Name: own}))
}

// newBrokerEpoch gives an epoch higher than every earlier one of any broker that is
// registered. Several registrations may share one entry of the log, so an epoch may be
// larger than its entry's index: the next leader looks at those in its image.
func (s *state) newBrokerEpoch() int64 {
	s.lastEpoch = max(s.lastEpoch, int64(s.committed.Index)) + 1
	return s.lastEpoch
}

// isActive reports whether a broker may be in an ISR and lead.
func (s *state) isActive(id int32) bool {
	b := s.image.Broker(id)
	return b != nil && !b.Fenced && !b.InControlledShutdown
}

// mayLead reports whether a replica's broker is active, has the replica's directory, and does not
// say that the replica has failed.
func (s *state) mayLead(tp topicPartition, replica int32) bool {
	return s.isActive(replica) && s.image.Broker(replica).HasOnlineDir(directoryOf(tp.partition, replica)) && !s.hasFailed(tp, replica)
}

// hasFailed reports whether a broker says that its replica is damaged, or has no room.
func (s *state) hasFailed(tp topicPartition, broker int32) bool {
	n := s.sessions[broker]
	if n == nil {
		return false
	}
	_, failed := n.failed[partitionID{tp.topic.ID, tp.partition.Index}]
	return failed
}

// isHeard reports whether a broker has spoken to this controller and its session goes on.
func (s *state) isHeard(now time.Time, id int32) bool {
	n := s.sessions[id]
	return n != nil && n.heard && s.sessionValid(now, n)
}

func (s *state) sessionValid(now time.Time, n *session) bool {
	return !n.contact.IsZero() && !now.After(n.contact.Add(s.opts.SessionTimeout))
}

// topicPartition is a partition with the topic it belongs to.
type topicPartition struct {
	topic     *metadata.Topic
	partition *metadata.Partition
}

// partitions yields the partitions of the working image that match, by topic name.
// It walks all of them: fencing and unfencing are rare, and a scan of 100,000 partitions
// costs a few milliseconds, less than to keep an index by broker with each change.
func (s *state) partitions(match func(*metadata.Partition) bool) iter.Seq[topicPartition] {
	return func(yield func(topicPartition) bool) {
		for t := range s.image.Topics() {
			for _, p := range t.Partitions {
				if match(p) && !yield(topicPartition{t, p}) {
					return
				}
			}
		}
	}
}

func (s *state) leadsAny(broker int32) bool {
	for range s.partitions(func(p *metadata.Partition) bool { return p.Leader == broker }) {
		return true
	}
	return false
}

func (s *state) elections(topic string) ElectionConfig {
	return s.topics.Elections(s.image.Config(topicResource(topic)))
}

func topicResource(name string) metadata.Resource {
	return metadata.Resource{Type: metadata.TopicResource, Name: name}
}

// change prepares the change of a partition with the election that its topic allows.
func (s *state) change(tp topicPartition, acceptable func(int32) bool) *partitionChange {
	cfg := s.elections(tp.topic.Name)
	c := newPartitionChange(tp.partition, cfg.MinISR, acceptable)
	if cfg.UncleanElection && !tp.partition.Undecided() { // else electByLogs, or uncleanElections
		c.election = electUnclean
	}
	return c
}

// changeRecord gives the record that leads from old to next, false if it is no change.
func changeRecord(topic uuid.UUID, old, next *metadata.Partition) (metadata.PartitionChangeRecord, bool) {
	r := metadata.PartitionChangeRecord{TopicID: topic, Index: next.Index}
	if next.PartitionEpoch == old.PartitionEpoch {
		return r, false
	}
	r.Replicas = changedList(old.Replicas, next.Replicas)
	r.Directories = changedList(old.Directories, next.Directories)
	r.AddingReplicas = changedList(old.AddingReplicas, next.AddingReplicas)
	r.RemovingReplicas = changedList(old.RemovingReplicas, next.RemovingReplicas)
	r.ISR = changedList(old.ISR, next.ISR)
	r.ELR = changedList(old.ELR, next.ELR)
	r.LastKnownELR = changedList(old.LastKnownELR, next.LastKnownELR)
	if next.LeaderEpoch != old.LeaderEpoch {
		r.Leader = metadata.Ptr(next.Leader)
	}
	if next.RecoveryState != old.RecoveryState {
		r.RecoveryState = metadata.Ptr(next.RecoveryState)
	}
	return r, true
}

// changedList gives next if it differs from old, never nil, else nil.
func changedList[T comparable](old, next []T) []T {
	if slices.Equal(old, next) {
		return nil
	}
	return append([]T{}, next...)
}

// directoryOf gives the directory of a replica, DirLost if the broker has no replica.
func directoryOf(p *metadata.Partition, broker int32) uuid.UUID {
	i := slices.Index(p.Replicas, broker)
	if i < 0 || i >= len(p.Directories) {
		return uuid.DirLost
	}
	return p.Directories[i]
}

// directories assigns new replicas to log directories. Kafka leaves that to the broker and
// learns it later; here it is known from the start, so that a lost directory never leaves
// in doubt which replicas it held (D19).
type directories struct {
	state *state
	used  map[uuid.UUID]int // replicas by directory; counted when first needed
}

// choose gives the broker's directory with the fewest replicas. A broker that has none
// online chooses itself when it has.
func (d *directories) choose(b *metadata.Broker) uuid.UUID {
	switch {
	case b == nil || len(b.LogDirs) == 0:
		return uuid.DirUnassigned
	case len(b.LogDirs) == 1:
		return b.LogDirs[0]
	case d.used == nil:
		d.used = map[uuid.UUID]int{}
		for tp := range d.state.partitions(func(*metadata.Partition) bool { return true }) {
			for _, dir := range tp.partition.Directories {
				d.used[dir]++
			}
		}
	}
	least := b.LogDirs[0]
	for _, dir := range b.LogDirs[1:] {
		if d.used[dir] < d.used[least] {
			least = dir
		}
	}
	d.used[least]++
	return least
}

// lowestActivePosition is the metadata position that every broker in service has reached.
func (s *state) lowestActivePosition() int64 {
	lowest := int64(math.MaxInt64)
	for b := range s.image.Brokers() {
		if n := s.sessions[b.ID]; n != nil && !b.Fenced && !b.InControlledShutdown {
			lowest = min(lowest, n.position)
		}
	}
	return lowest
}
