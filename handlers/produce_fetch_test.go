package handlers

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
	"github.com/klamm-mq/klamm/protocol/wire"
)

func oneRecord() []byte {
	return batch.New(batch.BuilderOptions{}, batch.NewRecord{Value: []byte("v")})
}

// produceRequest asks for one batch in partition 0 of "t".
func produceRequest(version, acks int16, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, acks, 1000
	part := kmsg.NewProduceRequestTopicPartition()
	part.Records = records
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic, topic.TopicID, topic.Partitions = "t", topicID, []kmsg.ProduceRequestTopicPartition{part}
	req.Topics = []kmsg.ProduceRequestTopic{topic}
	return req
}

func TestProduceRefusesBeforeTheLogIsAsked(t *testing.T) {
	transactional := batch.New(batch.BuilderOptions{Transactional: true, Producer: &batch.Producer{ID: 1, Epoch: 0, BaseSequence: 0}}, batch.NewRecord{Value: []byte("v")})
	for _, c := range []struct {
		name   string
		change func(*kmsg.ProduceRequest)
		want   *kafkaerr.Kind
	}{
		{"no such topic", func(r *kmsg.ProduceRequest) { r.Topics[0].Topic = "x" }, kafkaerr.UnknownTopicOrPartition},
		{"no such partition", func(r *kmsg.ProduceRequest) { r.Topics[0].Partitions[0].Partition = 2 }, kafkaerr.UnknownTopicOrPartition},
		{"negative partition", func(r *kmsg.ProduceRequest) { r.Topics[0].Partitions[0].Partition = -1 }, kafkaerr.UnknownTopicOrPartition},
		{"no such id", func(r *kmsg.ProduceRequest) { r.Version, r.Topics[0].TopicID = 13, uuid.UUID{7} }, kafkaerr.UnknownTopicID},
		{"null records", func(r *kmsg.ProduceRequest) { r.Topics[0].Partitions[0].Records = nil }, kafkaerr.InvalidRecord},
		{"acks 2", func(r *kmsg.ProduceRequest) { r.Acks = 2 }, kafkaerr.InvalidRequiredAcks},
		{"acks 2 and no batch", func(r *kmsg.ProduceRequest) { r.Acks, r.Topics[0].Partitions[0].Records = 2, []byte{1} }, kafkaerr.InvalidRecord},
		{"transactional", func(r *kmsg.ProduceRequest) { r.Topics[0].Partitions[0].Records = transactional }, kafkaerr.TransactionalIDAuthorizationFailed},
	} {
		f := newFixture(t)
		req := produceRequest(9, -1, oneRecord())
		c.change(req)
		resp := ask[*kmsg.ProduceResponse](t, f, req)
		if p := resp.Topics[0].Partitions[0]; p.ErrorCode != c.want.Code || p.BaseOffset != -1 || p.LogAppendTime != -1 || p.LogStartOffset != -1 {
			t.Errorf("%s: %+v, want error %d", c.name, p, c.want.Code)
		}
		if len(f.replicas.appended) != 0 {
			t.Errorf("%s: was appended", c.name)
		}
	}
}

func TestProduceAnswersWhatTheLogSays(t *testing.T) {
	f := newFixture(t)
	f.replicas.result = replica.AppendResult{BaseOffset: 17, LogAppendTimeMs: -1, LogStartOffset: 3}
	for version := int16(3); version <= 13; version++ {
		resp := ask[*kmsg.ProduceResponse](t, f, produceRequest(version, -1, oneRecord()))
		p := resp.Topics[0].Partitions[0]
		if p.ErrorCode != 0 || p.BaseOffset != 17 || version >= 5 && p.LogStartOffset != 3 {
			t.Errorf("version %d: %+v", version, p)
		}
	}
}

func TestProduceTellsWhichRecordsAreWrong(t *testing.T) {
	f := newFixture(t)
	f.replicas.result = replica.AppendResult{
		Err:        &batch.RecordErrors{Kind: kafkaerr.InvalidTimestamp, Message: "all wrong", Records: []batch.RecordError{{Index: 2, Message: "too old"}}},
		BaseOffset: -1, LogAppendTimeMs: -1, LogStartOffset: -1,
	}
	p := ask[*kmsg.ProduceResponse](t, f, produceRequest(8, -1, oneRecord())).Topics[0].Partitions[0]
	if p.ErrorCode != kafkaerr.InvalidTimestamp.Code || *p.ErrorMessage != "all wrong" || len(p.ErrorRecords) != 1 ||
		p.ErrorRecords[0].RelativeOffset != 2 || *p.ErrorRecords[0].ErrorMessage != "too old" {
		t.Errorf("%+v", p)
	}
}

