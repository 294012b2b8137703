package configs

import "strings"

// otherKeys are the broker keys of Kafka 4.4 that this broker does not have, with type and
// default ("-" for none): DescribeConfigs lists them as Kafka does, since tools look for
// some of them. Internal ones are left out.
const otherKeys = `
	add.partitions.to.txn.retry.backoff.max.ms INT 100
	add.partitions.to.txn.retry.backoff.ms INT 20
	alter.config.policy.class.name CLASS -
	alter.log.dirs.replication.quota.window.num INT 11
	alter.log.dirs.replication.quota.window.size.seconds INT 1
	authorizer.class.name STRING ""
	background.threads INT 10
	client.quota.callback.class CLASS -
	config.providers LIST ""
	connection.failed.authentication.delay.ms INT 100
	connections.max.reauth.ms LONG 0
	controller.quorum.append.linger.ms INT 25
	controller.quorum.election.backoff.max.ms INT 1000
	controller.quorum.fetch.max.bytes INT 1048576
	controller.quorum.fetch.snapshot.max.bytes INT 1048576
	controller.quorum.request.timeout.ms INT 2000
	controller.quorum.retry.backoff.ms INT 20
	controller.socket.timeout.ms INT 30000
	cordoned.log.dirs LIST ""
	create.topic.policy.class.name CLASS -
	delegation.token.expiry.check.interval.ms LONG 3600000
	delegation.token.expiry.time.ms LONG 86400000
	delegation.token.max.lifetime.ms LONG 604800000
	delegation.token.secret.key PASSWORD -
	delete.records.purgatory.purge.interval.requests INT 1
	early.start.listeners LIST -
	errors.deadletterqueue.auto.create.topics.enable BOOLEAN false
	errors.deadletterqueue.topic.name.prefix STRING dlq.
	fetch.purgatory.purge.interval.requests INT 1000
	follower.fetch.last.tiered.offset.enable BOOLEAN false
	group.consumer.assignment.interval.ms INT 1000
	group.consumer.assignors LIST uniform,range
	group.consumer.heartbeat.interval.ms INT 5000
	group.consumer.max.assignment.interval.ms INT 15000
	group.consumer.max.heartbeat.interval.ms INT 15000
	group.consumer.max.session.timeout.ms INT 60000
	group.consumer.max.size INT 2147483647
	group.consumer.migration.policy STRING bidirectional
	group.consumer.min.assignment.interval.ms INT 0
	group.consumer.min.heartbeat.interval.ms INT 5000
	group.consumer.min.session.timeout.ms INT 45000
	group.consumer.session.timeout.ms INT 45000
	group.coordinator.background.threads INT 2
	group.coordinator.cached.buffer.max.bytes INT 1048588
	group.coordinator.rebalance.protocols LIST classic,consumer,streams
	group.coordinator.threads INT 4
	group.share.assignment.interval.ms INT 1000
	group.share.assignors LIST simple
	group.share.delivery.count.limit INT 5
	group.share.heartbeat.interval.ms INT 5000
	group.share.max.assignment.interval.ms INT 15000
	group.share.max.delivery.count.limit INT 10
	group.share.max.heartbeat.interval.ms INT 15000
	group.share.max.partition.max.record.locks INT 4000
	group.share.max.record.lock.duration.ms INT 60000
	group.share.max.session.timeout.ms INT 60000
	group.share.max.share.sessions INT 2000
	group.share.max.size INT 200
	group.share.min.assignment.interval.ms INT 0
	group.share.min.delivery.count.limit INT 2
	group.share.min.heartbeat.interval.ms INT 5000
	group.share.min.partition.max.record.locks INT 100
	group.share.min.record.lock.duration.ms INT 15000
	group.share.min.session.timeout.ms INT 45000
	group.share.partition.max.record.locks INT 2000
	group.share.record.lock.duration.ms INT 30000
	group.share.session.timeout.ms INT 45000
	group.streams.assignment.interval.ms INT 1000
	group.streams.assignors LIST sticky
	group.streams.heartbeat.interval.ms INT 5000
	group.streams.initial.rebalance.delay.ms INT 3000
	group.streams.max.assignment.interval.ms INT 15000
	group.streams.max.heartbeat.interval.ms INT 15000
	group.streams.max.session.timeout.ms INT 60000
	group.streams.max.size INT 2147483647
	group.streams.max.standby.replicas INT 2
	group.streams.min.assignment.interval.ms INT 0
	group.streams.min.heartbeat.interval.ms INT 5000
	group.streams.min.session.timeout.ms INT 45000
	group.streams.num.standby.replicas INT 0
	group.streams.rack.aware.assignment.tags LIST ""
	group.streams.session.timeout.ms INT 45000
	group.streams.topology.description.plugin.class CLASS -
	kafka.metrics.polling.interval.secs INT 10
	kafka.metrics.reporters LIST ""
	log.dir.failure.timeout.ms LONG 30000
	metadata.log.max.record.bytes.between.snapshots LONG 20971520
	metadata.log.max.snapshot.interval.ms LONG 3600000
	metadata.log.segment.bytes INT 1073741824
	metadata.log.segment.ms LONG 604800000
	metadata.max.idle.interval.ms INT 500
	metadata.max.retention.bytes LONG 104857600
	metadata.max.retention.ms LONG 604800000
	metric.reporters LIST org.apache.kafka.common.metrics.JmxReporter
	metrics.num.samples INT 2
	metrics.recording.level STRING INFO
	metrics.sample.window.ms LONG 30000
	num.io.threads INT 8
	num.network.threads INT 3
	offsets.load.buffer.size INT 5242880
	principal.builder.class CLASS org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder
	producer.purgatory.purge.interval.requests INT 1000
	remote.fetch.max.wait.ms INT 500
	remote.list.offsets.request.timeout.ms LONG 30000
	remote.log.index.file.cache.total.size.bytes LONG 1073741824
	remote.log.manager.copier.thread.pool.size INT 10
	remote.log.manager.copy.max.bytes.per.second LONG 9223372036854775807
	remote.log.manager.copy.quota.window.num INT 11
	remote.log.manager.copy.quota.window.size.seconds INT 1
	remote.log.manager.expiration.thread.pool.size INT 10
	remote.log.manager.fetch.max.bytes.per.second LONG 9223372036854775807
	remote.log.manager.fetch.quota.window.num INT 11
	remote.log.manager.fetch.quota.window.size.seconds INT 1
	remote.log.manager.follower.thread.pool.size INT 2
	remote.log.manager.task.interval.ms LONG 30000
	remote.log.manager.thread.pool.size INT 2
	remote.log.metadata.custom.metadata.max.bytes INT 128
	remote.log.metadata.manager.class.name STRING org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager
	remote.log.metadata.manager.class.path STRING -
	remote.log.metadata.manager.impl.prefix STRING rlmm.config.
	remote.log.metadata.manager.listener.name STRING -
	remote.log.reader.max.pending.tasks INT 100
	remote.log.reader.threads INT 10
	remote.log.storage.manager.class.name STRING -
	remote.log.storage.manager.class.path STRING -
	remote.log.storage.manager.impl.prefix STRING rsm.config.
	remote.log.storage.system.enable BOOLEAN false
	sasl.client.callback.handler.class CLASS -
	sasl.enabled.mechanisms LIST GSSAPI
	sasl.jaas.config PASSWORD -
	sasl.kerberos.kinit.cmd STRING /usr/bin/kinit
	sasl.kerberos.min.time.before.relogin LONG 60000
	sasl.kerberos.principal.to.local.rules LIST DEFAULT
	sasl.kerberos.service.name STRING -
	sasl.kerberos.ticket.renew.jitter DOUBLE 0.05
	sasl.kerberos.ticket.renew.window.factor DOUBLE 0.8
	sasl.login.callback.handler.class CLASS -
	sasl.login.class CLASS -
	sasl.login.connect.timeout.ms INT -
	sasl.login.read.timeout.ms INT -
	sasl.login.refresh.buffer.seconds SHORT 300
	sasl.login.refresh.min.period.seconds SHORT 60
	sasl.login.refresh.window.factor DOUBLE 0.8
	sasl.login.refresh.window.jitter DOUBLE 0.05
	sasl.login.retry.backoff.max.ms LONG 10000
	sasl.login.retry.backoff.ms LONG 100
	sasl.mechanism.controller.protocol STRING GSSAPI
	sasl.mechanism.inter.broker.protocol STRING GSSAPI
	sasl.oauthbearer.allow.unverified.audience BOOLEAN false
	sasl.oauthbearer.allow.unverified.issuer BOOLEAN false
	sasl.oauthbearer.assertion.algorithm STRING RS256
	sasl.oauthbearer.assertion.claim.aud STRING -
	sasl.oauthbearer.assertion.claim.exp.seconds INT 300
	sasl.oauthbearer.assertion.claim.iss STRING -
	sasl.oauthbearer.assertion.claim.jti.include BOOLEAN false
	sasl.oauthbearer.assertion.claim.nbf.seconds INT 60
	sasl.oauthbearer.assertion.claim.sub STRING -
	sasl.oauthbearer.assertion.file STRING -
	sasl.oauthbearer.assertion.private.key.file STRING -
	sasl.oauthbearer.assertion.private.key.passphrase PASSWORD -
	sasl.oauthbearer.assertion.template.file STRING -
	sasl.oauthbearer.client.credentials.client.id STRING -
	sasl.oauthbearer.client.credentials.client.secret PASSWORD -
	sasl.oauthbearer.clock.skew.seconds INT 30
	sasl.oauthbearer.expected.audience LIST ""
	sasl.oauthbearer.expected.issuer STRING -
	sasl.oauthbearer.jwks.endpoint.refresh.ms LONG 3600000
	sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms LONG 10000
	sasl.oauthbearer.jwks.endpoint.retry.backoff.ms LONG 100
	sasl.oauthbearer.jwks.endpoint.url STRING -
	sasl.oauthbearer.jwt.retriever.class CLASS org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
	sasl.oauthbearer.jwt.validator.class CLASS org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
	sasl.oauthbearer.scope STRING -
	sasl.oauthbearer.scope.claim.name STRING scope
	sasl.oauthbearer.sub.claim.name STRING sub
	sasl.oauthbearer.token.endpoint.url STRING -
	sasl.server.callback.handler.class CLASS -
	sasl.server.max.receive.size INT 524288
	security.providers STRING -
	share.coordinator.append.linger.ms INT -1
	share.coordinator.cached.buffer.max.bytes INT 1048588
	share.coordinator.load.buffer.size INT 5242880
	share.coordinator.snapshot.update.records.per.snapshot INT 500
	share.coordinator.state.topic.compression.codec INT 0
	share.coordinator.threads INT 1
	share.coordinator.write.timeout.ms INT 5000
	share.fetch.purgatory.purge.interval.requests INT 1000
	socket.connection.setup.timeout.max.ms LONG 30000
	socket.connection.setup.timeout.ms LONG 10000
	ssl.allow.dn.changes BOOLEAN false
	ssl.allow.san.changes BOOLEAN false
	ssl.cipher.suites LIST ""
	ssl.client.auth STRING none
	ssl.enabled.protocols LIST TLSv1.2,TLSv1.3
	ssl.endpoint.identification.algorithm STRING https
	ssl.engine.factory.class CLASS -
	ssl.key.password PASSWORD -
	ssl.keymanager.algorithm STRING SunX509
	ssl.keystore.certificate.chain PASSWORD -
	ssl.keystore.key PASSWORD -
	ssl.keystore.location STRING -
	ssl.keystore.password PASSWORD -
	ssl.keystore.type STRING JKS
	ssl.principal.mapping.rules STRING DEFAULT
	ssl.protocol STRING TLSv1.3
	ssl.provider STRING -
	ssl.secure.random.implementation STRING -
	ssl.trustmanager.algorithm STRING PKIX
	ssl.truststore.certificates PASSWORD -
	ssl.truststore.location STRING -
	ssl.truststore.password PASSWORD -
	ssl.truststore.type STRING JKS
	transaction.abort.timed.out.transaction.cleanup.interval.ms INT 10000
	transaction.partition.verification.enable BOOLEAN true
	transaction.remove.expired.transaction.cleanup.interval.ms INT 3600000
	transaction.state.log.load.buffer.size INT 5242880
	transaction.two.phase.commit.enable BOOLEAN false
	transactional.id.expiration.ms INT 604800000
`

// otherDoc is the documentation of otherKeys.
const otherDoc = "A key of Kafka that has no effect in this broker."

// listedKeys is read-only, sorted by name.
var listedKeys = buildListedKeys()

// ListedKeys lists the broker keys that DescribeConfigs knows, sorted by name: those of
// BrokerKeys that Kafka has too, and otherKeys. The list is shared and must not be changed.
func ListedKeys() []Key { return listedKeys }

func buildListedKeys() []Key {
	var keys []Key
	for i := range brokerKeys {
		if !brokerKeys[i].Ours {
			keys = append(keys, brokerKeys[i])
		}
	}
	keys = append(keys, parseKeys(otherKeys)...)
	sortKeys(keys)
	return keys
}

// parseKeys reads a table of name, type and default.
func parseKeys(table string) []Key {
	var keys []Key
	for line := range strings.Lines(strings.TrimSpace(table)) {
		f := strings.Fields(line)
		keys = append(keys, Key{Name: f[0], Type: parseType(f[1]), Default: strings.Trim(f[2], "\""), Unset: f[2] == "-", Doc: otherDoc})
	}
	return keys
}

func parseType(text string) Type {
	for t := Boolean; t < Password; t++ {
		if t.String() == text {
			return t
		}
	}
	return Password
}
