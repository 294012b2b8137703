package generate

import (
	"fmt"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

// slots are the topics that a sequence works on. They come and go.
var slots = []string{"t0", "t1", "t2"}

// place is a partition of a slot.
type place struct {
	topic     string
	partition int32
}

func (at place) String() string { return fmt.Sprintf("%s/%d", at.topic, at.partition) }

// place draws a partition, of all those that may be there and of some that are not.
func (d dice) place() place {
	at := place{pick(d, slots...), int32(d.IntN(2))}
	switch {
	case d.in(4):
		at.partition = pick(d, int32(-1), 7, math.MaxInt32)
	case d.in(3):
		at.topic = pick(d, "none", "=", "=a b")
	}
	return at
}

// player is what a sequence has learned on one broker.
type player struct {
	r         *conform.R
	topics    map[string]int32 // partitions of the slots that exist
	recoded   map[string]bool  // the slot's broker compresses, each with a library of its own
	stamped   map[string]bool  // the slot's broker sets the times, and many records may share one
	ends      map[place]int64  // offset behind the last acknowledged record
	producers []*producer
	sessions  [2]session
	groups    map[string]bool
	marks     int // alterations of configurations that were waited for
}

// producer is an idempotent producer.
type producer struct {
	id    int64
	epoch int16
	next  map[place]int32 // its next sequence number
	last  map[place]sent
}

// sent is a batch that was acknowledged.
type sent struct {
	sequence int32
	count    int
}

// session is an incremental fetch session.
type session struct{ id, epoch int32 }

const producers = 3

func newPlayer(r *conform.R) *player {
	p := &player{r: r, topics: map[string]int32{}, recoded: map[string]bool{}, stamped: map[string]bool{}, ends: map[place]int64{}, groups: map[string]bool{}}
	for range producers {
		resp := r.Quiet(kmsg.NewPtrInitProducerIDRequest()).(*kmsg.InitProducerIDResponse)
		if resp.ErrorCode != 0 {
			r.Fail("InitProducerId answers %d", resp.ErrorCode)
		}
		p.producers = append(p.producers, newProducer(resp.ProducerID, resp.ProducerEpoch))
	}
	return p
}

func newProducer(id int64, epoch int16) *producer {
	return &producer{id: id, epoch: epoch, next: map[place]int32{}, last: map[place]sent{}}
}

// appeared notes a topic that was created, and waits until its partitions answer.
func (p *player) appeared(topic string, partitions int32) {
	p.r.Owns(topic)
	p.r.AwaitTopic(topic, partitions)
	p.r.LearnTopic(topic)
	p.topics[topic] = partitions
}

// vanished notes a topic that was deleted, and waits until the broker knows.
func (p *player) vanished(topic string) {
	name := p.r.Name(topic)
	p.r.Until(topic+" gone", func() kmsg.Request {
		req := kmsg.NewPtrMetadataRequest()
		req.Version, req.AllowAutoTopicCreation = 4, false
		req.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
		return req
	}, func(resp kmsg.Response) bool { return resp.(*kmsg.MetadataResponse).Topics[0].ErrorCode == 3 })
	p.r.Until("partitions of "+topic+" gone", func() kmsg.Request { // which metadata may know before they are
		req := kmsg.NewPtrListOffsetsRequest()
		req.Version, req.ReplicaID = 7, -1
		of := kmsg.NewListOffsetsRequestTopic()
		of.Topic = name
		for partition := range p.topics[topic] {
			part := kmsg.NewListOffsetsRequestTopicPartition()
			part.Partition, part.Timestamp = partition, -1
			of.Partitions = append(of.Partitions, part)
		}
		req.Topics = append(req.Topics, of)
		return req
	}, func(resp kmsg.Response) bool {
		return !slices.ContainsFunc(resp.(*kmsg.ListOffsetsResponse).Topics, func(t kmsg.ListOffsetsResponseTopic) bool {
			return slices.ContainsFunc(t.Partitions, func(p kmsg.ListOffsetsResponseTopicPartition) bool { return p.ErrorCode != 3 })
		})
	})
	for group := range p.groups { // offsets are deleted a while after their topic
		p.r.Until("offsets of "+topic+" gone", func() kmsg.Request { return offsetFetch(p, 7, group, nil, true) },
			func(resp kmsg.Response) bool {
				return !slices.ContainsFunc(resp.(*kmsg.OffsetFetchResponse).Topics,
					func(t kmsg.OffsetFetchResponseTopic) bool { return t.Topic == name })
			})
	}
	delete(p.topics, topic)
	for at := range p.ends {
		if at.topic == topic {
			delete(p.ends, at)
		}
	}
}

// position is a way to name an offset of a partition whose end is known.
type position string

// offset draws a position.
func (d dice) position() position {
	return pick(d, position("start"), "start", "start", "end", "end", "end", "second", "last", "beyond", "far", "negative")
}

func (p *player) offset(at place, of position) int64 {
	switch end := p.ends[at]; of {
	case "second":
		return 1
	case "end":
		return end
	case "last":
		return max(0, end-1)
	case "beyond":
		return end + 1
	case "far":
		return math.MaxInt64
	case "negative":
		return -1
	}
	return 0
}

// time is a time to look for, in Unix milliseconds or one of the special ones below zero.
// Which of several records of the newest millisecond comes first is chance where the
// broker sets the times.
func (p *player) time(at place, time int64) int64 {
	const newest, end = -3, -1
	if time == newest && p.stamped[at.topic] {
		return end
	}
	return time
}

// slotOf is the slot of a topic's real name or id in an answer, "" if it is none.
func (p *player) slotOf(name string, id [16]byte) string {
	for _, slot := range slots {
		if name == p.r.Name(slot) || name == "" && id == p.r.TopicID(slot) && id != [16]byte{} {
			return slot
		}
	}
	return ""
}
