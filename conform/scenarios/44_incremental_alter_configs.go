package scenarios

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func incrementalAlterConfigs() []conform.Scenario {
	return slices.Concat([]conform.Scenario{
		{Name: "incrementalalterconfigs/topic", Key: 44, Needs: []int16{32}, Run: changeTopicConfigs},
		{Name: "incrementalalterconfigs/lists", Key: 44, Needs: []int16{32}, Run: changeLists},
		{Name: "incrementalalterconfigs/refused", Key: 44, Run: changeRefused},
		{Name: "incrementalalterconfigs/several", Key: 44, Needs: []int16{32}, Run: changeSeveral},
		{Name: "incrementalalterconfigs/broker", Key: 44, Run: changeBrokerConfigs},
		{Name: "incrementalalterconfigs/broker-machinery", Key: 44, Run: changeBrokerMachinery},
		{Name: "incrementalalterconfigs/broker-and-back", Key: 44, Needs: []int16{32}, Invasive: true, Alone: true, Run: changeBrokerAndBack},
		{Name: "incrementalalterconfigs/group", Key: 44, Needs: []int16{32}, Run: changeGroupConfigs},
		{Name: "incrementalalterconfigs/client-metrics", Key: 44, Needs: []int16{32}, Run: changeClientMetrics},
	}, configSequences(), changeEachTopicKey(), changeEachGroupKey())
}

// Operations of IncrementalAlterConfigs.
const (
	set      = kmsg.IncrementalAlterConfigOpSet
	remove   = kmsg.IncrementalAlterConfigOpDelete
	appendTo = kmsg.IncrementalAlterConfigOpAppend
	subtract = kmsg.IncrementalAlterConfigOpSubtract
)

func opName(op kmsg.IncrementalAlterConfigOp) string {
	return [...]string{"set", "delete", "append", "subtract"}[op]
}

// operation changes one key.
type operation struct {
	op    kmsg.IncrementalAlterConfigOp
	key   string
	value *string
}

// change is an IncrementalAlterConfigs of one resource.
func change(kind kmsg.ConfigResourceType, name string, ops ...operation) *kmsg.IncrementalAlterConfigsRequest {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version = latest(44)
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kind, name
	for _, op := range ops {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Op, c.Name, c.Value = op.op, op.key, op.value
		res.Configs = append(res.Configs, c)
	}
	req.Resources = append(req.Resources, res)
	return req
}

// validated is a change that is only asked for.
func validated(version int16, req *kmsg.IncrementalAlterConfigsRequest) *kmsg.IncrementalAlterConfigsRequest {
	req.Version, req.ValidateOnly = version, true
	return req
}

func changeTopicConfigs(r *conform.R) {
	r.CreateTopic("t", 1, "segment.ms", "70")
	t := r.Name("t")
	shown := everything(configsOf(resource(topicResource, t, "retention.ms", "segment.ms", "flush.ms")))
	for _, v := range conform.Versions(44) {
		n := fmt.Sprint(1000 + v)
		send := func(title string, ops ...operation) {
			req := change(topicResource, t, ops...)
			req.Version = v
			r.Send(label(v, "%s", title), req)
		}
		send("set two", operation{set, "retention.ms", &n}, operation{set, "flush.ms", &n})
		awaitConfig(r, topicResource, t, "flush.ms", n)
		r.Send(label(v, "after set two"), shown)
		send("set to the same", operation{set, "flush.ms", &n})
		send("set one, delete another", operation{set, "segment.ms", &n}, operation{remove, "flush.ms", nil})
		awaitConfig(r, topicResource, t, "segment.ms", n)
		r.Send(label(v, "after set one, delete another"), shown)
		send("good and bad", operation{set, "flush.ms", of("7")}, operation{set, "segment.ms", of("x")})
		send("delete what is not set", operation{remove, "flush.ms", nil})
		send("delete with a value", operation{remove, "retention.ms", of("ignored")})
		awaitConfig(r, topicResource, t, "retention.ms", "604800000")
		r.Send(label(v, "after delete with a value"), shown)
		send("nothing")
	}
}

