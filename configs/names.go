package configs

import (
	"slices"
	"strings"
)

// pointless are names of Kafka 4.4 for things that do not exist here: pools of threads,
// JMX, Kafka's own metadata log, switches for tests.
const pointless = `
	background.threads controller.performance.always.log.threshold.ms
	controller.performance.sample.period.ms controller.quorum.append.linger.ms
	controller.quorum.election.backoff.max.ms controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms
	controller.quorum.fetch.max.bytes controller.quorum.fetch.snapshot.max.bytes
	controller.socket.timeout.ms delete.records.purgatory.purge.interval.requests
	fetch.purgatory.purge.interval.requests group.consumer.assignor.offload.enable
	group.coordinator.cached.buffer.max.bytes
	group.coordinator.background.threads group.coordinator.threads group.share.assignor.offload.enable
	group.share.dlq.manager.class.name group.share.persister.class.name
	group.streams.assignor.offload.enable internal.metadata.delete.delay.millis
	internal.metadata.log.segment.bytes internal.metadata.max.batch.size.in.bytes
	kafka.metrics.polling.interval.secs kafka.metrics.reporters log.dir.failure.timeout.ms log.initial.task.delay.ms
	metadata.log.segment.bytes metadata.log.segment.ms metadata.max.idle.interval.ms
	metadata.max.retention.bytes metadata.max.retention.ms metric.reporters metrics.num.samples
	metrics.recording.level metrics.sample.window.ms num.io.threads num.network.threads
	offsets.load.buffer.size
	producer.purgatory.purge.interval.requests security.providers server.max.startup.time.ms
	share.coordinator.load.buffer.size share.coordinator.threads
	share.fetch.purgatory.purge.interval.requests transaction.state.log.load.buffer.size
	unstable.api.versions.enable unstable.feature.versions.enable
`

// removed are names that Kafka had before 4.0 and that old configurations still hold.
const removed = `
	auto.include.jmx.reporter broker.id.generation.enable control.plane.listener.name
	controlled.shutdown.max.retries controlled.shutdown.retry.backoff.ms inter.broker.protocol.version
	log.message.downconversion.enable log.message.format.version log.message.timestamp.difference.max.ms
	offsets.commit.required.acks password.encoder.cipher.algorithm password.encoder.iterations
	password.encoder.key.length password.encoder.keyfactory.algorithm password.encoder.old.secret
	password.encoder.secret quota.consumer.default quota.producer.default reserved.broker.max.id
	zookeeper.clientCnxnSocket zookeeper.connect zookeeper.connection.timeout.ms
	zookeeper.max.in.flight.requests zookeeper.metadata.migration.enable zookeeper.session.timeout.ms
	zookeeper.set.acl
`

// pointlessPrefixes belong to plug-ins and to other builds of Kafka.
func pointlessPrefixes() []string {
	return []string{"confluent.", "kafka.metrics.", "metric.reporters.", "rlmm.config.", "rsm.config.", "ssl.", "zookeeper.ssl."}
}

