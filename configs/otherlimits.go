package configs

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// internalKeys are like otherKeys, and not listed by DescribeConfigs.
const internalKeys = `
	controller.performance.always.log.threshold.ms LONG 2000
	controller.performance.sample.period.ms LONG 60000
	group.consumer.assignor.offload.enable BOOLEAN true
	group.consumer.regex.refresh.interval.ms INT 600000
	group.share.assignor.offload.enable BOOLEAN true
	group.share.dlq.manager.class.name STRING org.apache.kafka.server.share.dlq.DefaultShareGroupDLQManager
	group.share.initialize.retry.interval.ms INT 30000
	group.share.persister.class.name STRING org.apache.kafka.server.share.persister.DefaultStatePersister
	group.streams.acceptable.recovery.lag LONG 10000
	group.streams.assignor.offload.enable BOOLEAN true
	group.streams.max.warmup.replicas INT 20
	group.streams.min.task.offset.interval.ms INT 15000
	group.streams.num.warmup.replicas INT 2
	group.streams.task.offset.interval.ms INT 60000
	internal.metadata.delete.delay.millis LONG 60000
	internal.metadata.log.segment.bytes INT -
	internal.metadata.max.batch.size.in.bytes INT 8388608
	log.initial.task.delay.ms LONG 30000
	producer.id.expiration.check.interval.ms INT 600000
	remote.log.index.file.cache.ttl.ms LONG 900000
	remote.log.manager.task.retry.backoff.max.ms LONG 30000
	remote.log.manager.task.retry.backoff.ms LONG 500
	remote.log.manager.task.retry.jitter DOUBLE 0.2
	server.max.startup.time.ms LONG 9223372036854775807
	share.coordinator.cold.partition.snapshot.interval.ms INT 300000
	share.coordinator.state.topic.prune.interval.ms INT 300000
	unstable.api.versions.enable BOOLEAN false
	unstable.feature.versions.enable BOOLEAN false
`

