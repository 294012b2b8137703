package group

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/klamm-mq/klamm/cluster/coordinator"
	"github.com/klamm-mq/klamm/cluster/coordinator/overlay"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/internal/invariant"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// Config is the part of the broker's configuration that the rules read. It is the same
// for all shards.
type Config struct {
	MinSessionTimeout     time.Duration // group.min.session.timeout.ms
	MaxSessionTimeout     time.Duration // group.max.session.timeout.ms
	MaxSize               int           // group.max.size
	InitialRebalanceDelay time.Duration // group.initial.rebalance.delay.ms

	OffsetMetadataMaxBytes int           // offset.metadata.max.bytes
	OffsetsRetention       time.Duration // offsets.retention.minutes
	// OffsetsRetentionCheckInterval is offsets.retention.check.interval.ms.
	OffsetsRetentionCheckInterval time.Duration
}

// DefaultConfig is Kafka's.
func DefaultConfig() Config {
	return Config{
		MinSessionTimeout:             6 * time.Second,
		MaxSessionTimeout:             30 * time.Minute,
		MaxSize:                       1<<31 - 1,
		InitialRebalanceDelay:         3 * time.Second,
		OffsetMetadataMaxBytes:        4096,
		OffsetsRetention:              7 * 24 * time.Hour,
		OffsetsRetentionCheckInterval: 10 * time.Minute,
	}
}

// ShardOptions are what a shard is made of.
type ShardOptions struct {
	Config  Config
	Rand    io.Reader // for the ids of members
	Logger  *slog.Logger
	Metrics *Metrics // nil: none
}

// Context is who sent a request, and in which version.
type Context struct {
	Version    int16
	ClientID   string
	ClientHost string // as Kafka keeps it: a slash and the address, "/127.0.0.1"
	Principal  string
}

// Shard is the groups of one partition of __consumer_offsets. It implements
// coordinator.Shard and is the runtime's to call: one method at a time. The methods named
// after requests take one that passed the checks of Service, keep the bytes in it, and
// call answer once.
type Shard struct {
	config  Config
	rand    io.Reader
	logger  *slog.Logger
	metrics *Metrics

	journal overlay.Journal
	groups  *overlay.Map[string, *group]
	offsets map[string]*overlay.Map[topicPartition, committedOffset] // by group
	// created lists the groups whose first record is not committed.
	created []createdGroup
	// creating is the group whose first record the running operation returns. Replay
	// takes it from here.
	creating *group

	timers timers
	loaded bool
	nowMs  int64 // of the running operation

	expiry  expiry
	sweep   sweep
	census  census
	skipped map[int16]bool // types of records that a warning was logged for
}

type createdGroup struct {
	offset int64
	group  *group
}

var _ coordinator.Shard = (*Shard)(nil)

// NewShard makes an empty shard.
func NewShard(o ShardOptions) *Shard {
	s := &Shard{
		config: o.Config, rand: o.Rand, logger: o.Logger, metrics: o.Metrics,
		offsets: make(map[string]*overlay.Map[topicPartition, committedOffset]),
		skipped: make(map[int16]bool),
	}
	s.groups = overlay.NewMapIn[string, *group](&s.journal)
	s.expiry.timer = newTimer(s.expire)
	s.sweep.timer = newTimer(s.sweepOn)
	s.census.timer = newTimer(func(*op) { s.count() })
	return s
}

// op is one operation on the shard: what it found and what it wants.
type op struct {
	now     time.Time
	effects coordinator.Effects
}

func (o *op) nowMs() int64 { return o.now.UnixMilli() }

func (o *op) record(r coordinator.Record) { o.effects.Records = append(o.effects.Records, r) }

// reply gives an answer when all that is written is committed.
func (o *op) reply(answer func(err error)) { o.effects.Answers = append(o.effects.Answers, answer) }

// run performs an operation that may change groups.
func (s *Shard) run(now time.Time, do func(o *op)) coordinator.Effects {
	return s.look(now, func(o *op) {
		do(o)
		s.expectCensus(o)
	})
}

// look performs an operation that changes no group.
func (s *Shard) look(now time.Time, do func(o *op)) coordinator.Effects {
	o := &op{now: now}
	s.nowMs = o.nowMs()
	do(o)
	return o.effects
}

// Loaded implements coordinator.Shard: sessions begin, as long as each member asked for.
func (s *Shard) Loaded(now time.Time) coordinator.Effects {
	return s.run(now, func(o *op) {
		s.loaded = true
		for _, g := range s.newestGroups() {
			for _, m := range g.members {
				s.resetSession(o, m)
			}
			if len(g.members) > s.config.MaxSize {
				s.prepareRebalance(o, g, "the loaded group is larger than group.max.size")
			}
		}
		s.timers.set(s.expiry.timer, now.Add(s.config.OffsetsRetentionCheckInterval))
		s.count()
	})
}

// newestGroups lists the groups by id.
func (s *Shard) newestGroups() []*group {
	all := make([]*group, 0, s.groups.Len())
	for _, g := range s.groups.All() {
		all = append(all, g)
	}
	slices.SortFunc(all, byID)
	return all
}

// lookup finds a group as it was written last; nil if there is none.
func (s *Shard) lookup(id string) *group {
	g, _ := s.groups.Get(id)
	return g
}

// isCurrent tells that g was neither deleted nor replaced since.
func (s *Shard) isCurrent(g *group) bool { return s.lookup(g.id) == g }

// NextDeadline implements coordinator.Shard.
func (s *Shard) NextDeadline() (time.Time, bool) { return s.timers.next() }