// later are names of Kafka 4.4 for what this version does not have yet.
const later = `
	add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms
	alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
	connection.failed.authentication.delay.ms cordoned.log.dirs delegation.token.expiry.check.interval.ms
	delegation.token.expiry.time.ms delegation.token.max.lifetime.ms early.start.listeners
	errors.deadletterqueue.auto.create.topics.enable errors.deadletterqueue.topic.name.prefix
	follower.fetch.last.tiered.offset.enable group.consumer.assignment.interval.ms
	group.consumer.assignors group.consumer.heartbeat.interval.ms
	group.consumer.max.assignment.interval.ms group.consumer.max.heartbeat.interval.ms
	group.consumer.max.session.timeout.ms group.consumer.max.size group.consumer.migration.policy
	group.consumer.min.assignment.interval.ms group.consumer.min.heartbeat.interval.ms
	group.consumer.min.session.timeout.ms group.consumer.regex.refresh.interval.ms
	group.consumer.session.timeout.ms group.coordinator.rebalance.protocols
	group.share.assignment.interval.ms group.share.assignors
	group.share.delivery.count.limit group.share.heartbeat.interval.ms
	group.share.initialize.retry.interval.ms group.share.max.assignment.interval.ms
	group.share.max.delivery.count.limit group.share.max.heartbeat.interval.ms
	group.share.max.partition.max.record.locks group.share.max.record.lock.duration.ms
	group.share.max.session.timeout.ms group.share.max.share.sessions group.share.max.size
	group.share.min.assignment.interval.ms group.share.min.delivery.count.limit
	group.share.min.heartbeat.interval.ms group.share.min.partition.max.record.locks
	group.share.min.record.lock.duration.ms group.share.min.session.timeout.ms
	group.share.partition.max.record.locks group.share.record.lock.duration.ms
	group.share.session.timeout.ms group.streams.acceptable.recovery.lag
	group.streams.assignment.interval.ms group.streams.assignors group.streams.heartbeat.interval.ms
	group.streams.initial.rebalance.delay.ms group.streams.max.assignment.interval.ms
	group.streams.max.heartbeat.interval.ms group.streams.max.session.timeout.ms group.streams.max.size
	group.streams.max.standby.replicas group.streams.max.warmup.replicas
	group.streams.min.assignment.interval.ms group.streams.min.heartbeat.interval.ms
	group.streams.min.session.timeout.ms group.streams.min.task.offset.interval.ms
	group.streams.num.standby.replicas group.streams.num.warmup.replicas
	group.streams.rack.aware.assignment.tags group.streams.session.timeout.ms
	group.streams.task.offset.interval.ms group.streams.topology.description.plugin.class
	metadata.log.max.record.bytes.between.snapshots
	metadata.log.max.snapshot.interval.ms
	producer.id.expiration.check.interval.ms remote.fetch.max.wait.ms remote.list.offsets.request.timeout.ms
	remote.log.index.file.cache.total.size.bytes remote.log.index.file.cache.ttl.ms
	remote.log.manager.copier.thread.pool.size remote.log.manager.copy.max.bytes.per.second
	remote.log.manager.copy.quota.window.num remote.log.manager.copy.quota.window.size.seconds
	remote.log.manager.expiration.thread.pool.size remote.log.manager.fetch.max.bytes.per.second
	remote.log.manager.fetch.quota.window.num remote.log.manager.fetch.quota.window.size.seconds
	remote.log.manager.follower.thread.pool.size remote.log.manager.task.interval.ms
	remote.log.manager.task.retry.backoff.max.ms remote.log.manager.task.retry.backoff.ms
	remote.log.manager.task.retry.jitter remote.log.manager.thread.pool.size
	remote.log.metadata.custom.metadata.max.bytes remote.log.metadata.manager.class.name
	remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix
	remote.log.metadata.manager.listener.name remote.log.reader.max.pending.tasks
	remote.log.reader.threads remote.log.storage.manager.class.name
	remote.log.storage.manager.class.path remote.log.storage.manager.impl.prefix
	share.coordinator.append.linger.ms share.coordinator.cached.buffer.max.bytes
	share.coordinator.cold.partition.snapshot.interval.ms
	share.coordinator.snapshot.update.records.per.snapshot
	share.coordinator.state.topic.compression.codec share.coordinator.state.topic.prune.interval.ms
	share.coordinator.write.timeout.ms socket.connection.setup.timeout.max.ms
	socket.connection.setup.timeout.ms
	transaction.abort.timed.out.transaction.cleanup.interval.ms
	transaction.partition.verification.enable transaction.remove.expired.transaction.cleanup.interval.ms
	transaction.two.phase.commit.enable transactional.id.expiration.ms
`

// refusal is a key that asks for protection, or for code, that does not exist here.
// Ignoring it would run the broker with less than its configuration promises.
type refusal struct {
	pattern  string   // a name, or with a * at its end what begins so
	harmless []string // values that ask for nothing
	why      string
}

