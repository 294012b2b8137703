package generate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// wanted is a topic to create.
type wanted struct {
	topic       string
	partitions  int32
	replication int16
	assigned    bool
	configs     [][2]string
}

func (w wanted) String() string {
	return fmt.Sprintf("%s×%d replicas %d assigned %v %v", w.topic, w.partitions, w.replication, w.assigned, w.configs)
}

// settings are configurations of topics, right and wrong ones.
var settings = [][2]string{
	{"compression.type", "gzip"},
	{"compression.type", "zstd"},
	{"compression.type", "lz4"},
	{"compression.type", "snappy"},
	{"compression.type", "uncompressed"},
	{"compression.type", "rot13"},
	{"message.timestamp.type", "LogAppendTime"},
	{"message.timestamp.type", "CreateTime"},
	{"message.timestamp.type", ""},
	{"max.message.bytes", "500"},
	{"max.message.bytes", "0"},
	{"max.message.bytes", "-1"},
	{"cleanup.policy", "compact"},
	{"cleanup.policy", "compact,delete"},
	{"cleanup.policy", "none"},
	{"segment.bytes", "1048576"},
	{"segment.bytes", "14"},
	{"segment.bytes", "lots"},
	{"message.timestamp.before.max.ms", "86400000"},
	{"message.timestamp.after.max.ms", "3600000"},
	{"message.timestamp.after.max.ms", "-5"},
	{"min.insync.replicas", "1"},
	{"min.insync.replicas", "0"},
	{"index.interval.bytes", "0"},
	{"flush.messages", "1"},
	{"no.such.key", "x"},
}

// forever keeps the retention of old timestamps out of the comparison: when it runs is
// chance.
var forever = [2]string{"retention.ms", "-1"}

func drawWanted(d dice) wanted {
	w := wanted{topic: pick(d, slots...), partitions: int32(1 + d.IntN(2)), replication: 1, configs: [][2]string{forever}}
	for range pick(d, 0, 0, 1, 1, 2) {
		w.configs = append(w.configs, pick(d, settings...))
	}
	if w.recoded() { // how large a batch is then depends on the library
		w.configs = slices.DeleteFunc(w.configs, func(c [2]string) bool { return c[0] == "max.message.bytes" })
	}
	if d.in(8) {
		w.topic = pick(d, "=", "=..", "=a b", "=a/b", "="+strings.Repeat("a", 250))
	}
	if d.in(12) {
		w.partitions = pick(d, int32(-1), 0, -2)
	}
	if d.in(12) {
		w.replication = pick(d, int16(-1), 0, 2, -2)
	}
	if d.in(8) {
		w.assigned = true
		if d.in(70) {
			w.partitions, w.replication = -1, -1
		}
	}
	return w
}

// recoded reports whether the broker compresses what is written to the topic.
func (w wanted) recoded() bool {
	return slices.ContainsFunc(w.configs, func(c [2]string) bool {
		return c[0] == "compression.type" && c[1] != "uncompressed"
	})
}

// stamped reports whether the broker sets the times of records.
func (w wanted) stamped() bool {
	return slices.Contains(w.configs, [2]string{"message.timestamp.type", "LogAppendTime"})
}

func (w wanted) request(p *player) kmsg.CreateTopicsRequestTopic {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = p.r.Name(w.topic), w.partitions, w.replication
	for _, c := range w.configs {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name, config.Value = c[0], &c[1]
		topic.Configs = append(topic.Configs, config)
	}
	if w.assigned {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Replicas = []int32{p.r.Node(0)}
		topic.ReplicaAssignment = append(topic.ReplicaAssignment, a)
	}
	return topic
}

func drawCreateTopics(d dice) Step {
	var all []wanted
	for range pick(d, 1, 1, 1, 2) {
		all = append(all, drawWanted(d))
	}
	return createTopics(d.version(19), d.in(12), all)
}