// A client that asked the wrong broker is told which one leads, and where it is: unless it
// is not alive, when nobody can reach it (KIP-951).
func TestAnswersNameTheNewLeader(t *testing.T) {
	for _, c := range []struct {
		leader    int32
		consumer  bool
		addresses int
	}{{1, true, 1}, {2, true, 0}, {1, false, 0}} {
		leader := replica.Leader{ID: c.leader, Epoch: 9}
		f := newFixture(t)
		f.replicas.result = replica.AppendResult{Err: fmt.Errorf("partition: %w", kafkaerr.NotLeaderOrFollower), BaseOffset: -1, CurrentLeader: leader}
		f.replicas.fetched = replica.FetchResult{Err: kafkaerr.FencedLeaderEpoch, HighWatermark: -1, CurrentLeader: leader}
		if c.consumer {
			for version, since := range map[int16]bool{9: false, 10: true} {
				resp := ask[*kmsg.ProduceResponse](t, f, produceRequest(version, -1, oneRecord()))
				got := resp.Topics[0].Partitions[0].CurrentLeader
				if named := got.LeaderID == c.leader && got.LeaderEpoch == 9; named != since || len(resp.Brokers) != c.addresses && since {
					t.Errorf("Produce v%d, leader %d: named %+v, brokers %+v", version, c.leader, got, resp.Brokers)
				}
			}
		}
		for version, since := range map[int16]bool{15: false, 16: true} {
			req := fetchRequest(version)
			if !c.consumer {
				req.ReplicaState.ID, req.ReplicaState.Epoch = 2, 2
			}
			resp := ask[*kmsg.FetchResponse](t, f, req)
			got := resp.Topics[0].Partitions[0].CurrentLeader
			if named := got.LeaderID == c.leader && got.LeaderEpoch == 9; named != since || len(resp.Brokers) != c.addresses && since {
				t.Errorf("Fetch v%d, consumer %v, leader %d: named %+v, brokers %+v", version, c.consumer, c.leader, got, resp.Brokers)
			}
		}
	}
}

func TestProduceThatWaitsIsCompletedByTheLog(t *testing.T) {
	f := newFixture(t)
	f.replicas.later = true
	req := produceRequest(9, -1, oneRecord())
	out := f.h.Handle(t.Context(), f.request(req))
	if out.Pending == nil {
		t.Fatalf("outcome %+v", out)
	}
	f.replicas.pending.Partitions[0].Result = replica.AppendResult{BaseOffset: 5}
	f.replicas.pending.Done(f.replicas.pending)
	resp := req.ResponseKind()
	decode(t, out.Pending.Outcome().Response, resp)
	if p := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.BaseOffset != 5 {
		t.Errorf("%+v", p)
	}
}

// Buffers of frames that something still points to are in nobody's count: with many produces
// waiting for the disk they were most of the broker's memory.
func TestProduceThatWaitsKeepsNoFrame(t *testing.T) {
	f := newFixture(t)
	f.replicas.later = true
	r := f.request(produceRequest(9, -1, oneRecord()))
	frame := weak.Make(&r.Body[0])
	out := f.h.Handle(t.Context(), r)
	f.replicas.pending.Partitions[0].Records = nil // as replica.Manager leaves them
	f.replicas.appended = nil
	for range 3 {
		runtime.GC()
	}
	if frame.Value() != nil {
		t.Error("the frame lives while the produce waits")
	}
	runtime.KeepAlive(r)
	f.replicas.pending.Done(f.replicas.pending)
	runtime.KeepAlive(out)
}

func TestProduceWithoutAcksIsSilentOrCloses(t *testing.T) {
	f := newFixture(t)
	if out := f.h.Handle(t.Context(), f.request(produceRequest(9, 0, oneRecord()))); !out.NoResponse {
		t.Errorf("success: %+v", out)
	}
	f.replicas.result.Err = kafkaerr.NotLeaderOrFollower
	if out := f.h.Handle(t.Context(), f.request(produceRequest(9, 0, oneRecord()))); out.Close == nil {
		t.Errorf("failure: %+v", out)
	}
}

