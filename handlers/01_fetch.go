package handlers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/fetchsession"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
	"github.com/klamm-mq/klamm/protocol/wire"
)

// Fetch (key 1), versions 4–18: reads record batches, for consumers and for followers.
//
//	v4   isolation level, aborted transactions
//	v5   log start offset
//	v7   sessions (KIP-227)
//	v9   current leader epoch (KIP-320)
//	v11  rack and preferred read replica (KIP-392)
//	v12  flexible; last fetched epoch and diverging epoch (KIP-595)
//	v13  topics by id (KIP-516)
//	v15  replica state with broker epoch (KIP-903)
//	v16  address of the current leader (KIP-951)
//	v17  directory id of the replica (KIP-853)
//	v18  high watermark of the replica (KIP-1166)
//
// The session tells what is asked for; what is found goes back through it, so that an
// incremental answer holds only what changed. Records do not pass through memory here:
// the answer is a skeleton with regions of segment files in it.

// futureReplicaID is the replica id of a broker that copies one of its own logs into
// another directory. Nobody else sends it; who does is no consumer in that aborted
// transactions are not listed, and a consumer in all else.
const futureReplicaID int32 = -3

// fetchCall is a Fetch request on its way.
type fetchCall struct {
	h       *Handlers
	call    call
	req     *kmsg.FetchRequest
	session *fetchsession.Context
	ask     replica.FetchRequest
	parts   []fetchsession.Partition // in the order of the answer: read ones, then failed ones
	results []replica.FetchResult    // of parts, same order
	resp    kmsg.FetchResponse
	regions []wire.Region // of the partitions in resp, in order

	// one is room for what a fetch of one partition has.
	one struct {
		asked, wanted, part [1]fetchsession.Partition
		ask                 [1]replica.FetchPartition
		result              [1]replica.FetchResult
		answer              [1]fetchsession.Answer
		topic               [1]kmsg.FetchResponseTopic
		partition           [1]kmsg.FetchResponseTopicPartition
		region              [1]wire.Region
	}
}

// room is a slice for n elements without any yet: one, if that is enough.
func room[T any](one []T, n int) []T {
	if n <= len(one) {
		return one[:0]
	}
	return make([]T, 0, n)
}

func (h *Handlers) fetch(ctx context.Context, c call, req *kmsg.FetchRequest) wire.Outcome {
	f := &fetchCall{h: h, call: c, req: req}
	if err := checkFetchTags(req); err != nil {
		return wire.Outcome{Close: err}
	}
	f.session = h.sessions.NewContext(c.request.Received, f.sessionRequest())
	if err := f.session.Err(); err != nil {
		return f.failed(err)
	}
	failed := f.resolve()
	if news := f.session.News(); news != nil {
		f.ask.News, f.ask.Again = news, f.resolve
		if failed { // as with any error, a follower hears of it at once
			f.ask.MaxWait = 0
		}
	}
	if len(f.ask.Partitions) > 0 || f.ask.Again != nil {
		if !validIsolation(req.IsolationLevel) {
			return f.refused(kafkaerr.UnknownServerError)
		}
		f.ask.Waits = c.request
		h.replicas.Fetch(ctx, &f.ask)
		for i := range f.ask.Partitions {
			f.results[i] = f.ask.Partitions[i].Result
		}
	}
	return f.outcome()
}

// checkFetchTags refuses tagged fields in versions that do not have them yet, as Kafka's
// decoder does.
func checkFetchTags(req *kmsg.FetchRequest) error {
	early := req.Version < 15 && (req.ReplicaState.ID != -1 || req.ReplicaState.Epoch != -1)
	for i := 0; i < len(req.Topics) && !early && req.Version < 18; i++ {
		early = slices.ContainsFunc(req.Topics[i].Partitions, func(p kmsg.FetchRequestTopicPartition) bool {
			return p.HighWatermark != math.MaxInt64 || req.Version < 17 && p.ReplicaDirectoryID != uuid.Zero
		})
	}
	if early {
		return fmt.Errorf("%w: Fetch version %d has a tagged field of a later one", errBadBody, req.Version)
	}
	return nil
}

// replicaID is the follower that asks, negative for a consumer.
func (f *fetchCall) replicaID() (id int32, epoch int64) {
	if f.req.Version >= 15 {
		return f.req.ReplicaState.ID, f.req.ReplicaState.Epoch
	}
	return f.req.ReplicaID, -1
}

func (f *fetchCall) sessionRequest() fetchsession.Request {
	id, epoch := f.replicaID()
	r := fetchsession.Request{
		Version: f.req.Version, SessionID: f.req.SessionID, Epoch: f.req.SessionEpoch,
		Follower: id >= 0, ReplicaID: id, ReplicaEpoch: epoch, WalkAll: replica.NoRoom(f.req),
	}
	r.Partitions = f.one.asked[:0]
	for i := range f.req.Topics {
		topic := &f.req.Topics[i]
		for j := range topic.Partitions {
			p := &topic.Partitions[j]
			r.Partitions = append(r.Partitions, fetchsession.Partition{
				Key:                fetchsession.Key{TopicID: topic.TopicID, Topic: topic.Topic, Partition: p.Partition},
				CurrentLeaderEpoch: p.CurrentLeaderEpoch, FetchOffset: p.FetchOffset, LastFetchedEpoch: p.LastFetchedEpoch,
				LogStartOffset: p.LogStartOffset, HighWatermark: p.HighWatermark, MaxBytes: p.PartitionMaxBytes,
			})
		}
	}
	for i := range f.req.ForgottenTopics {
		topic := &f.req.ForgottenTopics[i]
		for _, p := range topic.Partitions {
			r.Forgotten = append(r.Forgotten, fetchsession.Key{TopicID: topic.TopicID, Topic: topic.Topic, Partition: p})
		}
	}
	return r
}

