package scenarios

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func describeConfigs() []conform.Scenario {
	return []conform.Scenario{
		{Name: "describeconfigs/broker-table", Key: 32, Run: describeBrokerTable},
		{Name: "describeconfigs/broker", Key: 32, Run: describeBroker},
		{Name: "describeconfigs/topic-table", Key: 32, Run: describeTopicTable},
		{Name: "describeconfigs/topic", Key: 32, Run: describeTopicConfigs},
		{Name: "describeconfigs/group-table", Key: 32, Run: describeGroupTable},
		{Name: "describeconfigs/other-resources", Key: 32, Run: describeOtherResources},
		{Name: "describeconfigs/loggers", Key: 32, Run: describeLoggers},
		{Name: "describeconfigs/key-names", Key: 32, Run: describeKeyNames},
	}
}

// Types of resources that have configurations.
const (
	topicResource    = kmsg.ConfigResourceTypeTopic
	brokerResource   = kmsg.ConfigResourceTypeBroker
	loggerResource   = kmsg.ConfigResourceTypeBrokerLogger
	metricsResource  = kmsg.ConfigResourceType(16)
	groupResource    = kmsg.ConfigResourceType(32)
	unknownResource  = kmsg.ConfigResourceType(0)
	obsoleteResource = kmsg.ConfigResourceType(1)
)

type describeConfigsRequest = *kmsg.DescribeConfigsRequest

// resource names one resource; without keys all of its keys are meant.
func resource(kind kmsg.ConfigResourceType, name string, keys ...string) kmsg.DescribeConfigsRequestResource {
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName, res.ConfigNames = kind, name, keys
	return res
}

func configsOf(resources ...kmsg.DescribeConfigsRequestResource) describeConfigsRequest {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version, req.Resources = latest(32), resources
	return req
}

// everything asks for synonyms and documentation, too.
func everything(req describeConfigsRequest) describeConfigsRequest {
	req.IncludeSynonyms, req.IncludeDocumentation = true, true
	return req
}

// nodeName is the name of the first node as a resource.
func nodeName(r *conform.R) string { return fmt.Sprint(r.Node(0)) }

// hostKeys are the broker keys that belong to the machine or the cluster's set-up.
var hostKeys = []string{
	"advertised.listeners", "broker.id", "broker.rack", "controller.listener.names", "controller.quorum.bootstrap.servers",
	"controller.quorum.voters", "default.replication.factor", "group.initial.rebalance.delay.ms", "inter.broker.listener.name",
	"listener.security.protocol.map", "listeners", "log.dir", "log.dirs", "metadata.log.dir", "node.id", "num.partitions",
	"offsets.topic.num.partitions", "offsets.topic.replication.factor", "process.roles",
	"share.coordinator.state.topic.min.isr", "share.coordinator.state.topic.num.partitions", "share.coordinator.state.topic.replication.factor",
	"transaction.state.log.min.isr", "transaction.state.log.num.partitions", "transaction.state.log.replication.factor",
}

// paceKeys are broker keys whose defaults are chosen for a broker's own machinery.
var paceKeys = []string{
	"broker.heartbeat.interval.ms", "broker.session.timeout.ms",
	"controller.quorum.election.timeout.ms", "controller.quorum.fetch.timeout.ms", "log.flush.offset.checkpoint.interval.ms",
}

// machineryKeys can be changed in a running Kafka, as it has what they are about: pools of
// threads, tiered storage, TLS and SASL, listeners that come and go.
const machineryKeys = `
	background.threads config.providers cordoned.log.dirs errors.deadletterqueue.auto.create.topics.enable
	errors.deadletterqueue.topic.name.prefix follower.fetch.last.tiered.offset.enable
	group.consumer.assignment.interval.ms group.coordinator.cached.buffer.max.bytes
	group.share.assignment.interval.ms group.streams.assignment.interval.ms listener.security.protocol.map
	listeners log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size log.cleaner.io.buffer.load.factor
	log.cleaner.io.buffer.size log.cleaner.io.max.bytes.per.second log.cleaner.threads metric.reporters
	num.io.threads num.network.threads num.replica.fetchers principal.builder.class remote.fetch.max.wait.ms
	remote.list.offsets.request.timeout.ms remote.log.index.file.cache.total.size.bytes
	remote.log.manager.copier.thread.pool.size remote.log.manager.copy.max.bytes.per.second
	remote.log.manager.expiration.thread.pool.size remote.log.manager.fetch.max.bytes.per.second
	remote.log.manager.follower.thread.pool.size remote.log.reader.threads sasl.enabled.mechanisms
	sasl.jaas.config sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
	sasl.kerberos.principal.to.local.rules sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
	sasl.kerberos.ticket.renew.window.factor sasl.login.refresh.buffer.seconds
	sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
	sasl.mechanism.inter.broker.protocol share.coordinator.cached.buffer.max.bytes ssl.cipher.suites
	ssl.client.auth ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.engine.factory.class
	ssl.key.password ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key
	ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.protocol ssl.provider
	ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.certificates
	ssl.truststore.location ssl.truststore.password ssl.truststore.type transaction.partition.verification.enable
`