func TestProducePartitionNamedTwiceKeepsItsLastBatch(t *testing.T) {
	f := newFixture(t)
	f.replicas.result = replica.AppendResult{BaseOffset: 17}
	req := produceRequest(9, -1, oneRecord())
	second := batch.New(batch.BuilderOptions{}, batch.NewRecord{Value: []byte("second")})
	part := req.Topics[0].Partitions[0]
	part.Records = second
	again := req.Topics[0]
	again.Partitions = []kmsg.ProduceRequestTopicPartition{part}
	req.Topics = append(req.Topics, again)
	resp := ask[*kmsg.ProduceResponse](t, f, req)
	if len(f.replicas.appended) != 1 || !cmp.Equal(f.replicas.appended[0].Records, []byte(second)) {
		t.Errorf("appended %d batches", len(f.replicas.appended))
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].BaseOffset != 17 {
		t.Errorf("answered %+v, want the partition once", resp.Topics)
	}
}

// The batch that is in order is appended, but the answer is the error of the other one.
func TestProducePartitionNamedTwiceAnswersTheErrorOfEither(t *testing.T) {
	for _, badFirst := range []bool{true, false} {
		f := newFixture(t)
		req := produceRequest(9, -1, oneRecord())
		part := req.Topics[0].Partitions[0]
		part.Records = nil
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, part)
		if badFirst {
			slices.Reverse(req.Topics[0].Partitions)
		}
		parts := ask[*kmsg.ProduceResponse](t, f, req).Topics[0].Partitions
		if len(parts) != 1 || parts[0].ErrorCode != kafkaerr.InvalidRecord.Code || len(f.replicas.appended) != 1 {
			t.Errorf("bad batch first %v: answered %+v, appended %d", badFirst, parts, len(f.replicas.appended))
		}
	}
}

// Bytes that are wrong count for more than an acks that no log knows.
func TestProducePartitionNamedTwiceWithBadAcks(t *testing.T) {
	for _, badFirst := range []bool{true, false} {
		f := newFixture(t)
		req := produceRequest(9, 2, oneRecord())
		part := req.Topics[0].Partitions[0]
		part.Records = nil
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, part)
		if badFirst {
			slices.Reverse(req.Topics[0].Partitions)
		}
		parts := ask[*kmsg.ProduceResponse](t, f, req).Topics[0].Partitions
		if len(parts) != 1 || parts[0].ErrorCode != kafkaerr.InvalidRecord.Code {
			t.Errorf("bad batch first %v: answered %+v", badFirst, parts)
		}
	}
}

// Long requests are indexed; what they name twice must be found there as well.
func TestProduceOfManyPartitionsAnswersEachOnce(t *testing.T) {
	f := newFixture(t)
	req := produceRequest(9, -1, oneRecord())
	other := req.Topics[0]
	other.Topic, other.Partitions = "unknown", nil
	for i := range int32(3 * fewPartitions) {
		part := kmsg.NewProduceRequestTopicPartition()
		part.Partition, part.Records = i%(2*fewPartitions), oneRecord()
		other.Partitions = append(other.Partitions, part)
	}
	req.Topics = append(req.Topics, other, req.Topics[0])
	resp := ask[*kmsg.ProduceResponse](t, f, req)
	if len(resp.Topics) != 2 || len(resp.Topics[0].Partitions) != 1 || len(resp.Topics[1].Partitions) != 2*fewPartitions {
		t.Fatalf("answered %d topics", len(resp.Topics))
	}
	for i, p := range resp.Topics[1].Partitions {
		if p.Partition != int32(i) || p.ErrorCode != kafkaerr.UnknownTopicOrPartition.Code {
			t.Errorf("answer %d is %+v", i, p)
		}
	}
	if len(f.replicas.appended) != 1 {
		t.Errorf("appended %d batches", len(f.replicas.appended))
	}
}

