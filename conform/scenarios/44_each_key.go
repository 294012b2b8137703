package scenarios

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

// changeEachTopicKey makes a scenario of each topic key: every value is tried.
func changeEachTopicKey() (all []conform.Scenario) {
	for _, key := range topicKeyTable() {
		all = append(all, conform.Scenario{
			Name: "incrementalalterconfigs/topic-key-" + key.name, Key: 44,
			Run: func(r *conform.R) {
				r.CreateTopic("t", 1)
				tryKey(r, topicResource, r.Name("t"), key.name, slices.Concat(anyKey, key.values))
			},
		})
	}
	return all
}

func tryKey(r *conform.R, kind kmsg.ConfigResourceType, name, key string, values []string) {
	for _, value := range values {
		r.Send(fmt.Sprintf("%q", value), validated(1, change(kind, name, operation{set, key, of(value)})))
	}
	r.Send("delete", validated(1, change(kind, name, operation{remove, key, nil})))
}

// changeEachGroupKey does so for the keys of groups.
func changeEachGroupKey() (all []conform.Scenario) {
	for _, key := range groupKeyTable() {
		all = append(all, conform.Scenario{
			Name: "incrementalalterconfigs/group-key-" + key.name, Key: 44,
			Run: func(r *conform.R) {
				tryKey(r, groupResource, r.Name("g"), key.name, slices.Concat(anyKey, key.values))
			},
		})
	}
	return all
}

func groupKeyTable() []topicKey {
	numbers := []string{
		"2", "3", "15", "16", "99", "100", "999", "1000", "4999", "5000", "5001", "10000", "10001", "15000", "15001", "30000", "45000",
		"60000", "60001", "3600000", "3600001", "2147483647", "2147483648", "9223372036854775807", " 5 ",
	}
	resets := []string{"earliest", "latest", "EARLIEST", "none", "by_duration:PT1H", "by_duration:P1D", "by_duration:-PT1H", "by_duration:x", "by_duration:"}
	levels := []string{"read_committed", "read_uncommitted", "READ_COMMITTED", "serializable"}
	names := []string{"range", "sticky", "highly_available", "a,b", "a,a", "a b", longName, longName + "y", "..", "__x"}
	return []topicKey{
		{"consumer.assignment.interval.ms", numbers},
		{"consumer.assignor.offload.enable", booleans},
		{"consumer.heartbeat.interval.ms", numbers},
		{"consumer.session.timeout.ms", numbers},
		{"errors.deadletterqueue.copy.record.enable", booleans},
		{"errors.deadletterqueue.topic.name", names},
		{"share.assignment.interval.ms", numbers},
		{"share.assignor.offload.enable", booleans},
		{"share.auto.offset.reset", resets},
		{"share.delivery.count.limit", numbers},
		{"share.heartbeat.interval.ms", numbers},
		{"share.isolation.level", levels},
		{"share.partition.max.record.locks", numbers},
		{"share.record.lock.duration.ms", numbers},
		{"share.renew.acknowledge.enable", booleans},
		{"share.session.timeout.ms", numbers},
		{"streams.acceptable.recovery.lag", numbers},
		{"streams.assignment.interval.ms", numbers},
		{"streams.assignor.name", names},
		{"streams.assignor.offload.enable", booleans},
		{"streams.heartbeat.interval.ms", numbers},
		{"streams.initial.rebalance.delay.ms", numbers},
		{"streams.num.standby.replicas", numbers},
		{"streams.num.warmup.replicas", numbers},
		{"streams.rack.aware.assignment.tags", names},
		{"streams.session.timeout.ms", numbers},
		{"streams.task.offset.interval.ms", numbers},
		{"no.such", nil},
		{"group.consumer.session.timeout.ms", nil},
	}
}