// otherLimits are ranges in Kafka's notation, each before the keys that have it. What is
// refused by Kafka is refused here, too, although it would have no effect: a file that one
// of the two does not start with is wrong.
const otherLimits = `
	non-empty remote.log.metadata.manager.class.name remote.log.metadata.manager.impl.prefix
		remote.log.metadata.manager.listener.name remote.log.storage.manager.class.name
		remote.log.storage.manager.impl.prefix
	[-1,...] remote.log.index.file.cache.ttl.ms share.coordinator.append.linger.ms
	[0,...,0.5] remote.log.manager.task.retry.jitter
	[0,...,3600] sasl.oauthbearer.assertion.claim.nbf.seconds
	[0,...,500] share.coordinator.snapshot.update.records.per.snapshot
	[0,...,86400] sasl.oauthbearer.assertion.claim.exp.seconds
	[0,...] add.partitions.to.txn.retry.backoff.max.ms connection.failed.authentication.delay.ms
		controller.performance.always.log.threshold.ms controller.quorum.append.linger.ms
		controller.quorum.election.backoff.max.ms controller.quorum.request.timeout.ms
		controller.quorum.retry.backoff.ms group.consumer.assignment.interval.ms
		group.consumer.max.assignment.interval.ms group.consumer.min.assignment.interval.ms
		group.share.assignment.interval.ms group.share.max.assignment.interval.ms
		group.share.min.assignment.interval.ms group.streams.acceptable.recovery.lag
		group.streams.assignment.interval.ms group.streams.initial.rebalance.delay.ms
		group.streams.max.assignment.interval.ms group.streams.max.standby.replicas
		group.streams.max.warmup.replicas group.streams.min.assignment.interval.ms
		group.streams.num.standby.replicas group.streams.num.warmup.replicas log.initial.task.delay.ms
		metadata.log.max.snapshot.interval.ms metadata.max.idle.interval.ms
		remote.log.metadata.custom.metadata.max.bytes server.max.startup.time.ms
	[1,...,1000] group.share.max.size
	[1,...] add.partitions.to.txn.retry.backoff.ms alter.log.dirs.replication.quota.window.num
		alter.log.dirs.replication.quota.window.size.seconds background.threads controller.quorum.fetch.max.bytes
		controller.quorum.fetch.snapshot.max.bytes delegation.token.expiry.check.interval.ms
		delegation.token.expiry.time.ms delegation.token.max.lifetime.ms group.consumer.heartbeat.interval.ms
		group.consumer.max.heartbeat.interval.ms group.consumer.max.session.timeout.ms group.consumer.max.size
		group.consumer.min.heartbeat.interval.ms group.consumer.min.session.timeout.ms
		group.consumer.session.timeout.ms group.coordinator.background.threads group.coordinator.threads
		group.share.heartbeat.interval.ms group.share.initialize.retry.interval.ms
		group.share.max.heartbeat.interval.ms group.share.max.session.timeout.ms group.share.max.share.sessions
		group.share.min.heartbeat.interval.ms group.share.min.session.timeout.ms group.share.session.timeout.ms
		group.streams.heartbeat.interval.ms group.streams.max.heartbeat.interval.ms
		group.streams.max.session.timeout.ms group.streams.max.size group.streams.min.heartbeat.interval.ms
		group.streams.min.session.timeout.ms group.streams.min.task.offset.interval.ms
		group.streams.session.timeout.ms group.streams.task.offset.interval.ms kafka.metrics.polling.interval.secs
		log.dir.failure.timeout.ms metadata.log.max.record.bytes.between.snapshots metrics.num.samples
		metrics.sample.window.ms num.io.threads num.network.threads offsets.load.buffer.size
		producer.id.expiration.check.interval.ms remote.fetch.max.wait.ms remote.list.offsets.request.timeout.ms
		remote.log.index.file.cache.total.size.bytes remote.log.manager.copier.thread.pool.size
		remote.log.manager.copy.max.bytes.per.second remote.log.manager.copy.quota.window.num
		remote.log.manager.copy.quota.window.size.seconds remote.log.manager.expiration.thread.pool.size
		remote.log.manager.fetch.max.bytes.per.second remote.log.manager.fetch.quota.window.num
		remote.log.manager.fetch.quota.window.size.seconds remote.log.manager.follower.thread.pool.size
		remote.log.manager.task.interval.ms remote.log.manager.task.retry.backoff.max.ms
		remote.log.manager.task.retry.backoff.ms remote.log.manager.thread.pool.size
		remote.log.reader.max.pending.tasks remote.log.reader.threads
		share.coordinator.cold.partition.snapshot.interval.ms share.coordinator.load.buffer.size
		share.coordinator.state.topic.prune.interval.ms share.coordinator.threads share.coordinator.write.timeout.ms
		transaction.abort.timed.out.transaction.cleanup.interval.ms
		transaction.remove.expired.transaction.cleanup.interval.ms transaction.state.log.load.buffer.size
		transactional.id.expiration.ms
	[2,...,10] group.share.delivery.count.limit
	[2,...,5] group.share.min.delivery.count.limit
	[5,...,25] group.share.max.delivery.count.limit
	[100,...,10000] group.share.partition.max.record.locks
	[100,...,2000] group.share.min.partition.max.record.locks
	[100,...] controller.performance.sample.period.ms
	[1000,...,30000] group.share.min.record.lock.duration.ms
	[1000,...,3600000] group.share.record.lock.duration.ms
	[2000,...,10000] group.share.max.partition.max.record.locks
	[10000,...] group.consumer.regex.refresh.interval.ms
	[30000,...,3600000] group.share.max.record.lock.duration.ms
	[524288,...] group.coordinator.cached.buffer.max.bytes share.coordinator.cached.buffer.max.bytes
	[8388608,...] metadata.log.segment.bytes
`

// otherValidators are of those keys that take one of a few texts, or a list.
func otherValidators() map[string]Validator {
	return map[string]Validator{
		"group.consumer.assignors":        assignors{"uniform", "range"},
		"group.consumer.migration.policy": oneOfFold{"DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"},
		"group.coordinator.rebalance.protocols": listWith{
			listOf{elements: oneOf{"consumer", "classic", "share", "streams"}, notEmpty: true}, "classic",
		},
		"group.share.assignors":                           assignors{"simple"},
		"group.streams.assignors":                         assignors{"sticky"},
		"group.streams.rack.aware.assignment.tags":        noRepetitions{},
		"sasl.oauthbearer.assertion.algorithm":            oneOfFold{"ES256", "RS256"},
		"share.coordinator.state.topic.compression.codec": inRange(0, 4),
		"ssl.client.auth":                                 oneOf{"required", "requested", "none"},
	}
}