// drawGoodTopic is a topic as most are.
func drawGoodTopic(d dice, slot string) Step {
	return createTopics(7, false, []wanted{{slot, int32(1 + d.IntN(2)), 1, false, [][2]string{forever}}})
}

func createTopics(version int16, only bool, all []wanted) Step {
	text := fmt.Sprintf("create topics v%d validate only %v: %v", version, only, all)
	return Step{Text: text, do: func(p *player, label string) {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version, req.TimeoutMillis, req.ValidateOnly = version, 20_000, only
		for _, w := range all {
			req.Topics = append(req.Topics, w.request(p))
		}
		resp, ok := p.r.Send(label, req).(*kmsg.CreateTopicsResponse)
		if !ok || only {
			return
		}
		for _, topic := range resp.Topics {
			slot := p.slotOf(topic.Topic, [16]byte{})
			if topic.ErrorCode == 0 && slot != "" {
				of := wantedOf(all, slot)
				p.recoded[slot], p.stamped[slot] = of.recoded(), of.stamped()
				p.appeared(slot, max(1, of.partitions))
			}
		}
	}}
}

func wantedOf(all []wanted, slot string) wanted {
	return all[slices.IndexFunc(all, func(w wanted) bool { return w.topic == slot })]
}

// drawDeleteTopics deletes by name, or from version 6 on by id.
func drawDeleteTopics(d dice) Step {
	version, byID := d.version(20), d.in(40)
	all := []string{pick(d, slots...)}
	if d.in(25) {
		all = append(all, pick(d, "none", "=", "t0", "t1"))
	}
	text := fmt.Sprintf("delete topics v%d by id %v: %v", version, byID, all)
	return Step{Text: text, do: func(p *player, label string) {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Version, req.TimeoutMillis = version, 20_000
		for _, slot := range all {
			topic := kmsg.NewDeleteTopicsRequestTopic()
			if name := p.r.Name(slot); !byID {
				topic.Topic = &name
			} else {
				topic.TopicID = p.r.TopicID(slot)
			}
			req.Topics = append(req.Topics, topic)
			req.TopicNames = append(req.TopicNames, p.r.Name(slot))
		}
		resp, ok := p.r.Send(label, req).(*kmsg.DeleteTopicsResponse)
		if !ok {
			return
		}
		for _, topic := range resp.Topics {
			if topic.Topic == nil || topic.ErrorCode != 0 {
				continue
			}
			if slot := p.slotOf(*topic.Topic, [16]byte{}); slot != "" {
				p.vanished(slot)
			}
		}
	}}
}

// drawMetadata asks for some topics, by name or by id. It never has them created: when a
// topic that is created that way appears is chance.
func drawMetadata(d dice) Step {
	version := d.version(3)
	byID := version >= 10 && d.in(40)
	var all []string
	for range d.IntN(4) {
		all = append(all, pick(d, append(slots, "none", "=", "=a b", "="+strings.Repeat("x", 250))...))
	}
	operations := d.in(20)
	text := fmt.Sprintf("metadata v%d by id %v operations %v: %v", version, byID, operations, all)
	return Step{Text: text, do: func(p *player, label string) {
		req := kmsg.NewPtrMetadataRequest()
		req.Version, req.AllowAutoTopicCreation = version, false
		if version < 4 && (len(all) == 0 || !p.haveAll(all)) { // which creates topics, or asks for those of others
			req.Version = 4
		}
		req.IncludeTopicAuthorizedOperations = operations
		req.Topics = []kmsg.MetadataRequestTopic{}
		for _, slot := range all {
			topic := kmsg.NewMetadataRequestTopic()
			if name := p.r.Name(slot); !byID {
				topic.Topic = &name
			} else {
				topic.TopicID = p.r.TopicID(slot)
			}
			req.Topics = append(req.Topics, topic)
		}
		p.r.Send(label, req)
	}}
}

func (p *player) haveAll(topics []string) bool {
	return !slices.ContainsFunc(topics, func(topic string) bool { return p.topics[topic] == 0 })
}