// describeBrokerTable is every broker key with its type, default, synonyms and whether it
// is sensitive and can be changed.
func describeBrokerTable(r *conform.R) {
	r.HostConfigs(hostKeys...)
	r.HostConfigs(paceKeys...)
	r.MaybeReadOnly(strings.Fields(machineryKeys)...)
	r.Send("everything", everything(configsOf(resource(brokerResource, nodeName(r)))))
	plainTable := configsOf(resource(brokerResource, nodeName(r)))
	plainTable.Version = 1
	r.Send("v1 plain", plainTable)
	r.Send("cluster's default", everything(configsOf(resource(brokerResource, ""))))
}

func describeBroker(r *conform.R) {
	r.OnlyConfigs("log.retention.ms", "log.retention.hours", "num.io.threads", "ssl.keystore.password")
	r.MaybeReadOnly("num.io.threads", "ssl.keystore.password")
	node, other := nodeName(r), fmt.Sprint(r.Node(0)+1000)
	sendVariants(r, func() describeConfigsRequest { return configsOf(resource(brokerResource, node)) }, []variant[describeConfigsRequest]{
		plain[describeConfigsRequest](),
		{name: "synonyms", edit: func(req describeConfigsRequest) { req.IncludeSynonyms = true }},
		{name: "documentation", min: 3, edit: func(req describeConfigsRequest) { req.IncludeDocumentation = true }},
		{name: "everything", edit: func(req describeConfigsRequest) { everything(req) }},
		{name: "cluster's default", edit: func(req describeConfigsRequest) { req.Resources[0].ResourceName = "" }},
		{name: "other broker", edit: func(req describeConfigsRequest) { req.Resources[0].ResourceName = other }},
		{name: "not a number", edit: func(req describeConfigsRequest) { req.Resources[0].ResourceName = "x" }},
		{name: "number with a sign", edit: func(req describeConfigsRequest) { req.Resources[0].ResourceName = "+" + node }},
		{name: "number with a space", edit: func(req describeConfigsRequest) { req.Resources[0].ResourceName = " " + node }},
		{name: "number with zeros", edit: func(req describeConfigsRequest) { req.Resources[0].ResourceName = "00" + node }},
		{name: "negative number", edit: func(req describeConfigsRequest) { req.Resources[0].ResourceName = "-1" }},
		{name: "too large a number", edit: func(req describeConfigsRequest) { req.Resources[0].ResourceName = "2147483648" }},
		{name: "one key", edit: func(req describeConfigsRequest) { req.Resources[0].ConfigNames = []string{"log.retention.hours"} }},
		{name: "unknown tags", min: 4, edit: func(req describeConfigsRequest) {
			unknownTags(&req.UnknownTags)
			unknownTags(&req.Resources[0].UnknownTags)
			req.Resources[0].ConfigNames = []string{"num.io.threads"}
		}},
	})
}

// describeTopicTable is every topic key.
func describeTopicTable(r *conform.R) {
	r.CreateTopic("plain", 1)
	r.CreateTopic("set", 1, "retention.ms", "5", "cleanup.policy", "compact", "min.insync.replicas", "1", "compression.type", "zstd")
	for _, v := range conform.Versions(32) {
		req := everything(configsOf(resource(topicResource, r.Name("plain"))))
		req.Version = v
		r.Send(label(v, "defaults"), req)
	}
	r.Send("some keys set", everything(configsOf(resource(topicResource, r.Name("set")))))
	r.Send("without synonyms", configsOf(resource(topicResource, r.Name("set"))))
}