func refusals() []refusal {
	const (
		tls        = "TLS is not supported yet"
		sasl       = "SASL is not supported yet"
		authorizer = "authorization is not supported yet"
		tokens     = "delegation tokens are not supported yet"
		policy     = "policies are Java classes, which this broker cannot run"
	)
	return []refusal{
		{"alter.config.policy.class.name", nil, policy},
		{"create.topic.policy.class.name", nil, policy},
		{"client.quota.callback.class", nil, policy},
		{"allow.everyone.if.no.acl.found", []string{"true"}, authorizer},
		{"authorizer.class.name", nil, authorizer},
		{"super.users", nil, authorizer},
		{"principal.builder.class", []string{"org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"}, authorizer},
		{"config.providers", nil, "values from providers are not supported, and would be taken literally"},
		{"connections.max.reauth.ms", []string{"0"}, sasl},
		{"delegation.token.master.key", nil, tokens},
		{"delegation.token.secret.key", nil, tokens},
		{"remote.log.storage.system.enable", []string{"false"}, "tiered storage is not supported"},
		{"sasl.*", nil, sasl},
		{"ssl.client.auth", []string{"none"}, tls},
		{"ssl.engine.factory.class", nil, tls},
		{"ssl.key.password", nil, tls},
		{"ssl.keystore.*", nil, tls},
		{"ssl.principal.mapping.rules", []string{"DEFAULT"}, tls},
		{"ssl.truststore.*", nil, tls},
	}
}

// kind is what a name means to this broker.
type kind int

const (
	unknown kind = iota
	served
	refused
	ignored // pointless or removed
	notYet
)

// classify tells what a name is; for a refused one with its value also why.
func classify(name, value string) (kind, string) {
	scoped := name
	name = withoutListener(name)
	switch known := BrokerKey(name) != nil; {
	case known && name == scoped, listenerLimit(scoped) != nil:
		return served, ""
	case known:
		return notYet, ""
	}
	for _, r := range refusals() {
		if !r.matches(name) {
			continue
		}
		if value = strings.TrimSpace(value); value == "" || slices.Contains(r.harmless, value) {
			return ignored, ""
		}
		return refused, r.why
	}
	switch {
	case listed(pointless, name), listed(removed, name), hasPrefix(name, pointlessPrefixes()):
		return ignored, ""
	case listed(later, name):
		return notYet, ""
	}
	return unknown, ""
}

func (r refusal) matches(name string) bool {
	prefix, all := strings.CutSuffix(r.pattern, "*")
	return all && strings.HasPrefix(name, prefix) || name == r.pattern
}

func listed(names, name string) bool { return slices.Contains(strings.Fields(names), name) }

func hasPrefix(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// listenerPrefix begins keys that hold for one listener:
// listener.name.<listener>.[<mechanism>.]<key>.
const listenerPrefix = "listener.name."

// withoutListener is the key that a listener's key refines. A served key's form for one
// listener is another name, which is not served yet.
func withoutListener(name string) string {
	rest, scoped := strings.CutPrefix(name, listenerPrefix)
	if !scoped {
		return name
	}
	_, key, _ := strings.Cut(rest, ".")
	if i := strings.Index("."+key, ".sasl."); i >= 0 {
		return key[i:]
	}
	return key
}

// listenerLimit is the key whose value for one listener a name gives, of those that may
// differ from listener to listener; nil for any other name.
func listenerLimit(name string) *Key {
	if base := withoutListener(name); base != name && listed("max.connection.creation.rate max.connections", base) {
		return BrokerKey(base)
	}
	return nil
}

// brokerNames are all names that a misspelling may have meant.
func brokerNames() []string {
	var names []string
	for i := range brokerKeys {
		names = append(names, brokerKeys[i].Name)
	}
	for _, list := range []string{pointless, later} {
		names = append(names, strings.Fields(list)...)
	}
	for _, r := range refusals() {
		names = append(names, strings.TrimSuffix(r.pattern, ".*"))
	}
	return names
}

// isSecret is true for names whose values are never shown, whether or not they are served.
func isSecret(name string) bool {
	if key := BrokerKey(name); key != nil {
		return key.Sensitive()
	}
	for _, part := range []string{"password", "secret", "jaas", "passphrase", "credential", "keystore.key", "keystore.certificate", "truststore.certificates", "master.key", "token"} {
		if strings.Contains(strings.ToLower(name), part) {
			return true
		}
	}
	return false
}