// changeLists appends to lists and takes from them.
func changeLists(r *conform.R) {
	r.CreateTopic("t", 1, "cleanup.policy", "compact")
	t := r.Name("t")
	for i, c := range []struct {
		op    kmsg.IncrementalAlterConfigOp
		key   string
		value string
		after string
	}{
		{appendTo, "cleanup.policy", "delete", "compact,delete"},
		{appendTo, "cleanup.policy", "delete", "compact,delete"},
		{subtract, "cleanup.policy", "compact", "delete"},
		{subtract, "cleanup.policy", "compact", "delete"},
		{appendTo, "cleanup.policy", "compact,delete", "delete,compact"},
		{subtract, "cleanup.policy", "delete,compact", ""},
		{set, "cleanup.policy", "compact", "compact"},
		{appendTo, "leader.replication.throttled.replicas", "0:1", "0:1"},
		{appendTo, "leader.replication.throttled.replicas", "1:1,2:1", "0:1,1:1,2:1"},
		{subtract, "leader.replication.throttled.replicas", "1:1", "0:1,2:1"},
		{subtract, "leader.replication.throttled.replicas", "0:1,2:1,3:1", ""},
	} {
		step := fmt.Sprintf("%d: %s %s %q", i, opName(c.op), c.key, c.value)
		r.Send(step, change(topicResource, t, operation{c.op, c.key, &c.value}))
		awaitConfig(r, topicResource, t, c.key, c.after)
		r.Send("after "+step, configsOf(resource(topicResource, t, c.key)))
	}
	r.Send("append a bad policy", change(topicResource, t, operation{appendTo, "cleanup.policy", of("x")}))
	r.Send("append to no list", change(topicResource, t, operation{appendTo, "retention.ms", of("5")}))
	r.Send("subtract from no list", change(topicResource, t, operation{subtract, "retention.ms", of("5")}))
	r.Send("append nothing", change(topicResource, t, operation{appendTo, "cleanup.policy", of("")}))
}

func changeRefused(r *conform.R) {
	r.CreateTopic("t", 1)
	t := r.Name("t")
	five := of("5")
	for _, v := range conform.Versions(44) {
		for _, c := range []struct {
			title string
			req   *kmsg.IncrementalAlterConfigsRequest
		}{
			{"unknown topic", change(topicResource, r.Name("nope"), operation{set, "flush.ms", five})},
			{"unknown topic, nothing to do", change(topicResource, r.Name("nope"))},
			{"empty name", change(topicResource, "", operation{set, "flush.ms", five})},
			{"bad name", change(topicResource, "a b", operation{set, "flush.ms", five})},
			{"cluster's own log", change(topicResource, "__cluster_metadata", operation{set, "flush.ms", five})},
			{"unknown key", change(topicResource, t, operation{set, "no.such", five})},
			{"delete an unknown key", change(topicResource, t, operation{remove, "no.such", nil})},
			{"append to an unknown key", change(topicResource, t, operation{appendTo, "no.such", five})},
			{"empty key", change(topicResource, t, operation{set, "", five})},
			{"bad value", change(topicResource, t, operation{set, "flush.ms", of("x")})},
			{"set null", change(topicResource, t, operation{set, "flush.ms", nil})},
			{"append null", change(topicResource, t, operation{appendTo, "cleanup.policy", nil})},
			{"subtract null", change(topicResource, t, operation{subtract, "cleanup.policy", nil})},
			{"key twice", change(topicResource, t, operation{set, "flush.ms", five}, operation{set, "flush.ms", of("6")})},
			{"key twice, set and deleted", change(topicResource, t, operation{set, "flush.ms", five}, operation{remove, "flush.ms", nil})},
			{"operation 4", change(topicResource, t, operation{4, "flush.ms", five})},
			{"operation -1", change(topicResource, t, operation{-1, "flush.ms", five})},
			{"operation 4 of brokers", change(brokerResource, "", operation{4, "log.retention.ms", five})},
			{"operation -1 of brokers", change(brokerResource, "", operation{-1, "log.retention.ms", five})},
			{"broker's synonym", change(topicResource, t, operation{set, "log.flush.interval.ms", five})},
			{"resource type 0", change(unknownResource, "x", operation{set, "flush.ms", five})},
			{"resource type 5", change(5, "x", operation{set, "flush.ms", five})},
			{"resource type 127", change(127, "x", operation{set, "flush.ms", five})},
		} {
			r.Send(label(v, "%s", c.title), validated(v, c.req))
		}
	}
}

// changeSeveral changes several resources in one request, some of them in vain.
func changeSeveral(r *conform.R) {
	r.CreateTopic("a", 1)
	r.CreateTopic("b", 1)
	join := func(reqs ...*kmsg.IncrementalAlterConfigsRequest) *kmsg.IncrementalAlterConfigsRequest {
		for _, other := range reqs[1:] {
			reqs[0].Resources = append(reqs[0].Resources, other.Resources...)
		}
		return reqs[0]
	}
	of1 := func(name string, ops ...operation) *kmsg.IncrementalAlterConfigsRequest {
		return change(topicResource, r.Name(name), ops...)
	}
	r.Send("good, unknown and bad", join(of1("a", operation{set, "flush.ms", of("5")}), of1("nope", operation{set, "flush.ms", of("5")}), of1("b", operation{set, "flush.ms", of("x")})))
	awaitConfig(r, topicResource, r.Name("a"), "flush.ms", "5")
	r.Send("the same topic twice", join(of1("a", operation{set, "flush.ms", of("6")}), of1("a", operation{set, "segment.ms", of("6")})))
	r.Send("the same topic three times beside another", join(of1("a"), of1("b", operation{set, "flush.ms", of("7")}), of1("a"), of1("a")))
	awaitConfig(r, topicResource, r.Name("b"), "flush.ms", "7")
	r.Send("after all", configsOf(resource(topicResource, r.Name("a"), "flush.ms", "segment.ms"), resource(topicResource, r.Name("b"), "flush.ms")))
	none := change(topicResource, "")
	none.Resources = nil
	r.Send("no resources", none)
	tagged := validated(1, of1("a", operation{set, "flush.ms", of("9")}))
	unknownTags(&tagged.UnknownTags)
	unknownTags(&tagged.Resources[0].UnknownTags)
	unknownTags(&tagged.Resources[0].Configs[0].UnknownTags)
	r.Send("unknown tags", tagged)
}