// Kafka meets these faults before it looks at single partitions, so the good partition
// fails with the bad one.
func TestProduceFailsAsAWhole(t *testing.T) {
	magic := func(m byte) []byte {
		b := oneRecord()
		b[16] = m
		return b
	}
	codec := func(c byte) []byte {
		b := oneRecord()
		b[22] = c
		return b
	}
	transactional := batch.New(batch.BuilderOptions{Transactional: true, Producer: &batch.Producer{ID: 1}}, batch.NewRecord{Value: []byte("v")})
	for _, c := range []struct {
		name    string
		version int16
		records []byte
		want    int16
		message bool
	}{
		{"magic 3", 9, magic(3), kafkaerr.CorruptMessage.Code, true},
		{"length 0", 9, make([]byte, 70), kafkaerr.CorruptMessage.Code, true},
		{"transactional", 9, transactional, kafkaerr.TransactionalIDAuthorizationFailed.Code, false},
		{"codec 5 before version 7", 6, codec(5), -1, false},
		{"magic 1 is the partition's own fault", 9, magic(1), 0, false},
		{"codec 5 from version 7 on is the append's", 7, codec(5), 0, false},
	} {
		f := newFixture(t)
		req := produceRequest(c.version, -1, oneRecord())
		bad := req.Topics[0].Partitions[0]
		bad.Partition, bad.Records = 1, c.records
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, bad)
		good := ask[*kmsg.ProduceResponse](t, f, req).Topics[0].Partitions[0]
		if good.ErrorCode != c.want || good.ErrorMessage != nil != c.message {
			t.Errorf("%s: the good partition gets %+v, want error %d", c.name, good, c.want)
		}
		if appended := len(f.replicas.appended) > 0; appended != (c.want == 0) {
			t.Errorf("%s: appended %v", c.name, appended)
		}
	}
}

// region is a Region that counts its releases.
type region struct {
	b        []byte
	released int
}

func (r *region) Len() int                                { return len(r.b) }
func (r *region) ReadAt(p []byte, off int64) (int, error) { return copy(p, r.b[off:]), nil }
func (r *region) Release()                                { r.released++ }
func (r *region) File() (*os.File, int64)                 { return nil, 0 }

func fetchRequest(version int16) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes, req.MinBytes, req.ReplicaID, req.SessionEpoch = version, 1<<20, 1, -1, -1
	part := kmsg.NewFetchRequestTopicPartition()
	part.PartitionMaxBytes, part.CurrentLeaderEpoch, part.LastFetchedEpoch = 1<<20, -1, -1
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID, topic.Partitions = "t", topicID, []kmsg.FetchRequestTopicPartition{part}
	req.Topics = []kmsg.FetchRequestTopic{topic}
	return req
}

func TestFetchAnswersRecordsInEveryVersion(t *testing.T) {
	for version := int16(4); version <= 18; version++ {
		f := newFixture(t)
		r := &region{b: []byte("the records")}
		f.replicas.fetched = replica.FetchResult{HighWatermark: 10, LastStableOffset: 9, LogStartOffset: 1, Records: r}
		p := ask[*kmsg.FetchResponse](t, f, fetchRequest(version)).Topics[0].Partitions[0]
		if string(p.RecordBatches) != "the records" || p.HighWatermark != 10 || p.LastStableOffset != 9 || p.PreferredReadReplica != -1 {
			t.Errorf("version %d: %+v", version, p)
		}
		if r.released != 1 {
			t.Errorf("version %d: region released %d times", version, r.released)
		}
	}
}

func TestFetchErrorsOfAPartitionStandLast(t *testing.T) {
	f := newFixture(t)
	req := fetchRequest(12)
	gone := req.Topics[0].Partitions[0]
	gone.Partition = 9
	req.Topics[0].Partitions = append([]kmsg.FetchRequestTopicPartition{gone}, req.Topics[0].Partitions...)
	parts := ask[*kmsg.FetchResponse](t, f, req).Topics[0].Partitions
	if parts[0].Partition != 0 || parts[1].Partition != 9 || parts[1].ErrorCode != kafkaerr.UnknownTopicOrPartition.Code || parts[1].HighWatermark != -1 {
		t.Errorf("%+v", parts)
	}
}

// KafkaApis looks for a consumer's unknown ids before it looks for its partitions.
func TestFetchOfAConsumerAnswersUnknownIDsBeforeUnknownPartitions(t *testing.T) {
	for replicaID, want := range map[int32][2]int16{
		-1: {kafkaerr.UnknownTopicID.Code, kafkaerr.UnknownTopicOrPartition.Code},
		2:  {kafkaerr.UnknownTopicOrPartition.Code, kafkaerr.UnknownTopicID.Code},
	} {
		f := newFixture(t)
		req := fetchRequest(13)
		req.ReplicaID = replicaID
		req.Topics[0].Partitions[0].Partition = 9
		unknown := fetchRequest(13).Topics[0]
		unknown.TopicID = uuid.UUID{7}
		req.Topics = append(req.Topics, unknown)
		topics := ask[*kmsg.FetchResponse](t, f, req).Topics
		got := [2]int16{topics[0].Partitions[0].ErrorCode, topics[1].Partitions[0].ErrorCode}
		if got != want {
			t.Errorf("replica %d: errors %v, want %v", replicaID, got, want)
		}
	}
}