// Tick implements coordinator.Shard.
func (s *Shard) Tick(now time.Time) coordinator.Effects {
	return s.look(now, func(o *op) {
		for limit := s.timers.seq; len(o.effects.Records) < sweepRecords; {
			t := s.timers.due(now, limit)
			if t == nil {
				return
			}
			t.run(o)
			if t != s.census.timer {
				s.expectCensus(o)
			}
		}
	})
}

// Committed implements coordinator.Shard.
func (s *Shard) Committed(end int64) {
	s.journal.Advance(end)
	n := 0
	for n < len(s.created) && s.created[n].offset < end {
		n++
	}
	s.created = slices.Delete(s.created, 0, n)
}

// Rollback implements coordinator.Shard. A group that ceases to exist by it takes what is
// parked in it along: later operations of the same batch may have joined it.
func (s *Shard) Rollback(from int64) {
	s.journal.Rollback(from)
	if s.creating != nil { // its record was not even replayed
		s.abandon(s.creating, noMemberID, kafkaerr.CoordinatorNotAvailable)
		s.creating = nil
	}
	for len(s.created) > 0 && s.created[len(s.created)-1].offset >= from {
		g := s.created[len(s.created)-1].group
		s.created = s.created[:len(s.created)-1]
		if !s.isCurrent(g) {
			s.abandon(g, noMemberID, kafkaerr.CoordinatorNotAvailable)
		}
	}
}

// Unload implements coordinator.Shard.
func (s *Shard) Unload(err error) {
	for _, g := range s.newestGroups() {
		s.abandon(g, ownMemberID, err)
	}
	s.tell(census{})
}

// What a JoinGroup that failed says of the member's id: a group that is given up may know
// its members elsewhere, one that was never written does not.
func ownMemberID(m *member) string { return m.id }
func noMemberID(*member) string    { return "" }

// abandon answers all that is parked in a group with err and stops its deadlines.
func (s *Shard) abandon(g *group, memberID func(*member) string, err error) {
	for _, m := range g.members {
		s.finishJoin(g, m, joinError(memberID(m), err))
		s.finishSync(m, syncError(err))
		s.timers.stop(m.session)
	}
	for _, t := range g.pending.byID {
		s.timers.stop(t)
	}
	s.timers.stop(g.join)
	s.timers.stop(g.sync)
}

// Replay implements coordinator.Shard.
func (s *Shard) Replay(offset int64, r coordinator.Record) error {
	kind, err := recordType(r.Key)
	if err != nil {
		return err
	}
	switch {
	case kind == offsetCommitKeyV0 || kind == offsetCommitKey:
		return s.replayOffset(offset, r)
	case kind == groupMetadataKey:
		return s.replayGroup(offset, r)
	case kind > groupMetadataKey && kind <= lastKnownKey:
		s.skip(kind, offset)
		return nil
	}
	return fmt.Errorf("%w: type %d of key", errMalformedRecord, kind)
}

// skip passes over a record of a protocol that this broker does not serve.
func (s *Shard) skip(kind int16, offset int64) {
	if s.skipped[kind] {
		return
	}
	s.skipped[kind] = true
	s.logger.Warn("skipping records of groups that use a newer protocol; their committed offsets are kept",
		"record type", kind, "first offset", offset)
}

func (s *Shard) replayOffset(offset int64, r coordinator.Record) error {
	id, at, o, ok, err := decodeOffsetCommit(r)
	if err != nil {
		return err
	}
	if !ok {
		if offsets := s.offsets[id]; offsets != nil {
			offsets.Delete(offset, at)
		}
		return nil
	}
	if s.lookup(id) == nil {
		// Whoever commits without a group gets a simple one, which has no record.
		s.setGroup(offset, s.makeGroup(id, s.nowMs))
	}
	offsets := s.offsets[id]
	if offsets == nil {
		offsets = overlay.NewMapIn[topicPartition, committedOffset](&s.journal)
		s.offsets[id] = offsets
	}
	offsets.Set(offset, at, o)
	return nil
}

// replayGroup files a record of a group. While the shard is loaded it makes the group;
// afterwards the operation that wrote the record has done to the group what it says.
func (s *Shard) replayGroup(offset int64, r coordinator.Record) error {
	id, v, err := decodeGroup(r)
	if err != nil {
		return err
	}
	g := s.lookup(id)
	switch {
	case v == nil && g != nil:
		s.groups.Delete(offset, id)
	case v == nil:
	case !s.loaded:
		if g, err = s.groupFromRecord(id, v); err != nil {
			return err
		}
		s.setGroup(offset, g)
	case s.creating != nil && s.creating.id == id:
		s.setGroup(offset, s.creating)
		s.creating = nil
	default:
		invariant.Check(g != nil, "record of group %q, which does not exist", id)
		s.groups.Set(offset, id, g)
	}
	return nil
}

func (s *Shard) setGroup(offset int64, g *group) {
	s.groups.Set(offset, g.id, g)
	if offset >= s.journal.Committed() {
		s.created = append(s.created, createdGroup{offset, g})
	}
}

// OnImage implements coordinator.Shard: the offsets of deleted topics are deleted.
func (s *Shard) OnImage(now time.Time, delta *metadata.Delta, _ *metadata.Image) coordinator.Effects {
	if delta == nil {
		return coordinator.Effects{}
	}
	return s.run(now, func(o *op) { s.onTopics(o, delta) })
}

// answerCode is the error code for what ended a wait for the log.
func answerCode(err error) int16 { return kafkaerr.Code(coordinator.Answerable(err)) }

// errIllegalState is what Kafka's code takes for impossible and clients can bring about.
var errIllegalState = errors.New("the request does not fit the state of the group")