// changeBrokerConfigs asks which broker keys can be changed, on one broker and on all.
func changeBrokerConfigs(r *conform.R) {
	node := nodeName(r)
	for _, c := range []struct{ key, value string }{
		{"num.io.threads", "0"},
		{"num.io.threads", "x"},
		{"log.retention.ms", "604800000"},
		{"log.retention.ms", "-2"},
		{"log.segment.bytes", "1073741824"},
		{"message.max.bytes", "1048588"},
		{"max.connections", "1000000"},
		{"max.connections.per.ip", "5"},
		{"compression.type", "zstd"},
		{"compression.type", "x"},
		{"log.cleanup.policy", "compact"},
		{"min.insync.replicas", "1"},
		{"unclean.leader.election.enable", "false"},
		{"leader.replication.throttled.rate", "5"},
		{"follower.replication.throttled.rate", "-1"},
		{"producer.id.expiration.ms", "86400000"},
		{"group.consumer.session.timeout.ms", "45000"},
		{"listeners", "PLAINTEXT://:1"},
		{"node.id", "1"},
		{"log.dirs", "/x"},
		{"num.partitions", "1"},
		{"auto.create.topics.enable", "true"},
		{"no.such", "1"},
		{"", "1"},
		{"password.encoder.secret", "x"},
		{"cordoned.log.dirs", "/x"},
	} {
		op := operation{set, c.key, of(c.value)}
		r.Send(fmt.Sprintf("broker's %s = %s", c.key, c.value), validated(1, change(brokerResource, node, op)))
		r.Send(fmt.Sprintf("cluster's %s = %s", c.key, c.value), validated(1, change(brokerResource, "", op)))
	}
	for _, op := range []operation{
		{remove, "log.retention.ms", nil},
		{remove, "min.insync.replicas", nil},
		{remove, "node.id", nil},
		{remove, "no.such", nil},
		{appendTo, "log.cleanup.policy", of("compact")},
		{subtract, "log.cleanup.policy", of("delete")},
		{appendTo, "num.io.threads", of("1")},
		{appendTo, "node.id", of("1")},
		{set, "log.retention.ms", nil},
	} {
		r.Send(fmt.Sprintf("%s broker's %s", opName(op.op), op.key), validated(1, change(brokerResource, node, op)))
		r.Send(fmt.Sprintf("%s cluster's %s", opName(op.op), op.key), validated(1, change(brokerResource, "", op)))
	}
	for _, c := range []struct{ title, name string }{{"no number", "x"}, {"another", fmt.Sprint(r.Node(0) + 1000)}, {"negative", "-1"}} {
		r.Send("broker "+c.title, validated(1, change(brokerResource, c.name, operation{set, "num.io.threads", of("8")})))
		r.Send("logger of "+c.title, validated(1, change(loggerResource, c.name, operation{set, "root", of("INFO")})))
	}
	for _, c := range []struct {
		title string
		op    operation
	}{
		{"unknown logger", operation{set, "no.such.logger", of("INFO")}},
		{"unknown level", operation{set, "root", of("LOUD")}},
		{"delete the root's", operation{remove, "root", nil}},
		{"append", operation{appendTo, "root", of("INFO")}},
	} {
		r.Send("logger: "+c.title, validated(1, change(loggerResource, node, c.op)))
	}
}

