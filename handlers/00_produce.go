package handlers

import (
	"context"
	"errors"
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
//
// Some faults of one partition fail the whole request, since Kafka meets them before it
// looks at single partitions: see produceCall.refusal and resolve.

// adminClientID may write to internal topics, as in Kafka.
const adminClientID = "__admin_client"

// produceCall is a Produce request on its way.
type produceCall struct {
	h        *Handlers
	call     call
	req      *kmsg.ProduceRequest
	answer   produceAnswer
	append   replica.AppendRequest
	places   []producePlace       // in the answer, of append.Partitions, same order
	queued   map[producePlace]int // index in places; nil until a partition is named again
	wait     wire.Pending         // the second stage, if there is one
	forBytes time.Duration        // for how long the client has to pause because of them

	// one is room for what the usual request has, one partition.
	one struct {
		append [1]replica.AppendPartition
		place  [1]producePlace
	}
}

func (h *Handlers) produce(_ context.Context, c call, req *kmsg.ProduceRequest) wire.Outcome {
	p := &produceCall{h: h, call: c, req: req}
	p.answer.init(req.Version)
	err := p.refusal()
	if err == nil {
		err = p.resolve()
	}
	if err != nil {
		p.answer.refuse(req, err)
		return p.outcome()
	}
	p.chargeBytes()
	if len(p.append.Partitions) == 0 {
		return p.outcome()
	}
	p.append.Acks, p.append.RequestVersion = req.Acks, req.Version
	p.append.Timeout = h.config.wait(req.TimeoutMillis)
	p.append.Done, p.append.Of = produceDone, p
	if !h.replicas.Append(&p.append) {
		c.request.Park()
		c.request.FreeBody() // the records are in the log; what is answered was copied
		return wire.Outcome{Pending: &p.wait, Mute: p.forBytes}
	}
	p.fill()
	return p.outcome()
}

// produceDone is the second stage's end.
func produceDone(a *replica.AppendRequest) {
	p := a.Of.(*produceCall)
	p.fill()
	p.wait.Complete(p.outcome())
}

// refusal is what refuses the request without a look at its partitions: a first batch
// that is none, or one of a transaction (RequestUtils.hasTransactionalRecords).
func (p *produceCall) refusal() error {
	for i := range p.req.Topics {
		for j := range p.req.Topics[i].Partitions {
			txn, err := batch.FirstIsTransactional(p.req.Topics[i].Partitions[j].Records)
			if err != nil {
				return err
			}
			if txn {
				return kafkaerr.TransactionalIDAuthorizationFailed
			}
		}
	}
	return nil
}

// resolve gives every partition its place in the answer, and those that may be appended
// to their place in the append request. An error refuses the whole request.
func (p *produceCall) resolve() error {
	image := p.h.image()
	p.append.Partitions, p.places = p.one.append[:0], p.one.place[:0]
	for i := range p.req.Topics {
		topic := &p.req.Topics[i]
		for j := range topic.Partitions {
			part := &topic.Partitions[j]
			at, err := p.check(image, topic, part)
			if kafkaerr.Code(err) == kafkaerr.UnknownServerErrorCode {
				return err
			}
			place, again := p.answer.place(topic, part.Partition)
			if err != nil {
				p.refuseOne(p.answer.at(place), err)
				continue
			}
			p.add(at, part.Records, place, again)
			part.Records = nil // or the frame would live as long as the wait
		}
	}
	return nil
}

// refuseOne answers a partition that is not appended to. Where a partition is named twice,
// what is wrong with the bytes of one batch counts for more than what the log would have
// said to the other (KafkaApis merges the answers in that order).
func (p *produceCall) refuseOne(part *kmsg.ProduceResponseTopicPartition, err error) {
	late := errors.Is(err, kafkaerr.InvalidRequiredAcks) || errors.Is(err, kafkaerr.InvalidTopic)
	if part.ErrorCode == 0 || !late {
		part.ErrorCode = kafkaerr.Code(err)
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

// add queues an append. A partition named again keeps its last batch, as in Kafka, where
// requests become maps.
func (p *produceCall) add(at replica.TopicIDPartition, records []byte, place producePlace, again bool) {
	if again {
		if i, ok := p.queuedAt(place); ok {
			p.append.Partitions[i].Records = records
			return
		}
	}
	if p.queued != nil {
		p.queued[place] = len(p.places)
	}
	p.append.Partitions = append(p.append.Partitions, replica.AppendPartition{TopicIDPartition: at, Records: records})
	p.places = append(p.places, place)
}

// queuedAt finds the append that answers to a place.
func (p *produceCall) queuedAt(place producePlace) (i int, ok bool) {
	if p.queued == nil {
		p.queued = make(map[producePlace]int, 2*len(p.places))
		for i := range p.places {
			p.queued[p.places[i]] = i
		}
	}
	i, ok = p.queued[place]
	return i, ok
}

// fill copies the results of the appends into the answer. An error that is there already
// is that of another naming of the same partition, and stands, as in Kafka.
func (p *produceCall) fill() {
	for i := range p.append.Partitions {
		if part := p.answer.at(p.places[i]); part.ErrorCode == 0 {
			p.fillOne(part, &p.append.Partitions[i].Result)
		}
	}
}

func (p *produceCall) fillOne(part *kmsg.ProduceResponseTopicPartition, r *replica.AppendResult) {
	part.ErrorCode = kafkaerr.Code(r.Err)
	part.BaseOffset, part.LogAppendTime, part.LogStartOffset = r.BaseOffset, r.LogAppendTimeMs, r.LogStartOffset
	if r.Err == nil {
		return
	}
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
	for i := range p.answer.resp.Brokers {
		if p.answer.resp.Brokers[i].NodeID == id {
			return
		}
	}
	host, port, rack, ok := p.h.leaderAddress(p.call, id)
	if ok {
		b := kmsg.NewProduceResponseBroker()
		b.NodeID, b.Host, b.Port, b.Rack = id, host, port, rack
		p.answer.resp.Brokers = append(p.answer.resp.Brokers, b)
	}
}

// outcome is the finished answer.
func (p *produceCall) outcome() wire.Outcome {
	pause := p.pause()
	if p.req.Acks != replica.AcksNone {
		p.answer.resp.ThrottleMillis = throttleMillis(pause)
		return wire.Outcome{Response: encode(p.call, &p.answer.resp), Mute: pause, Sent: p.h.chargeSending(p.call)}
	}
	if err := p.answer.firstError(); err != nil {
		return wire.Outcome{Close: err}
	}
	return wire.Outcome{NoResponse: true, Mute: pause}
}
