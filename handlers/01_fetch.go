package handlers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/fetchsession"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/protocol/fetchenc"
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
	call    *call
	req     *kmsg.FetchRequest
	session *fetchsession.Context
	ask     replica.FetchRequest
	parts   []fetchsession.Partition // in the order of the answer: read ones, then failed ones
	results []replica.FetchResult    // of parts, same order
}

func (h *Handlers) fetch(ctx context.Context, c *call, req *kmsg.FetchRequest) wire.Outcome {
	f := &fetchCall{h: h, call: c, req: req}
	if err := checkFetchTags(req); err != nil {
		return wire.Outcome{Close: err}
	}
	f.session = h.sessions.NewContext(c.request.Received, f.sessionRequest())
	if err := f.session.Err(); err != nil {
		return f.failed(err)
	}
	f.resolve()
	if len(f.ask.Partitions) > 0 {
		if !validIsolation(req.IsolationLevel) {
			return f.refused(kafkaerr.UnknownServerError)
		}
		c.request.Park() // it waits for others' records from here on
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
	id, _ := f.replicaID()
	r := fetchsession.Request{
		Version: f.req.Version, SessionID: f.req.SessionID, Epoch: f.req.SessionEpoch, Follower: id >= 0,
	}
	for i := range f.req.Topics {
		topic := &f.req.Topics[i]
		for j := range topic.Partitions {
			p := &topic.Partitions[j]
			r.Partitions = append(r.Partitions, fetchsession.Partition{
				Key:                fetchsession.Key{TopicID: topic.TopicID, Topic: topic.Topic, Partition: p.Partition},
				CurrentLeaderEpoch: p.CurrentLeaderEpoch, FetchOffset: p.FetchOffset, LastFetchedEpoch: p.LastFetchedEpoch,
				LogStartOffset: p.LogStartOffset, MaxBytes: p.PartitionMaxBytes,
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

// resolve sorts the session's partitions into those to read and those that fail at once,
// which come last in the answer.
func (f *fetchCall) resolve() {
	image := f.h.image()
	wanted := f.session.Partitions(nil, func(id uuid.UUID) string { return nameOf(image, id) })
	f.parts = make([]fetchsession.Partition, 0, len(wanted))
	f.ask.Partitions = make([]replica.FetchPartition, 0, len(wanted))
	var failed []fetchsession.Partition
	var errs []error
	for i := range wanted {
		p := &wanted[i]
		at, err := f.find(image, p)
		if err != nil && !errors.Is(err, kafkaerr.InconsistentTopicID) {
			failed, errs = append(failed, *p), append(errs, err)
			continue
		}
		f.parts = append(f.parts, *p)
		f.ask.Partitions = append(f.ask.Partitions, replica.FetchPartition{
			TopicIDPartition: at, CurrentLeaderEpoch: p.CurrentLeaderEpoch, FetchOffset: p.FetchOffset,
			LastFetchedEpoch: p.LastFetchedEpoch, LogStartOffset: p.LogStartOffset, MaxBytes: int(p.MaxBytes),
			Result: replica.FetchResult{Err: err},
		})
	}
	f.results = make([]replica.FetchResult, len(f.parts), len(wanted))
	f.parts = append(f.parts, failed...)
	for _, err := range errs {
		f.results = append(f.results, unreadable(err))
	}
	f.bounds()
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
	f.ask.MaxBytes = min(int(f.req.MaxBytes), f.h.config.FetchMaxBytes)
	f.ask.MinBytes = min(int(f.req.MinBytes), f.ask.MaxBytes)
	f.ask.MaxWait = time.Duration(f.req.MaxWaitMillis) * time.Millisecond
	f.ask.Isolation = replica.Isolation(f.req.IsolationLevel)
	if f.ask.ReplicaID == futureReplicaID {
		f.ask.Isolation = replica.ReadUncommitted
	}
	f.ask.AnyReplica = f.ask.ReplicaID < 0 && f.req.Version >= 11
}

// unreadable is the answer about a partition that is not asked for its records. Unlike
// one that was asked, it has a list of aborted transactions, an empty one
// (FetchResponse.partitionResponse).
func unreadable(err error) replica.FetchResult {
	return replica.FetchResult{
		Err: err, HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1,
		AbortedTransactions: []replica.AbortedTransaction{},
	}
}

// failed is an answer whose error concerns the session.
func (f *fetchCall) failed(err error) wire.Outcome {
	resp := f.req.ResponseKind().(*kmsg.FetchResponse)
	resp.ErrorCode = kafkaerr.Code(err)
	return wire.Outcome{Response: encode(f.call, resp)}
}

// refused is the answer to a request that cannot be carried out: the error stands for
// the whole and, since versions before 7 know no such error, for each partition named, as
// long as these have names (FetchRequest.getErrorResponse).
func (f *fetchCall) refused(err error) wire.Outcome {
	resp := f.req.ResponseKind().(*kmsg.FetchResponse)
	resp.ErrorCode, resp.SessionID = kafkaerr.Code(err), f.req.SessionID
	if f.req.Version >= 13 {
		return wire.Outcome{Response: encode(f.call, resp)}
	}
	result := unreadable(err)
	for i := range f.req.Topics {
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic = f.req.Topics[i].Topic
		for j := range f.req.Topics[i].Partitions {
			topic.Partitions = append(topic.Partitions, f.partition(resp, f.req.Topics[i].Partitions[j].Partition, &result))
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return wire.Outcome{Response: encode(f.call, resp)}
}

// outcome passes the results through the session and encodes what it lets through.
func (f *fetchCall) outcome() wire.Outcome {
	answers := make([]fetchsession.Answer, len(f.parts))
	for i := range f.parts {
		r := &f.results[i]
		answers[i] = fetchsession.Answer{
			Key: f.parts[i].Key, RecordsBytes: regionLen(r.Records), HighWatermark: r.HighWatermark,
			LogStartOffset: r.LogStartOffset, Failed: r.Err != nil, Diverging: r.Diverging != nil,
		}
	}
	sessionID, err := f.session.UpdateAndFilter(f.call.request.Received, answers)
	resp := f.req.ResponseKind().(*kmsg.FetchResponse)
	resp.SessionID, resp.ErrorCode = sessionID, kafkaerr.Code(err)
	regions := f.shape(resp, answers)
	out := f.call.request.NewResponse()
	fetchenc.Append(out, resp, func(topic, partition int) wire.Region { return regions[topic][partition] })
	return wire.Outcome{Response: out}
}

// shape builds the response of the included answers, and their regions in the same
// places. Regions of the others are given back.
func (f *fetchCall) shape(resp *kmsg.FetchResponse, answers []fetchsession.Answer) (regions [][]wire.Region) {
	for i := range answers {
		r := &f.results[i]
		if !answers[i].Include {
			if r.Records != nil {
				r.Records.Release()
			}
			continue
		}
		key := answers[i].Key
		if n := len(resp.Topics); n == 0 || resp.Topics[n-1].Topic != key.Topic || resp.Topics[n-1].TopicID != key.TopicID {
			topic := kmsg.NewFetchResponseTopic()
			topic.Topic, topic.TopicID = key.Topic, key.TopicID
			resp.Topics, regions = append(resp.Topics, topic), append(regions, nil)
		}
		last := len(resp.Topics) - 1
		resp.Topics[last].Partitions = append(resp.Topics[last].Partitions, f.partition(resp, key.Partition, r))
		regions[last] = append(regions[last], r.Records)
	}
	return regions
}

func (f *fetchCall) partition(resp *kmsg.FetchResponse, index int32, r *replica.FetchResult) kmsg.FetchResponseTopicPartition {
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition, p.ErrorCode = index, f.code(r.Err)
	p.HighWatermark, p.LastStableOffset, p.LogStartOffset = r.HighWatermark, r.LastStableOffset, r.LogStartOffset
	p.PreferredReadReplica = -1
	p.RecordBatches = []byte{} // empty, not null: Kafka never answers null
	if r.AbortedTransactions != nil {
		p.AbortedTransactions = make([]kmsg.FetchResponseTopicPartitionAbortedTransaction, len(r.AbortedTransactions))
		for i, txn := range r.AbortedTransactions {
			p.AbortedTransactions[i].ProducerID, p.AbortedTransactions[i].FirstOffset = txn.ProducerID, txn.FirstOffset
		}
	}
	if r.Diverging != nil {
		p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = r.Diverging.Epoch, r.Diverging.EndOffset
	}
	if f.req.Version >= 16 && (errors.Is(r.Err, kafkaerr.NotLeaderOrFollower) || errors.Is(r.Err, kafkaerr.FencedLeaderEpoch)) {
		p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = r.CurrentLeader.ID, r.CurrentLeader.Epoch
		if f.ask.ReplicaID < 0 { // followers know the brokers from metadata
			f.addLeaderAddress(resp, r.CurrentLeader.ID)
		}
	}
	return p
}

// code maps an error that clients of version 5 and below would take for a permanent one.
func (f *fetchCall) code(err error) int16 {
	if f.req.Version <= 5 && errors.Is(err, kafkaerr.KafkaStorageError) {
		return kafkaerr.Code(kafkaerr.NotLeaderOrFollower)
	}
	return kafkaerr.Code(err)
}

func (f *fetchCall) addLeaderAddress(resp *kmsg.FetchResponse, id int32) {
	for i := range resp.Brokers {
		if resp.Brokers[i].NodeID == id {
			return
		}
	}
	if host, port, rack, ok := f.h.leaderAddress(f.call, id); ok {
		b := kmsg.NewFetchResponseBroker()
		b.NodeID, b.Host, b.Port, b.Rack = id, host, port, rack
		resp.Brokers = append(resp.Brokers, b)
	}
}

func regionLen(r wire.Region) int {
	if r == nil {
		return 0
	}
	return r.Len()
}
