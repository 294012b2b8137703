package handlers

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// produceAnswer is the answer to a Produce request as it grows. Each topic is in it once,
// and each partition, however often the request names them, as in Kafka.
type produceAnswer struct {
	resp  kmsg.ProduceResponse
	count int          // of partitions
	index produceIndex // nil while there are few

	// one is room for the usual answer.
	one struct {
		topic [1]kmsg.ProduceResponseTopic
		part  [1]kmsg.ProduceResponseTopicPartition
	}
}

// producePlace is a partition's position in the answer.
type producePlace struct{ topic, partition int }

// fewPartitions is how many are looked through one by one. Beyond it there is an index,
// so that a request that names very many does not cost the square of that.
const fewPartitions = 32

// produceIndex finds topics and partitions in a long answer.
type produceIndex map[produceKey]producePlace

// produceKey names a partition as requests do, by name or by id.
type produceKey struct {
	topic     string
	id        uuid.UUID
	partition int64 // wholeTopic: the place is the topic's
}

// wholeTopic is no partition that a request can name.
const wholeTopic = int64(1) << 32

func (a *produceAnswer) init(version int16) {
	a.resp.Version = version
	a.resp.Topics = a.one.topic[:0]
}

// at is the answer of a partition; valid until the next call of place.
func (a *produceAnswer) at(p producePlace) *kmsg.ProduceResponseTopicPartition {
	return &a.resp.Topics[p.topic].Partitions[p.partition]
}

// place finds the place of a partition, or makes one whose answer is success with no
// offset; again says that the request has named it before.
func (a *produceAnswer) place(topic *kmsg.ProduceRequestTopic, partition int32) (p producePlace, again bool) {
	key := produceKey{topic: topic.Topic, id: topic.TopicID, partition: int64(partition)}
	if p, again = a.find(key); again {
		return p, true
	}
	if a.count == fewPartitions {
		a.makeIndex()
	}
	if p.topic == len(a.resp.Topics) {
		t := kmsg.ProduceResponseTopic{Topic: topic.Topic, TopicID: topic.TopicID}
		if p.topic == 0 {
			t.Partitions = a.one.part[:0]
		}
		a.resp.Topics = append(a.resp.Topics, t)
	}
	t := &a.resp.Topics[p.topic]
	p.partition = len(t.Partitions)
	t.Partitions = append(t.Partitions, newProduceAnswer(partition))
	a.count++
	if a.index != nil {
		a.index.add(key, p)
	}
	return p, false
}

// find returns the place of a partition; if there is none yet, that of its topic, which
// may be one after the last.
func (a *produceAnswer) find(key produceKey) (p producePlace, ok bool) {
	if a.index != nil {
		return a.index.find(key, len(a.resp.Topics))
	}
	for i := range a.resp.Topics {
		t := &a.resp.Topics[i]
		if t.Topic != key.topic || t.TopicID != key.id {
			continue
		}
		for j := range t.Partitions {
			if int64(t.Partitions[j].Partition) == key.partition {
				return producePlace{i, j}, true
			}
		}
		return producePlace{topic: i}, false
	}
	return producePlace{topic: len(a.resp.Topics)}, false
}

func (a *produceAnswer) makeIndex() {
	a.index = make(produceIndex, 4*fewPartitions)
	for i := range a.resp.Topics {
		t := &a.resp.Topics[i]
		for j := range t.Partitions {
			a.index.add(produceKey{t.Topic, t.TopicID, int64(t.Partitions[j].Partition)}, producePlace{i, j})
		}
	}
}

func (x produceIndex) add(key produceKey, p producePlace) {
	x[key] = p
	key.partition = wholeTopic
	x[key] = producePlace{topic: p.topic}
}

func (x produceIndex) find(key produceKey, nextTopic int) (p producePlace, ok bool) {
	if p, ok = x[key]; ok {
		return p, true
	}
	key.partition = wholeTopic
	if p, ok = x[key]; ok {
		return p, false
	}
	return producePlace{topic: nextTopic}, false
}

// refuse makes the answer one error for every partition.
func (a *produceAnswer) refuse(req *kmsg.ProduceRequest, err error) {
	code, message := kafkaerr.Code(err), requestMessage(err)
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			p, _ := a.place(&req.Topics[i], req.Topics[i].Partitions[j].Partition)
			part := a.at(p)
			part.ErrorCode, part.ErrorMessage = code, message
		}
	}
}

// requestMessage is the text that goes with an error of a whole request: none if it says
// no more than the code, nor where it would tell of the broker's inside
// (ApiError.fromThrowable).
func requestMessage(err error) *string {
	var kind *kafkaerr.Kind
	if kafkaerr.Code(err) == kafkaerr.UnknownServerErrorCode || errors.As(err, &kind) && err.Error() == kind.Error() {
		return nil
	}
	return kafkaerr.Message(err)
}

// firstError is why a request without an answer has failed, nil if it has not.
func (a *produceAnswer) firstError() error {
	for i := range a.resp.Topics {
		for j := range a.resp.Topics[i].Partitions {
			if part := &a.resp.Topics[i].Partitions[j]; part.ErrorCode != 0 {
				return fmt.Errorf("%w: partition %d of topic %q: code %d", errUnanswered, part.Partition, a.resp.Topics[i].Topic, part.ErrorCode)
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
