package handlers

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/fetchsession"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/protocol/fetchenc"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/wire"
)

// unreadable is the answer about a partition that is not asked for its records. Unlike
// one that was asked, it has a list of aborted transactions, an empty one
// (FetchResponse.partitionResponse).
func unreadable(err error) replica.FetchResult {
	return replica.FetchResult{
		Err: err, HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1,
		AbortedTransactions: []replica.AbortedTransaction{},
	}
}

// fetchAnswer is what is about to be answered about one partition.
type fetchAnswer = fetchsession.Answer

// failed is an answer whose error concerns the session.
func (f *fetchCall) failed(err error) wire.Outcome {
	if pause := f.charge(nil); pause > 0 {
		return f.throttled(pause)
	}
	return wire.Outcome{Response: encode(f.call, f.emptyAnswer(err)), Sent: f.sending()}
}

func (f *fetchCall) emptyAnswer(err error) *kmsg.FetchResponse {
	resp := f.req.ResponseKind().(*kmsg.FetchResponse)
	resp.ErrorCode = kafkaerr.Code(err)
	return resp
}

// refused is the answer to a request that cannot be carried out: the error stands for
// the whole and, since versions before 7 know no such error, for each partition named, as
// long as these have names (FetchRequest.getErrorResponse).
func (f *fetchCall) refused(err error) wire.Outcome {
	resp := f.req.ResponseKind().(*kmsg.FetchResponse)
	resp.ErrorCode, resp.SessionID = kafkaerr.Code(err), f.req.SessionID
	if f.req.Version >= 13 {
		return f.h.paced(f.call, resp)
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
	return f.h.paced(f.call, resp)
}

// outcome passes the results through the session and encodes what it lets through.
func (f *fetchCall) outcome() wire.Outcome {
	answers := room(f.one.answer[:], len(f.parts))[:len(f.parts)]
	for i := range f.parts {
		r := &f.results[i]
		answers[i] = fetchsession.Answer{
			Key: f.parts[i].Key, RecordsBytes: regionLen(r.Records), HighWatermark: r.HighWatermark,
			LogStartOffset: r.LogStartOffset, Failed: r.Err != nil, Diverging: r.Diverging != nil, Redirected: r.PreferredReplica != nil,
		}
	}
	if pause := f.charge(answers); pause > 0 {
		return f.throttled(pause)
	}
	f.h.replicas.Sent(&f.ask)
	sessionID, err := f.session.UpdateAndFilter(f.call.request.Received, answers)
	f.resp.Version, f.resp.SessionID, f.resp.ErrorCode = f.req.Version, sessionID, kafkaerr.Code(err)
	f.shape(answers)
	f.collectRegions(answers)
	out := f.call.request.NewResponse()
	fetchenc.Append(out, &f.resp, f.nextRegion)
	return wire.Outcome{Response: out, Sent: f.sending()}
}

// nextRegion gives the regions in their order.
func (f *fetchCall) nextRegion(int, int) wire.Region {
	next := f.regions[0]
	f.regions = f.regions[1:]
	return next
}

// shape builds the response of the included answers, without their records.
func (f *fetchCall) shape(answers []fetchAnswer) {
	resp := &f.resp
	resp.Topics = f.one.topic[:0]
	for i := range answers {
		if !answers[i].Include {
			continue
		}
		key := answers[i].Key
		if n := len(resp.Topics); n == 0 || resp.Topics[n-1].Topic != key.Topic || resp.Topics[n-1].TopicID != key.TopicID {
			topic := kmsg.NewFetchResponseTopic()
			topic.Topic, topic.TopicID = key.Topic, key.TopicID
			if n == 0 {
				topic.Partitions = f.one.partition[:0]
			}
			resp.Topics = append(resp.Topics, topic)
		}
		last := &resp.Topics[len(resp.Topics)-1]
		last.Partitions = append(last.Partitions, f.partition(resp, key.Partition, &f.results[i]))
	}
}

// collectRegions lists the records of the included answers. Those of the others are given
// back.
func (f *fetchCall) collectRegions(answers []fetchAnswer) {
	f.regions = room(f.one.region[:], len(answers))
	for i := range answers {
		switch r := f.results[i].Records; {
		case answers[i].Include:
			f.regions = append(f.regions, r)
		case r != nil:
			r.Release()
		}
	}
}

func (f *fetchCall) partition(resp *kmsg.FetchResponse, index int32, r *replica.FetchResult) kmsg.FetchResponseTopicPartition {
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition, p.ErrorCode = index, f.code(r.Err)
	p.HighWatermark, p.LastStableOffset, p.LogStartOffset = r.HighWatermark, r.LastStableOffset, r.LogStartOffset
	p.PreferredReadReplica = -1
	if r.PreferredReplica != nil {
		p.PreferredReadReplica = *r.PreferredReplica
	}
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
