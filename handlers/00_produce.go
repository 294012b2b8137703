package handlers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
	"github.com/klamm-mq/klamm/protocol/wire"
)

// Produce (key 0), versions 3–13: appends one record batch per partition.
//
//	v3   magic 2, transactional id
//	v5   log start offset in the answer
//	v7   zstd
//	v8   record errors and error message (KIP-467)
//	v9   flexible
//	v10  current leader and its address with NOT_LEADER_OR_FOLLOWER (KIP-951)
//	v11  TRANSACTION_ABORTABLE possible (KIP-890)
//	v12  implicit AddPartitionsToTxn (KIP-890)
//	v13  topics by id (KIP-516)
//
// Two stages. First, in the order of the connection: resolve, check, append. When
// produce returns, the records are in the log or refused, and the next Produce of the
// connection may begin. Second, the wait for the high watermark; the answer is completed
// by whoever moved it (replica.AppendRequest.Done).
//
// With acks=0 there is no answer. A failure closes the connection, since that is the
// only thing such a producer notices.

// adminClientID may write to internal topics, as in Kafka.
const adminClientID = "__admin_client"

// produceCall is a Produce request on its way: the answer as it grows, and which append
// belongs to which place in it.
type produceCall struct {
	h      *Handlers
	call   *call
	req    *kmsg.ProduceRequest
	resp   *kmsg.ProduceResponse
	append replica.AppendRequest
	places []producePlace // of append.Partitions, same order
	wait   *wire.Pending  // nil: answered in the first stage
}

// producePlace is a partition's position in the answer.
type producePlace struct{ topic, partition int }

func (h *Handlers) produce(_ context.Context, c *call, req *kmsg.ProduceRequest) wire.Outcome {
	p := &produceCall{h: h, call: c, req: req, resp: kmsg.NewPtrProduceResponse()}
	p.resp.Version = req.Version
	if hasTransactionalRecords(req) {
		p.refuseAll(kafkaerr.TransactionalIDAuthorizationFailed)
		return p.outcome()
	}
	p.resolve()
	if len(p.append.Partitions) == 0 {
		return p.outcome()
	}
	p.append.Acks, p.append.RequestVersion = req.Acks, req.Version
	p.append.Timeout = time.Duration(req.TimeoutMillis) * time.Millisecond
	p.append.Done = p.done
	p.wait = wire.NewPending()
	if !h.replicas.Append(&p.append) {
		c.request.Park()
		return wire.Outcome{Pending: p.wait}
	}
	p.fill()
	return p.outcome()
}

// done is the second stage's end.
func (p *produceCall) done(*replica.AppendRequest) {
	p.fill()
	p.wait.Complete(p.outcome())
}

// resolve gives every partition its place in the answer, and those that may be appended
// to their place in the append request.
func (p *produceCall) resolve() {
	image := p.h.image()
	p.resp.Topics = make([]kmsg.ProduceResponseTopic, len(p.req.Topics))
	for i := range p.req.Topics {
		asked, topic := &p.req.Topics[i], &p.resp.Topics[i]
		topic.Topic, topic.TopicID = asked.Topic, asked.TopicID
		topic.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(asked.Partitions))
		for j := range asked.Partitions {
			part := &topic.Partitions[j]
			*part = newProduceAnswer(asked.Partitions[j].Partition)
			at, err := p.check(image, asked, &asked.Partitions[j])
			if err != nil {
				part.ErrorCode = kafkaerr.Code(err)
				continue
			}
			p.add(at, asked.Partitions[j].Records, producePlace{i, j})
		}
	}
}

// check is everything that can refuse a partition before its log is asked, in Kafka's
// order.
func (p *produceCall) check(image *metadata.Image, topic *kmsg.ProduceRequestTopic, part *kmsg.ProduceRequestTopicPartition) (replica.TopicIDPartition, error) {
	at, name, err := p.find(image, topic, part.Partition)
	switch {
	case err != nil:
		return at, err
	case len(part.Records) == 0:
		return at, kafkaerr.InvalidRecord
	}
	if err := batch.ValidateRequest(p.req.Version, part.Records); err != nil {
		return at, err
	}
	switch {
	case !validAcks(p.req.Acks):
		return at, kafkaerr.InvalidRequiredAcks
	case metadata.IsInternalTopic(name) && p.call.request.ClientID != adminClientID:
		return at, kafkaerr.InvalidTopic
	}
	return at, nil
}

func validAcks(acks int16) bool {
	return acks == replica.AcksAll || acks == replica.AcksOne || acks == replica.AcksNone
}

func (p *produceCall) find(image *metadata.Image, topic *kmsg.ProduceRequestTopic, partition int32) (replica.TopicIDPartition, string, error) {
	if p.req.Version < 13 {
		at, err := resolve(image, topic.Topic, partition)
		return at, topic.Topic, err
	}
	at, err := resolveID(image, uuid.UUID(topic.TopicID), partition)
	if err != nil {
		return at, "", err
	}
	return at, image.TopicByID(at.TopicID).Name, nil
}

