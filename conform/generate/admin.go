package generate

import (
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// alterations are settings of a topic that do not change the answers of other steps: a
// log learns of them a moment after they are answered.
var alterations = [][2]string{
	{"flush.messages", "1"},
	{"flush.messages", "0"},
	{"flush.ms", "1000"},
	{"index.interval.bytes", "0"},
	{"index.interval.bytes", "-1"},
	{"segment.index.bytes", "1048576"},
	{"segment.index.bytes", "x"},
	{"segment.jitter.ms", "0"},
	{"segment.jitter.ms", "-1"},
	{"file.delete.delay.ms", "60000"},
	{"preallocate", "true"},
	{"preallocate", "maybe"},
	{"unclean.leader.election.enable", "true"},
	{"delete.retention.ms", "5"},
	{"min.cleanable.dirty.ratio", "0.3"},
	{"min.cleanable.dirty.ratio", "1.5"},
	{"no.such.key", "x"},
	{"leader.replication.throttled.replicas", "*"},
	{"leader.replication.throttled.replicas", "0:1"},
	{"follower.replication.throttled.replicas", "1:1,0:1"},
	{"follower.replication.throttled.replicas", "x"},
	{"max.compaction.lag.ms", "1"},
	{"min.compaction.lag.ms", "2"},
	{"min.compaction.lag.ms", ""},
}

// marker is set to another value after each alteration. When that is seen, so is all that
// was altered before.
const marker = "segment.ms"

// noSuchOp is none of set, delete, append and subtract.
const noSuchOp = 9

func drawAlterConfigs(d dice) Step {
	version, topic, only := d.version(44), pick(d, append(slots, "none", "=")...), d.in(10)
	type alteration struct {
		setting [2]string
		op      kmsg.IncrementalAlterConfigOp
		null    bool
	}
	var all []alteration
	for range pick(d, 1, 1, 2, 3) {
		all = append(all, alteration{pick(d, alterations...), kmsg.IncrementalAlterConfigOp(pick(d, 0, 0, 0, 1, 1, 2, 3, noSuchOp)), d.in(8)})
	}
	for _, a := range all { // which of two faults Kafka meets first is up to Java's hash maps
		if a.op == noSuchOp {
			all = all[:1]
			all[0] = a
			break
		}
	}
	text := fmt.Sprintf("alter configs v%d %s validate only %v: %v", version, topic, only, all)
	return Step{Text: text, do: func(p *player, label string) {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Version, req.ValidateOnly = version, only
		resource := kmsg.NewIncrementalAlterConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, p.r.Name(topic)
		for _, a := range all {
			config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			config.Name, config.Op = a.setting[0], a.op
			if !a.null {
				config.Value = &a.setting[1]
			}
			resource.Configs = append(resource.Configs, config)
		}
		req.Resources = append(req.Resources, resource)
		resp, ok := p.r.Send(label, req).(*kmsg.IncrementalAlterConfigsResponse)
		if ok && !only && p.topics[topic] > 0 && len(resp.Resources) == 1 && resp.Resources[0].ErrorCode == 0 {
			p.altered(topic)
		}
	}}
}

// altered waits until the broker knows of what was altered.
func (p *player) altered(topic string) {
	p.marks++
	value := strconv.Itoa(1_000_000_000 + p.marks)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = marker, &value
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, p.r.Name(topic)
	resource.Configs = append(resource.Configs, config)
	req.Resources = append(req.Resources, resource)
	p.r.Quiet(req)
	p.r.Until(marker+" of "+topic, func() kmsg.Request { return describeTopic(p, 4, topic, marker) }, func(resp kmsg.Response) bool {
		of := resp.(*kmsg.DescribeConfigsResponse).Resources[0].Configs
		return len(of) == 1 && of[0].Value != nil && *of[0].Value == value
	})
}

func describeTopic(p *player, version int16, topic string, keys ...string) *kmsg.DescribeConfigsRequest {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version, req.IncludeSynonyms = version, true
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.ConfigNames = kmsg.ConfigResourceTypeTopic, p.r.Name(topic), keys
	req.Resources = append(req.Resources, resource)
	return req
}

func drawDescribeConfigs(d dice) Step {
	version, topic := d.version(32), pick(d, append(slots, "none", "=")...)
	synonyms, documentation := d.in(60), d.in(30)
	var keys []string
	for range pick(d, 1, 2, 3) {
		keys = append(keys, pick(d, alterations...)[0])
	}
	text := fmt.Sprintf("describe configs v%d %s synonyms %v documentation %v: %v", version, topic, synonyms, documentation, keys)
	return Step{Text: text, do: func(p *player, label string) {
		req := describeTopic(p, version, topic, keys...)
		req.IncludeSynonyms, req.IncludeDocumentation = synonyms, documentation
		p.r.Send(label, req)
	}}
}

// drawCreatePartitions lets a topic grow, or asks for what cannot be.
func drawCreatePartitions(d dice) Step {
	version, topic, only := d.version(37), pick(d, append(slots, "none", "=")...), d.in(15)
	count := int32(pick(d, 2, 2, 3, 1, 0, -1))
	assigned := pick(d, 0, 0, 0, 1, 2)
	text := fmt.Sprintf("create partitions v%d %s validate only %v: %d, %d assigned", version, topic, only, count, assigned)
	return Step{Text: text, do: func(p *player, label string) {
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.Version, req.ValidateOnly, req.TimeoutMillis = version, only, 20_000
		of := kmsg.NewCreatePartitionsRequestTopic()
		of.Topic, of.Count = p.r.Name(topic), count
		for range assigned {
			of.Assignment = append(of.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: []int32{p.r.Node(0)}})
		}
		req.Topics = append(req.Topics, of)
		resp, ok := p.r.Send(label, req).(*kmsg.CreatePartitionsResponse)
		if ok && !only && len(resp.Topics) == 1 && resp.Topics[0].ErrorCode == 0 {
			p.topics[topic] = count
			p.r.AwaitTopic(topic, count)
		}
	}}
}