func describeTopicConfigs(r *conform.R) {
	r.CreateTopic("t", 1, "retention.ms", "5", "segment.ms", "7")
	r.CreateTopic("u", 1)
	r.OnlyConfigs("retention.ms", "segment.ms", "flush.ms")
	t, u := r.Name("t"), r.Name("u")
	named := func(name string) func(describeConfigsRequest) {
		return func(req describeConfigsRequest) { req.Resources[0].ResourceName = name }
	}
	sendVariants(r, func() describeConfigsRequest { return configsOf(resource(topicResource, t)) }, []variant[describeConfigsRequest]{
		plain[describeConfigsRequest](),
		{name: "synonyms", edit: func(req describeConfigsRequest) { req.IncludeSynonyms = true }},
		{name: "none set, synonyms", edit: func(req describeConfigsRequest) {
			req.IncludeSynonyms, req.Resources[0].ResourceName = true, u
		}},
		{name: "unknown topic", edit: named(r.Name("nope"))},
		{name: "empty name", edit: named("")},
		{name: "bad name", edit: named("a b")},
		{name: "long name", edit: named(longName + "y")},
		{name: "cluster's own log", edit: named("__cluster_metadata")},
		{name: "none", edit: func(req describeConfigsRequest) { req.Resources = nil }},
		{name: "twice", edit: func(req describeConfigsRequest) { req.Resources = append(req.Resources, req.Resources[0]) }},
		{name: "twice with different keys", edit: func(req describeConfigsRequest) {
			req.Resources = []kmsg.DescribeConfigsRequestResource{
				resource(topicResource, t, "retention.ms"), resource(topicResource, t, "segment.ms"),
			}
		}},
		{name: "several of several kinds", edit: func(req describeConfigsRequest) {
			req.Resources = []kmsg.DescribeConfigsRequestResource{
				resource(topicResource, t, "retention.ms"), resource(topicResource, r.Name("nope")),
				resource(brokerResource, nodeName(r), "flush.ms"), resource(brokerResource, "x"), resource(topicResource, u, "flush.ms"),
			}
		}},
	})
}

// describeKeyNames asks for single keys.
func describeKeyNames(r *conform.R) {
	r.CreateTopic("t", 1, "retention.ms", "5")
	for _, c := range []struct {
		title string
		keys  []string
	}{
		{"one", []string{"retention.ms"}},
		{"none", []string{}},
		{"unknown", []string{"no.such"}},
		{"known and unknown", []string{"no.such", "flush.ms"}},
		{"twice", []string{"flush.ms", "flush.ms"}},
		{"empty", []string{""}},
		{"other case", []string{"FLUSH.MS"}},
		{"broker's synonym", []string{"log.flush.interval.ms"}},
		{"internal", []string{"internal.segment.bytes"}},
	} {
		for _, v := range conform.Versions(32) {
			req := everything(configsOf(resource(topicResource, r.Name("t"), c.keys...)))
			if c.title == "none" {
				req.Resources[0].ConfigNames = []string{}
			}
			req.Version = v
			r.Send(label(v, "of a topic, %s", c.title), req)
		}
		r.Send("of a broker, "+c.title, everything(configsOf(resource(brokerResource, nodeName(r), slices.Concat(c.keys, []string{"log.flush.interval.ms"})...))))
	}
}

// describeGroupTable is every key that a group can have, and other names of groups.
func describeGroupTable(r *conform.R) {
	for _, v := range conform.Versions(32) {
		req := everything(configsOf(resource(groupResource, r.Name("nobody"))))
		req.Version = v
		r.Send(label(v, "defaults"), req)
	}
	r.OnlyConfigs("consumer.session.timeout.ms")
	r.Send("without synonyms", configsOf(resource(groupResource, r.Name("nobody"))))
	r.Send("one key", configsOf(resource(groupResource, r.Name("nobody"), "share.isolation.level")))
	r.Send("empty name", everything(configsOf(resource(groupResource, ""))))
	r.Send("odd name", everything(configsOf(resource(groupResource, "a b/ä"))))
}

func describeOtherResources(r *conform.R) {
	for _, v := range conform.Versions(32) {
		for _, kind := range []kmsg.ConfigResourceType{unknownResource, obsoleteResource, 3, 5, 64, 127, -1, -128} {
			req := configsOf(resource(kind, "x"))
			req.Version = v
			r.Send(label(v, "resource type %d", kind), req)
		}
		for _, name := range []string{"", "x", r.Name("nobody"), "a b"} {
			req := everything(configsOf(resource(metricsResource, name)))
			req.Version = v
			r.Send(label(v, "client metrics %q", strings.TrimPrefix(name, r.Name(""))), req)
		}
	}
}

// describeLoggers asks for the loggers of a broker, of which only the root is every
// broker's.
func describeLoggers(r *conform.R) {
	r.OnlyConfigs("root")
	r.HostConfigs("root")
	for _, v := range conform.Versions(32) {
		for _, c := range []struct{ title, name string }{
			{"this one", nodeName(r)}, {"cluster's", ""}, {"another", fmt.Sprint(r.Node(0) + 1000)}, {"not a number", "x"},
		} {
			req := everything(configsOf(resource(loggerResource, c.name)))
			req.Version = v
			r.Send(label(v, "%s", c.title), req)
		}
	}
}
