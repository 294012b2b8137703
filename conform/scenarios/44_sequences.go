package scenarios

import (
	"fmt"
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

// configSequences are changes that build on each other.
func configSequences() []conform.Scenario {
	all := []conform.Scenario{
		{Name: "incrementalalterconfigs/places", Key: 44, Needs: []int16{32}, Invasive: true, Alone: true, Run: changePlaces},
	}
	for seed := range uint64(4) {
		all = append(all, conform.Scenario{
			Name: fmt.Sprintf("incrementalalterconfigs/drawn-%d", seed), Key: 44, Needs: []int16{32, 33},
			Run: func(r *conform.R) { drawChanges(r, rand.New(rand.NewPCG(seed, 44))) },
		})
	}
	return all
}

// changePlaces sets one value in every place that it can have, makes topics meanwhile, and
// takes the places away again from the top.
func changePlaces(r *conform.R) {
	node := nodeName(r)
	r.CreateTopic("before", 1)
	look := func(when string, topics ...string) {
		for _, t := range topics {
			r.Send(when+": topic "+t, everything(configsOf(resource(topicResource, r.Name(t), "segment.ms"))))
		}
		r.Send(when+": broker", everything(configsOf(resource(brokerResource, node, "log.roll.ms", "log.roll.hours"))))
		r.Send(when+": all brokers", everything(configsOf(resource(brokerResource, "", "log.roll.ms"))))
	}
	apply := func(title string, kind kmsg.ConfigResourceType, name string, op operation, topic, value string) {
		r.Send(title, change(kind, name, op))
		awaitConfig(r, topicResource, r.Name(topic), "segment.ms", value)
	}
	r.OnlyConfigs("segment.ms", "log.roll.ms", "log.roll.hours")
	apply("all brokers", brokerResource, "", operation{set, "log.roll.ms", of("86400001")}, "before", "86400001")
	look("all brokers", "before")
	createAndShow(r, "second")
	apply("topic", topicResource, r.Name("before"), operation{set, "segment.ms", of("86400002")}, "before", "86400002")
	apply("one broker", brokerResource, node, operation{set, "log.roll.ms", of("86400003")}, "second", "86400003")
	look("one broker", "before", "second")
	createAndShow(r, "third")
	apply("topic no more", topicResource, r.Name("before"), operation{remove, "segment.ms", nil}, "before", "86400003")
	look("topic no more", "before", "third")
	apply("one broker no more", brokerResource, node, operation{remove, "log.roll.ms", nil}, "before", "86400001")
	look("one broker no more", "before", "second", "third")
	apply("all brokers no more", brokerResource, "", operation{remove, "log.roll.ms", nil}, "before", "604800000")
	look("all brokers no more", "before", "second", "third")
}

// createAndShow makes a topic and shows with which configuration.
func createAndShow(r *conform.R, name string) {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = latest(19), 20_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = r.Name(name), 1, 1
	req.Topics = append(req.Topics, topic)
	r.Owns(name)
	r.Send("create "+name, req)
	r.AwaitTopic(name, 1)
}

// drawnKeys are keys with values of which some are refused, alone or together.
var drawnKeys = []struct {
	key    string
	values []string
}{
	{"cleanup.policy", []string{"compact", "delete", "compact,delete", "", " compact , delete", "delete,delete", "x"}},
	{"retention.ms", []string{"5", "-1", "-2", "x"}},
	{"min.compaction.lag.ms", []string{"0", "10", "20"}},
	{"max.compaction.lag.ms", []string{"1", "15", "30"}},
	{"compression.type", []string{"gzip", "producer", "GZIP"}},
	{"leader.replication.throttled.replicas", []string{"0:1", "*", "1:1,0:1", "0:1,0:1", "x", ""}},
	{"segment.bytes", []string{"1048576", "1", " 2097152 "}},
	{"no.such", []string{"1"}},
}

// drawChanges changes a topic again and again, and looks after each change. One key more
// tells when the change before it has come to the broker.
func drawChanges(r *conform.R, rnd *rand.Rand) {
	r.CreateTopic("t", 1)
	t := r.Name("t")
	var shown []string
	for _, k := range drawnKeys {
		shown = append(shown, k.key)
	}
	r.OnlyConfigs(shown...)
	for i := range 30 {
		if rnd.IntN(6) == 0 {
			r.Send(fmt.Sprintf("%d: replace", i), alter(int16(rnd.IntN(3)), topicResource, t, drawSettings(rnd)...))
		} else {
			r.Send(fmt.Sprintf("%d: change", i), change(topicResource, t, drawOperations(rnd)...))
		}
		mark := fmt.Sprint(1000 + i)
		r.Quiet(change(topicResource, t, operation{set, "segment.index.bytes", &mark}))
		r.OnlyConfigs()
		awaitConfig(r, topicResource, t, "segment.index.bytes", mark)
		r.OnlyConfigs(shown...)
		req := configsOf(resource(topicResource, t))
		req.IncludeSynonyms = true
		r.Send(fmt.Sprintf("%d: after", i), req)
	}
}

func drawSettings(rnd *rand.Rand) (settings []string) {
	for _, i := range rnd.Perm(len(drawnKeys))[:rnd.IntN(3)] {
		k := drawnKeys[i]
		settings = append(settings, k.key, k.values[rnd.IntN(len(k.values))])
	}
	return settings
}

func drawOperations(rnd *rand.Rand) (ops []operation) {
	for _, i := range rnd.Perm(len(drawnKeys))[:1+rnd.IntN(3)] {
		k := drawnKeys[i]
		op := operation{set, k.key, of(k.values[rnd.IntN(len(k.values))])}
		switch rnd.IntN(6) {
		case 0:
			op.op, op.value = remove, nil
		case 1:
			op.op = appendTo
		case 2:
			op.op = subtract
		}
		ops = append(ops, op)
	}
	return ops
}