// changeBrokerAndBack sets keys of one broker and of all, looks, and deletes them again.
func changeBrokerAndBack(r *conform.R) {
	const key = "log.retention.ms"
	node := nodeName(r)
	r.CreateTopic("t", 1)
	look := func(when string) {
		r.Send(when+": broker", everything(configsOf(resource(brokerResource, node, key))))
		r.Send(when+": cluster", everything(configsOf(resource(brokerResource, "", key))))
		r.Send(when+": topic", everything(configsOf(resource(topicResource, r.Name("t"), "retention.ms"))))
	}
	look("before")
	r.Send("set for all", change(brokerResource, "", operation{set, key, of("86400001")}))
	awaitConfig(r, brokerResource, node, key, "86400001")
	look("set for all")
	r.Send("set for one", change(brokerResource, node, operation{set, key, of("86400002")}))
	awaitConfig(r, brokerResource, node, key, "86400002")
	look("set for one")
	r.Send("delete for all", change(brokerResource, "", operation{remove, key, nil}))
	r.Send("delete for one", change(brokerResource, node, operation{remove, key, nil}))
	ask := func() kmsg.Request { return configsOf(resource(brokerResource, node, key)) }
	r.Until("keys are deleted", ask, func(resp kmsg.Response) bool {
		return resp.(*kmsg.DescribeConfigsResponse).Resources[0].Configs[0].Source > 3
	})
	look("after")
}

// changeBrokerMachinery changes keys of what not every broker has.
func changeBrokerMachinery(r *conform.R) {
	for _, c := range []struct{ key, value string }{
		{"num.io.threads", "8"},
		{"num.network.threads", "3"},
		{"background.threads", "10"},
		{"num.replica.fetchers", "1"},
		{"log.cleaner.threads", "1"},
		{"transaction.partition.verification.enable", "true"},
		{"remote.log.manager.copy.max.bytes.per.second", "5"},
		{"listener.name.x.max.connections", "5"},
		{"listener.name.plaintext.ssl.keystore.location", "x"},
	} {
		op := operation{set, c.key, of(c.value)}
		r.Send(fmt.Sprintf("broker's %s = %s", c.key, c.value), validated(1, change(brokerResource, nodeName(r), op)))
		r.Send(fmt.Sprintf("cluster's %s = %s", c.key, c.value), validated(1, change(brokerResource, "", op)))
	}
}

func changeGroupConfigs(r *conform.R) {
	g := r.Name("g")
	shown := everything(configsOf(resource(groupResource, g, "consumer.session.timeout.ms", "share.auto.offset.reset")))
	r.Send("before", shown)
	r.Send("set", change(groupResource, g, operation{set, "consumer.session.timeout.ms", of("50000")}, operation{set, "share.auto.offset.reset", of("earliest")}))
	awaitConfig(r, groupResource, g, "consumer.session.timeout.ms", "50000")
	r.Send("after set", shown)
	r.Send("append to no list", change(groupResource, g, operation{appendTo, "consumer.session.timeout.ms", of("1")}))
	r.Send("unknown key", change(groupResource, g, operation{set, "no.such", of("1")}))
	r.Send("empty group", change(groupResource, "", operation{set, "consumer.session.timeout.ms", of("50000")}))
	r.Send("heartbeat above session", change(groupResource, g, operation{set, "consumer.heartbeat.interval.ms", of("50001")}))
	r.Send("session below heartbeat", change(groupResource, g, operation{set, "consumer.session.timeout.ms", of("5000")}))
	r.Send("delete", change(groupResource, g, operation{remove, "consumer.session.timeout.ms", nil}, operation{remove, "share.auto.offset.reset", nil}))
	awaitConfig(r, groupResource, g, "consumer.session.timeout.ms", "45000")
	r.Send("after delete", shown)
}

// changeClientMetrics makes a subscription and deletes it again (KIP-714).
func changeClientMetrics(r *conform.R) {
	m := r.Name("m")
	shown := everything(configsOf(resource(metricsResource, m)))
	for _, c := range []struct {
		title string
		op    operation
	}{
		{"interval", operation{set, "interval.ms", of("1000")}},
		{"interval too short", operation{set, "interval.ms", of("99")}},
		{"interval too long", operation{set, "interval.ms", of("3600001")}},
		{"interval no number", operation{set, "interval.ms", of("x")}},
		{"metrics", operation{set, "metrics", of("org.apache.kafka.producer.,org.apache.kafka.consumer.")}},
		{"match", operation{set, "match", of("client_software_name=a.*,client_source_address=b")}},
		{"match of an unknown name", operation{set, "match", of("no_such=a")}},
		{"match of a bad pattern", operation{set, "match", of("client_id=(")}},
		{"unknown key", operation{set, "no.such", of("x")}},
		{"append a metric", operation{appendTo, "metrics", of("x.")}},
	} {
		r.Send(c.title, validated(1, change(metricsResource, m, c.op)))
	}
	r.Send("empty name", validated(1, change(metricsResource, "", operation{set, "interval.ms", of("1000")})))
	r.Send("set", change(metricsResource, m, operation{set, "interval.ms", of("1000")}, operation{set, "match", of("client_id=conform-nobody")}))
	awaitConfig(r, metricsResource, m, "interval.ms", "1000")
	r.Send("after set", shown)
	r.Send("delete", change(metricsResource, m, operation{remove, "interval.ms", nil}, operation{remove, "match", nil}))
}