// failedPartition is a partition that nobody has to read.
type failedPartition struct {
	part fetchsession.Partition
	err  error
}

// resolve sorts the session's partitions into those to read and those that fail at once,
// which come last in the answer; it tells whether there are any of these.
func (f *fetchCall) resolve() (anyFailed bool) {
	image := f.h.image()
	wanted := f.session.Partitions(f.one.wanted[:0], func(id uuid.UUID) string { return nameOf(image, id) })
	f.parts = room(f.one.part[:], len(wanted))
	f.ask.Partitions = room(f.one.ask[:], len(wanted))
	var failed []failedPartition
	for i := range wanted {
		p := &wanted[i]
		at, err := f.find(image, p)
		if err != nil && !errors.Is(err, kafkaerr.InconsistentTopicID) {
			failed = append(failed, failedPartition{*p, err})
			continue
		}
		f.parts = append(f.parts, *p)
		f.ask.Partitions = append(f.ask.Partitions, wantedOf(p, at, err))
	}
	f.results = room(f.one.result[:], len(wanted))[:len(f.parts)]
	f.fail(failed)
	f.bounds()
	return len(failed) > 0
}

// wantedOf is what to read of a partition, unless err says why not.
func wantedOf(p *fetchsession.Partition, at replica.TopicIDPartition, err error) replica.FetchPartition {
	want := replica.FetchPartition{
		TopicIDPartition: at, CurrentLeaderEpoch: p.CurrentLeaderEpoch, FetchOffset: p.FetchOffset,
		LastFetchedEpoch: p.LastFetchedEpoch, LogStartOffset: p.LogStartOffset, HighWatermark: p.HighWatermark, MaxBytes: int(p.MaxBytes),
		KnownHighWatermark: p.KnownHighWatermark, KnownLogStart: p.KnownLogStart,
		Result: replica.FetchResult{Err: err},
	}
	if p.Watch != nil {
		want.Watch = p.Watch
	}
	return want
}

// fail puts the partitions that failed behind those to read. Where a consumer asks, ids
// that no topic has come before names that none has: Kafka looks at them in two rounds,
// with the consumer's permissions in between (KafkaApis.handleFetchRequest).
func (f *fetchCall) fail(failed []failedPartition) {
	if id, _ := f.replicaID(); id < 0 {
		slices.SortStableFunc(failed, func(a, b failedPartition) int { return cmp.Compare(a.round(), b.round()) })
	}
	for _, p := range failed {
		f.parts, f.results = append(f.parts, p.part), append(f.results, unreadable(p.err))
	}
}

func (p failedPartition) round() int {
	if errors.Is(p.err, kafkaerr.UnknownTopicID) {
		return 0
	}
	return 1
}

// find is where a partition is. From version 13 on the session knows topics by the name
// that their id had when it was first asked for: the topic of that name may be gone, or
// have another id by now, which only the one who reads finds out.
func (f *fetchCall) find(image *metadata.Image, p *fetchsession.Partition) (replica.TopicIDPartition, error) {
	if f.req.Version < 13 {
		return resolve(image, p.Topic, p.Partition)
	}
	if p.Name == "" {
		return replica.TopicIDPartition{}, kafkaerr.UnknownTopicID
	}
	at, err := resolve(image, p.Name, p.Partition)
	if err == nil && at.TopicID != p.TopicID {
		err = kafkaerr.InconsistentTopicID
	}
	return at, err
}

// bounds fills in who asks, how much, and how long it may wait.
func (f *fetchCall) bounds() {
	f.ask.ReplicaID, f.ask.ReplicaEpoch = f.replicaID()
	f.ask.NoRoom = f.ask.ReplicaID >= 0 && replica.NoRoom(f.req)
	f.ask.MaxBytes = f.mostAtOnce(min(int(f.req.MaxBytes), f.h.config.FetchMaxBytes))
	f.ask.MinBytes = min(int(f.req.MinBytes), f.ask.MaxBytes)
	f.ask.MaxWait = f.h.config.wait(f.req.MaxWaitMillis)
	f.ask.Isolation = replica.Isolation(f.req.IsolationLevel)
	if f.ask.ReplicaID == futureReplicaID {
		f.ask.Isolation = replica.ReadUncommitted
	}
	f.ask.AnyReplica = f.ask.ReplicaID == futureReplicaID || f.ask.ReplicaID < 0 && f.req.Version >= 11
	if f.h.config.RackAware && f.ask.AnyReplica && f.req.Rack != "" {
		f.ask.Rack, f.ask.Racks = f.req.Rack, f.rackOf
	}
}

// rackOf is where a broker stands, if the client can reach it.
func (f *fetchCall) rackOf(id int32) string {
	if _, _, rack, ok := f.h.leaderAddress(f.call, id); ok && rack != nil {
		return *rack
	}
	return ""
}