// unserved is read-only, sorted by name.
var unserved = buildUnserved()

// buildUnserved makes keys of otherKeys and internalKeys, with all that Kafka checks of one
// value by itself.
func buildUnserved() []Key {
	valid := otherValidators()
	var limit Validator
	for _, field := range strings.Fields(otherLimits) {
		if v := parseLimit(field); v != nil {
			limit = v
		} else {
			valid[field] = limit
		}
	}
	keys := slices.Concat(parseKeys(otherKeys), parseKeys(internalKeys))
	for i := range keys {
		key := &keys[i]
		switch key.Valid = valid[key.Name]; {
		case key.Valid != nil:
		case key.Type == List:
			key.Valid = listOf{}
		case key.Type == Class:
			key.Valid = className{}
		}
	}
	sortKeys(keys)
	return keys
}

// checkUnserved refuses what Kafka would not take as the value of a key that is not served.
func checkUnserved(name, text string) error {
	key := find(unserved, name)
	if key == nil {
		return nil
	}
	_, err := key.Parse(text)
	return err
}

// parseLimit reads [min,...], [min,...,max] and non-empty; nil is none of them.
func parseLimit(text string) Validator {
	if text == "non-empty" {
		return nonEmpty{}
	}
	bounds, isRange := strings.CutPrefix(strings.TrimSuffix(text, "]"), "[")
	if !isRange {
		return nil
	}
	low, high, _ := strings.Cut(bounds, ",...")
	least, _ := strconv.ParseFloat(low, 64) // the table is compared with Kafka's by a test
	if high == "" {
		return atLeast(least)
	}
	most, _ := strconv.ParseFloat(strings.TrimPrefix(high, ","), 64)
	return inRange(least, most)
}

// nonEmpty is any text but none.
type nonEmpty struct{}

func (nonEmpty) Check(value any) error {
	if value.(string) == "" {
		return errors.New("must not be empty")
	}
	return nil
}

func (nonEmpty) String() string { return "non-empty string" }

// oneOfFold is a text of a few, in small letters or capitals.
type oneOfFold []string

func (o oneOfFold) Check(value any) error {
	if slices.Contains(o, strings.ToUpper(value.(string))) {
		return nil
	}
	return fmt.Errorf("must be one of %s", strings.Join(o, ", "))
}

func (o oneOfFold) String() string { return "(case insensitive) [" + strings.Join(o, ", ") + "]" }

// className is the name of a Java class. None can be loaded here, so all that have a
// package are believed.
type className struct{}

func (className) Check(value any) error {
	if !strings.Contains(value.(string), ".") {
		return errors.New("must be the name of a class, with its package")
	}
	return nil
}

func (className) String() string { return "" }

// assignors is a list of these and of classes.
type assignors []string

func (a assignors) Check(value any) error {
	list := value.([]string)
	if len(list) == 0 {
		return errors.New("must not be empty")
	}
	for _, name := range list {
		if !slices.Contains(a, name) && (className{}).Check(name) != nil {
			return fmt.Errorf("must be a list of %s, or of classes", strings.Join(a, ", "))
		}
	}
	return nil
}

func (assignors) String() string { return "" }

// listWith is a list that has one of its elements.
type listWith struct {
	listOf
	needed string
}

func (l listWith) Check(value any) error {
	if err := l.listOf.Check(value); err != nil {
		return err
	}
	if !slices.Contains(value.([]string), l.needed) {
		return fmt.Errorf("must contain %s", l.needed)
	}
	return nil
}

// noRepetitions is a list in which nothing stands twice.
type noRepetitions struct{}

func (noRepetitions) Check(value any) error {
	list := value.([]string)
	if len(distinct(list)) < len(list) {
		return errors.New("must not name anything twice")
	}
	return listOf{}.Check(value)
}

func (noRepetitions) String() string { return "" }