func TestFetchSessionLeavesOutWhatDidNotChange(t *testing.T) {
	f := newFixture(t)
	f.replicas.fetched = replica.FetchResult{HighWatermark: 10, LastStableOffset: 10}
	first := fetchRequest(12)
	first.SessionEpoch = 0
	opened := ask[*kmsg.FetchResponse](t, f, first)
	if opened.SessionID == 0 || len(opened.Topics) != 1 {
		t.Fatalf("first answer %+v", opened)
	}
	next := fetchRequest(12)
	next.SessionID, next.SessionEpoch, next.Topics = opened.SessionID, 1, nil
	if resp := ask[*kmsg.FetchResponse](t, f, next); len(resp.Topics) != 0 || resp.SessionID != opened.SessionID {
		t.Errorf("nothing changed, yet %+v", resp.Topics)
	}
	f.replicas.fetched.HighWatermark = 11
	next.SessionEpoch = 2
	if resp := ask[*kmsg.FetchResponse](t, f, next); len(resp.Topics) != 1 {
		t.Errorf("the high watermark moved, yet %+v", resp.Topics)
	}
	next.SessionEpoch = 7
	if resp := ask[*kmsg.FetchResponse](t, f, next); resp.ErrorCode != kafkaerr.InvalidFetchSessionEpoch.Code {
		t.Errorf("wrong epoch: error %d", resp.ErrorCode)
	}
}

// A session remembers what an id was the name of, as Kafka's does: its fetcher learns that
// the topic is gone, then that it is another one. Without session the id is unknown.
func TestFetchSessionOfADeletedTopic(t *testing.T) {
	f := newFixture(t)
	open := fetchRequest(13)
	open.SessionEpoch = 0
	opened := ask[*kmsg.FetchResponse](t, f, open)
	for i, c := range []struct {
		image       *metadata.Image
		want, fresh int16
		aborted     bool // has a list of aborted transactions, if empty
	}{
		{testImage(t), 0, 0, false},
		{changed(t, testImage(t), metadata.RemoveTopicRecord{ID: topicID}), kafkaerr.UnknownTopicOrPartition.Code, kafkaerr.UnknownTopicID.Code, true},
		{anotherTopic(t), kafkaerr.InconsistentTopicID.Code, kafkaerr.UnknownTopicID.Code, false},
	} {
		f.h.image = func() *metadata.Image { return c.image }
		f.replicas.fetched = replica.FetchResult{HighWatermark: int64(i + 1)}
		next := fetchRequest(13)
		next.SessionID, next.SessionEpoch, next.Topics = opened.SessionID, int32(i+1), nil
		p := ask[*kmsg.FetchResponse](t, f, next).Topics[0].Partitions[0]
		if p.ErrorCode != c.want || (p.AbortedTransactions != nil) != c.aborted {
			t.Errorf("step %d: %+v, want error %d", i, p, c.want)
		}
		if p := ask[*kmsg.FetchResponse](t, f, fetchRequest(13)).Topics[0].Partitions[0]; p.ErrorCode != c.fresh {
			t.Errorf("step %d, without session: error %d, want %d", i, p.ErrorCode, c.fresh)
		}
	}
}

// anotherTopic is the image after "t" was deleted and made anew.
func anotherTopic(t *testing.T) *metadata.Image {
	return changed(t, testImage(t), metadata.RemoveTopicRecord{ID: topicID}, metadata.TopicRecord{Name: "t", ID: uuid.UUID{42}},
		metadata.PartitionRecord{TopicID: uuid.UUID{42}, Partition: metadata.Partition{Replicas: []int32{1}, ISR: []int32{1}, Directories: []uuid.UUID{{9}}, Leader: 1}})
}

func TestFetchOfAFutureReplicaListsNoAbortedTransactions(t *testing.T) {
	for id, want := range map[int32]replica.Isolation{-1: replica.ReadCommitted, futureReplicaID: replica.ReadUncommitted} {
		f := newFixture(t)
		req := fetchRequest(12)
		req.ReplicaID, req.IsolationLevel = id, 1
		c := &fetchCall{h: f.h, call: call{request: f.request(req)}, req: req}
		c.bounds()
		if c.ask.Isolation != want {
			t.Errorf("replica %d reads with isolation %d, want %d", id, c.ask.Isolation, want)
		}
	}
}

