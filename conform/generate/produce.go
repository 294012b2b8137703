package generate

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// written is one partition of a Produce.
type written struct {
	at place
	payload
}

func (w written) String() string { return fmt.Sprintf("%v %s", w.at, w.text) }

// drawProduce writes to one to three partitions; one may be named twice.
func drawProduce(d dice) Step {
	version := d.version(0)
	acks := int16(-1)
	switch {
	case d.in(15):
		acks = 1
	case d.in(4):
		acks = pick(d, int16(0), -2, 2)
	}
	var all []written
	var texts []string
	for range pick(d, 1, 1, 1, 1, 2, 3) {
		w := written{d.place(), drawPayload(d)}
		all = append(all, w)
		texts = append(texts, w.String())
	}
	text := fmt.Sprintf("produce v%d acks %d: %s", version, acks, strings.Join(texts, ", "))
	return Step{Text: text, do: func(p *player, label string) {
		req := kmsg.NewPtrProduceRequest()
		req.Version, req.Acks, req.TimeoutMillis = version, acks, 5000
		for _, w := range all {
			part := kmsg.NewProduceRequestTopicPartition()
			part.Partition, part.Records = w.at.partition, w.bytes(p, w.at)
			topic := produceTopic(p, req, w.at.topic)
			topic.Partitions = append(topic.Partitions, part)
		}
		if acks == 0 {
			p.r.SendWithoutAnswer("main", label, req)
			p.lookAtEnds(label, all)
			return
		}
		if resp, ok := p.r.Send(label, req).(*kmsg.ProduceResponse); ok {
			p.acknowledged(resp, all)
		}
	}}
}

// produceTopic is the topic's place in the request: partitions of one topic stand
// together, as clients send them.
func produceTopic(p *player, req *kmsg.ProduceRequest, slot string) *kmsg.ProduceRequestTopic {
	topic := kmsg.NewProduceRequestTopic()
	if req.Version >= 13 {
		topic.TopicID = p.r.TopicID(slot)
	} else {
		topic.Topic = p.r.Name(slot)
	}
	for i := range req.Topics {
		if req.Topics[i].Topic == topic.Topic && req.Topics[i].TopicID == topic.TopicID {
			return &req.Topics[i]
		}
	}
	req.Topics = append(req.Topics, topic)
	return &req.Topics[len(req.Topics)-1]
}

// acknowledged learns offsets, and lets producers go on, where a partition was named once.
func (p *player) acknowledged(resp *kmsg.ProduceResponse, all []written) {
	times := map[place]int{}
	for _, w := range all {
		times[w.at]++
	}
	for _, w := range all { // in the order of the request: that of the answer means nothing
		part, ok := p.answerTo(resp, w.at)
		if !ok || part.ErrorCode != 0 || times[w.at] > 1 {
			continue
		}
		p.ends[w.at] = max(p.ends[w.at], part.BaseOffset+int64(w.count))
		if w.accepted != nil {
			w.accepted(p, w.at)
		}
	}
}

func (p *player) answerTo(resp *kmsg.ProduceResponse, at place) (part kmsg.ProduceResponseTopicPartition, ok bool) {
	for _, topic := range resp.Topics {
		if p.slotOf(topic.Topic, topic.TopicID) != at.topic {
			continue
		}
		for _, part := range topic.Partitions {
			if part.Partition == at.partition {
				return part, true
			}
		}
	}
	return part, false
}

// lookAtEnds asks for the ends of partitions after a write that is not answered. The
// connection may be closed by now; the answer comes after whatever was written.
func (p *player) lookAtEnds(label string, all []written) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = 7, -1
	for _, w := range all {
		topic := kmsg.NewListOffsetsRequestTopic()
		topic.Topic = p.r.Name(w.at.topic)
		part := kmsg.NewListOffsetsRequestTopicPartition()
		part.Partition, part.Timestamp = w.at.partition, -1
		topic.Partitions = append(topic.Partitions, part)
		req.Topics = append(req.Topics, topic)
	}
	resp, ok := p.r.Send(label+", ends", req).(*kmsg.ListOffsetsResponse)
	if !ok {
		return
	}
	for _, topic := range resp.Topics {
		for _, part := range topic.Partitions {
			if slot := p.slotOf(topic.Topic, [16]byte{}); slot != "" && part.ErrorCode == 0 {
				p.ends[place{slot, part.Partition}] = part.Offset
			}
		}
	}
}
