package cluster

import (
	"errors"
	"io"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/fetchsession"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// parkedFetch is a follower's fetch under way here: what the handler and replica.Manager
// make of it.
type parkedFetch struct {
	b       *broker
	req     *kmsg.FetchRequest
	session *fetchsession.Context
	parts   []fetchsession.Partition
	reply   func(kmsg.Response)
	over    bool
}

func (b *broker) serveFetch(req *kmsg.FetchRequest, reply func(kmsg.Response)) {
	f := &parkedFetch{b: b, req: req, reply: reply}
	r := fetchsession.Request{
		Version: req.Version, SessionID: req.SessionID, Epoch: req.SessionEpoch,
		Follower: true, ReplicaID: req.ReplicaState.ID, ReplicaEpoch: req.ReplicaState.Epoch,
	}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			r.Partitions = append(r.Partitions, fetchsession.Partition{
				Key:                fetchsession.Key{TopicID: t.TopicID, Partition: p.Partition},
				CurrentLeaderEpoch: p.CurrentLeaderEpoch, FetchOffset: p.FetchOffset, LastFetchedEpoch: p.LastFetchedEpoch,
				LogStartOffset: p.LogStartOffset, HighWatermark: p.HighWatermark, MaxBytes: p.PartitionMaxBytes,
			})
		}
	}
	for _, t := range req.ForgottenTopics {
		for _, index := range t.Partitions {
			r.Forgotten = append(r.Forgotten, fetchsession.Key{TopicID: t.TopicID, Partition: index})
		}
	}
	r.Partitions = b.takenIn(&r)
	f.session = b.sessions.NewContext(b.w.now, r)
	if err := f.session.Err(); err != nil {
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		resp.ErrorCode = kafkaerr.Code(err)
		reply(resp)
		return
	}
	f.parts = f.session.Partitions(nil, b.topicName)
	if b.n.crashed {
		return
	}
	if results, enough := f.read(false); enough {
		f.answer(results)
		return
	}
	b.parked = append(b.parked, f)
	f.look()
	b.after(time.Duration(req.MaxWaitMillis)*time.Millisecond, "a fetch has waited enough", func() {
		if f.over {
			return
		}
		f.gather()
		results, _ := f.read(true)
		f.answer(results)
	})
}

func (b *broker) topicName(id uuid.UUID) string {
	if b.image == nil || b.image.TopicByID(id) == nil {
		return ""
	}
	return b.image.TopicByID(id).Name
}

// read reads everything that is asked for; enough tells that it is worth an answer. What it
// gives is released, or answered.
func (f *parkedFetch) read(peek bool) (results []replica.FetchResult, enough bool) {
	size, left := 0, int(f.req.MaxBytes)
	noRoom := replica.NoRoom(f.req)
	for i := range f.parts {
		want := &f.parts[i]
		p := f.b.parts[replica.TopicIDPartition{TopicID: want.TopicID, Partition: want.Partition}]
		if p == nil {
			results = append(results, replica.FetchResult{Err: f.absent(want.TopicID), HighWatermark: -1, LogStartOffset: -1})
			enough = true
			continue
		}
		reader := &replica.Reader{
			ReplicaID: f.req.ReplicaState.ID, BrokerEpoch: f.b.fetchersEpoch(f.req), Peek: peek, NoRoom: noRoom && !p.d.Full(),
			OverQuota: f.b.overQuota, Served: left < int(f.req.MaxBytes)/2,
		}
		lacks := size == 0 && p.log != nil && want.FetchOffset < int64(p.log.LogEnd())
		r, e := p.ReadRecords(f.b.w.now, reader, &replica.FetchPartition{
			TopicIDPartition: p.id, CurrentLeaderEpoch: want.CurrentLeaderEpoch, FetchOffset: want.FetchOffset,
			LastFetchedEpoch: want.LastFetchedEpoch, LogStartOffset: want.LogStartOffset, HighWatermark: want.HighWatermark,
			Watch: f.b.w.watch(want), KnownHighWatermark: want.KnownHighWatermark, KnownLogStart: want.KnownLogStart,
		}, min(int(want.MaxBytes), left), size == 0)
		f.b.breakWithheld(p, reader, &r)
		if lacks {
			f.b.w.judge.sends(p, reader, &r)
		}
		f.b.carryOut(p, e)
		if r.Records != nil {
			size += r.Records.Len()
			left = max(0, left-r.Records.Len())
		}
		enough = enough || r.Err != nil || r.Diverging != nil || peek && r.HighWatermark > want.HighWatermark
		results = append(results, r)
	}
	if enough = enough || size >= int(f.req.MinBytes); !enough {
		release(results)
	}
	return results, enough
}

func (f *parkedFetch) absent(id uuid.UUID) error {
	if f.b.topicName(id) == "" {
		return kafkaerr.UnknownTopicID
	}
	return kafkaerr.NotLeaderOrFollower
}