// A request that another one of its session has overtaken gets no records, and must not
// keep the files that it found them in.
func TestFetchGivesRegionsBackThatItDoesNotSend(t *testing.T) {
	f := newFixture(t)
	open := fetchRequest(12)
	open.SessionEpoch = 0
	opened := ask[*kmsg.FetchResponse](t, f, open)
	r := &region{b: []byte("x")}
	f.replicas.fetched = replica.FetchResult{Records: r}
	req := fetchRequest(12)
	req.SessionID, req.SessionEpoch = opened.SessionID, 1
	c := &fetchCall{h: f.h, call: call{request: f.request(req)}, req: req}
	c.session = f.h.sessions.NewContext(time.Now(), c.sessionRequest())
	c.resolve()
	f.replicas.Fetch(t.Context(), &c.ask)
	c.results[0] = c.ask.Partitions[0].Result
	overtaker := fetchRequest(12)
	overtaker.SessionID, overtaker.SessionEpoch, overtaker.Topics = opened.SessionID, 2, nil
	f.replicas.fetched = replica.FetchResult{}
	ask[*kmsg.FetchResponse](t, f, overtaker)
	out := c.outcome()
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = 12
	decode(t, out.Response, resp)
	if resp.ErrorCode != kafkaerr.InvalidFetchSessionEpoch.Code || r.released != 1 {
		t.Errorf("error %d, region released %d times", resp.ErrorCode, r.released)
	}
}

func TestFetchOfVersion5MapsStorageError(t *testing.T) {
	for version, want := range map[int16]int16{5: kafkaerr.NotLeaderOrFollower.Code, 6: kafkaerr.KafkaStorageError.Code} {
		f := newFixture(t)
		f.replicas.fetched = replica.FetchResult{Err: kafkaerr.KafkaStorageError, HighWatermark: -1}
		if p := ask[*kmsg.FetchResponse](t, f, fetchRequest(version)).Topics[0].Partitions[0]; p.ErrorCode != want {
			t.Errorf("version %d: error %d, want %d", version, p.ErrorCode, want)
		}
	}
}

// Up to version 12 the error stands for each partition too, in the request's names.
func TestFetchWithBadIsolationFailsAsAWhole(t *testing.T) {
	for version := int16(4); version <= 18; version++ {
		f := newFixture(t)
		req := fetchRequest(version)
		req.IsolationLevel, req.SessionID, req.SessionEpoch = 7, 0, -1
		resp := ask[*kmsg.FetchResponse](t, f, req)
		if version >= 7 && resp.ErrorCode != -1 || len(resp.Topics) == 0 != (version >= 13) {
			t.Errorf("version %d: %+v", version, resp)
		}
		if version < 13 && resp.Topics[0].Partitions[0].ErrorCode != -1 {
			t.Errorf("version %d: %+v", version, resp.Topics)
		}
		req.Topics[0].Topic, req.Topics[0].TopicID = "unknown", uuid.UUID{7}
		if resp := ask[*kmsg.FetchResponse](t, f, req); resp.ErrorCode != 0 {
			t.Errorf("version %d: nothing to read, so the level does not matter: error %d", version, resp.ErrorCode)
		}
	}
}

// A reader of an unknown partition is given an empty list of aborted transactions, one
// whose partition refuses it none.
func TestFetchErrorsBeforeReadingHaveNoAbortedTransactions(t *testing.T) {
	f := newFixture(t)
	f.replicas.fetched = replica.FetchResult{Err: kafkaerr.OffsetOutOfRange}
	req := fetchRequest(12)
	unknown := req.Topics[0].Partitions[0]
	unknown.Partition = 9
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, unknown)
	parts := ask[*kmsg.FetchResponse](t, f, req).Topics[0].Partitions
	if parts[0].AbortedTransactions != nil || parts[1].AbortedTransactions == nil {
		t.Errorf("%+v", parts)
	}
}

func TestFetchWithTagsOfALaterVersionIsClosed(t *testing.T) {
	for _, c := range []struct {
		name  string
		set   func(*kmsg.FetchRequest)
		since int16
	}{
		{"replica state", func(r *kmsg.FetchRequest) { r.ReplicaState.ID = 5 }, 15},
		{"directory id", func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].ReplicaDirectoryID = uuid.UUID{1} }, 17},
		{"high watermark", func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].HighWatermark = 3 }, 18},
	} {
		for version := int16(12); version <= 18; version++ {
			f := newFixture(t)
			req := fetchRequest(version)
			c.set(req)
			if out := f.h.Handle(t.Context(), f.request(req)); out.Close == nil != (version >= c.since) {
				t.Errorf("%s in version %d: %+v", c.name, version, out)
			}
		}
	}
}

var _ wire.Region = (*region)(nil)