// add queues an append. A partition named twice keeps its last batch, as in Kafka,
// where requests become maps.
func (p *produceCall) add(at replica.TopicIDPartition, records []byte, place producePlace) {
	for i := range p.append.Partitions {
		if p.append.Partitions[i].TopicIDPartition == at {
			p.append.Partitions[i].Records = records
			p.places[i] = place
			return
		}
	}
	if p.append.Partitions == nil {
		p.append.Partitions = make([]replica.AppendPartition, 0, len(p.req.Topics))
		p.places = make([]producePlace, 0, len(p.req.Topics))
	}
	p.append.Partitions = append(p.append.Partitions, replica.AppendPartition{TopicIDPartition: at, Records: records})
	p.places = append(p.places, place)
}

// fill copies the results of the appends into the answer.
func (p *produceCall) fill() {
	for i := range p.append.Partitions {
		place := p.places[i]
		p.fillOne(&p.resp.Topics[place.topic].Partitions[place.partition], &p.append.Partitions[i].Result)
	}
}

func (p *produceCall) fillOne(part *kmsg.ProduceResponseTopicPartition, r *replica.AppendResult) {
	part.ErrorCode = kafkaerr.Code(r.Err)
	part.BaseOffset, part.LogAppendTime, part.LogStartOffset = r.BaseOffset, r.LogAppendTimeMs, r.LogStartOffset
	var refused *batch.RecordErrors
	if errors.As(r.Err, &refused) {
		part.ErrorMessage = &refused.Message
		for _, record := range refused.Records {
			e := kmsg.NewProduceResponseTopicPartitionErrorRecord()
			e.RelativeOffset, e.ErrorMessage = record.Index, &record.Message
			part.ErrorRecords = append(part.ErrorRecords, e)
		}
	}
	if p.req.Version >= 10 && errors.Is(r.Err, kafkaerr.NotLeaderOrFollower) {
		part.CurrentLeader.LeaderID, part.CurrentLeader.LeaderEpoch = r.CurrentLeader.ID, r.CurrentLeader.Epoch
		p.addLeaderAddress(r.CurrentLeader.ID)
	}
}

// addLeaderAddress tells the client where the new leader is, so that it need not ask.
func (p *produceCall) addLeaderAddress(id int32) {
	for i := range p.resp.Brokers {
		if p.resp.Brokers[i].NodeID == id {
			return
		}
	}
	host, port, rack, ok := p.h.leaderAddress(p.call, id)
	if ok {
		b := kmsg.NewProduceResponseBroker()
		b.NodeID, b.Host, b.Port, b.Rack = id, host, port, rack
		p.resp.Brokers = append(p.resp.Brokers, b)
	}
}

// refuseAll answers every partition with the same error.
func (p *produceCall) refuseAll(err error) {
	for i := range p.req.Topics {
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic, topic.TopicID = p.req.Topics[i].Topic, p.req.Topics[i].TopicID
		for j := range p.req.Topics[i].Partitions {
			part := newProduceAnswer(p.req.Topics[i].Partitions[j].Partition)
			part.ErrorCode, part.ErrorMessage = kafkaerr.Code(err), kafkaerr.Message(err)
			topic.Partitions = append(topic.Partitions, part)
		}
		p.resp.Topics = append(p.resp.Topics, topic)
	}
}

// outcome is the finished answer.
func (p *produceCall) outcome() wire.Outcome {
	if p.req.Acks != replica.AcksNone {
		return wire.Outcome{Response: encode(p.call, p.resp)}
	}
	if err := p.firstError(); err != nil {
		return wire.Outcome{Close: err}
	}
	return wire.Outcome{NoResponse: true}
}

func (p *produceCall) firstError() error {
	for i := range p.resp.Topics {
		for j := range p.resp.Topics[i].Partitions {
			if part := &p.resp.Topics[i].Partitions[j]; part.ErrorCode != 0 {
				return fmt.Errorf("%w: partition %d of topic %q: code %d", errUnanswered, part.Partition, p.resp.Topics[i].Topic, part.ErrorCode)
			}
		}
	}
	return nil
}

// errUnanswered is why a connection is closed after a failed acks=0 request.
var errUnanswered = errors.New("produce with acks=0 failed")

func newProduceAnswer(partition int32) kmsg.ProduceResponseTopicPartition {
	part := kmsg.NewProduceResponseTopicPartition()
	part.Partition = partition
	part.BaseOffset, part.LogAppendTime, part.LogStartOffset = -1, -1, -1
	return part
}

// hasTransactionalRecords looks at the flags of the first batch of each partition.
func hasTransactionalRecords(req *kmsg.ProduceRequest) bool {
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			if v := batch.View(req.Topics[i].Partitions[j].Records); len(v) >= batch.HeaderSize && v.Magic() == 2 && v.IsTransactional() {
				return true
			}
		}
	}
	return false
}