func release(results []replica.FetchResult) {
	for i := range results {
		if r := results[i].Records; r != nil {
			r.Release()
			results[i].Records = nil
		}
	}
}

// look answers a fetch that waits if there is something by now.
func (f *parkedFetch) look() {
	if f.over {
		return
	}
	f.gather()
	if results, enough := f.read(true); enough {
		f.answer(results)
	}
}

// gather finds out what the session has awake by now.
func (f *parkedFetch) gather() {
	if f.session.News() != nil {
		f.parts = f.session.Partitions(nil, f.b.topicName)
	}
}

// wakeFetches lets the fetches look that wait for p, or whose sessions have news.
func (b *broker) wakeFetches(p *partition) {
	for _, f := range slices.Clone(b.parked) {
		if f.waitsFor(p) {
			f.look()
		}
	}
}

func (f *parkedFetch) waitsFor(p *partition) bool {
	if news := f.session.News(); news != nil {
		select {
		case <-news:
			return true
		default:
			return false
		}
	}
	return slices.ContainsFunc(f.parts, func(w fetchsession.Partition) bool {
		return w.TopicID == p.id.TopicID && w.Partition == p.id.Partition
	})
}

// answer shapes the response. The records leave the disk a while later: a leader may be
// deposed, and its log cut, before that.
func (f *parkedFetch) answer(results []replica.FetchResult) {
	if f.over || f.b.n.crashed {
		release(results)
		return
	}
	f.over = true
	f.b.parked = slices.DeleteFunc(f.b.parked, func(o *parkedFetch) bool { return o == f })
	answers := make([]fetchsession.Answer, len(results))
	for i := range results {
		r := &results[i]
		answers[i] = fetchsession.Answer{
			Key: f.parts[i].Key, HighWatermark: r.HighWatermark, LogStartOffset: r.LogStartOffset,
			Failed: r.Err != nil, Diverging: r.Diverging != nil,
		}
		if r.Records != nil {
			answers[i].RecordsBytes = r.Records.Len()
		}
	}
	id, err := f.session.UpdateAndFilter(f.b.w.now, answers)
	resp := f.req.ResponseKind().(*kmsg.FetchResponse)
	resp.SessionID, resp.ErrorCode = id, kafkaerr.Code(err)
	f.b.after(f.b.w.delay()/4, "records leave the disk", func() {
		defer release(results)
		f.countThrottled(results)
		for i := range results {
			if answers[i].Include && !f.include(resp, &answers[i], &results[i]) {
				return // the connection breaks
			}
		}
		f.reply(resp)
	})
}

func (f *parkedFetch) include(resp *kmsg.FetchResponse, a *fetchsession.Answer, r *replica.FetchResult) bool {
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition, p.ErrorCode = a.Partition, kafkaerr.Code(r.Err)
	p.HighWatermark, p.LogStartOffset = r.HighWatermark, r.LogStartOffset
	if r.Diverging != nil {
		p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = r.Diverging.Epoch, r.Diverging.EndOffset
	}
	if r.Records != nil {
		p.RecordBatches = make([]byte, r.Records.Len())
		if n, err := r.Records.ReadAt(p.RecordBatches, 0); n < len(p.RecordBatches) || err != nil && !errors.Is(err, io.EOF) {
			return false
		}
	}
	t := kmsg.NewFetchResponseTopic()
	t.TopicID, t.Partitions = a.TopicID, append(t.Partitions, p)
	resp.Topics = append(resp.Topics, t)
	return true
}

func (b *broker) serveListOffsets(req *kmsg.ListOffsetsRequest, reply func(kmsg.Response)) {
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	for _, t := range req.Topics {
		answer := kmsg.NewListOffsetsResponseTopic()
		answer.Topic = t.Topic
		for _, want := range t.Partitions {
			p := kmsg.NewListOffsetsResponseTopicPartition()
			p.Partition, p.ErrorCode = want.Partition, kafkaerr.UnknownTopicOrPartition.Code
			if topic := b.topic(t.Topic); topic != nil {
				if here := b.parts[replica.TopicIDPartition{TopicID: *topic, Partition: want.Partition}]; here != nil {
					r := here.ListOffsets(&replica.ListOffsetsRequest{Version: req.Version, ReplicaID: req.ReplicaID},
						&replica.ListOffsetsPartition{CurrentLeaderEpoch: want.CurrentLeaderEpoch, Timestamp: want.Timestamp})
					p.ErrorCode, p.Offset = kafkaerr.Code(r.Err), r.Offset
				}
			}
			answer.Partitions = append(answer.Partitions, p)
		}
		resp.Topics = append(resp.Topics, answer)
	}
	reply(resp)
}

func (b *broker) topic(name string) *uuid.UUID {
	if b.image == nil || b.image.Topic(name) == nil {
		return nil
	}
	return &b.image.Topic(name).ID
}
