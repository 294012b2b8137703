package scenarios

import (
	"fmt"
	"slices"

	"github.com/klamm-mq/klamm/conform"
)

// topicKeys makes a scenario of each key that a topic can have, and of some that none
// has: which values are taken, and how they are answered.
func topicKeys() (all []conform.Scenario) {
	for _, key := range topicKeyTable() {
		all = append(all, conform.Scenario{
			Name: "createtopics/key-" + key.name, Key: 19,
			Run: func(r *conform.R) { tryTopicKey(r, key.name, slices.Concat(anyKey, key.values)) },
		})
	}
	return all
}

func tryTopicKey(r *conform.R, key string, values []string) {
	r.OnlyConfigs(key)
	for _, value := range values {
		r.Send(fmt.Sprintf("%q", value), validate(7, newTopic(r, "t", 1, 1, key, value)))
	}
}

type topicKey struct {
	name   string
	values []string
}

// Values by type. Those of anyKey are tried for every key.
var (
	anyKey = []string{"", " ", "x", "-1", "0", "1", "true", ",", "1.5"}

	integers = []string{
		"-3", "-2", "2", "3", "4", "9", "10", "14", "100", "1048575", "1048576", "2147483647", "2147483648", "-2147483648",
		"9223372036854775807", "9223372036854775808", "-9223372036854775808", " 5 ", "+5", "0x10", "1e3", "1_000", "٣", "𝟜𝟚", "½",
	}
	levels   = []string{"-2", "8", "9", "10", "16", "17", "18", "22", "23", "-131072", "-131073", " 5 ", "+5"}
	ratios   = []string{"0.5", "1.0", "1.01", "-0.1", "1e-3", "1e0", ".5", "0.5f", "0.5d", "0.5fd", "0x1p-1", "1e-400", "Infinity", "inf", "nan", "0_1", " 0.5 ", "0,5"}
	booleans = []string{"TRUE", "False", "false ", " true", "yes", "on", "t", "false"}
	replicas = []string{"*", "0:1,1:1", "0:1", "0:1,", "0:1, 1:1", "7", ":", "1:*", "*:1", "0:1:2", "a:b", "**", "*,0:1", "-1:1", "0:1,0:1"}
	policies = []string{
		"compact", "delete", "compact,delete", "delete,compact", "delete, compact", " delete ", "delete,delete", "Delete", "delete,",
		"[delete]", "none", "compact;delete",
	}
	codecs = []string{"producer", "uncompressed", "none", "gzip", "snappy", "lz4", "zstd", "GZIP", " gzip", "brotli"}
	stamps = []string{"CreateTime", "LogAppendTime", "createtime", "NoTimestampType", " CreateTime"}
)

func topicKeyTable() []topicKey {
	return []topicKey{
		{"cleanup.policy", policies},
		{"compression.gzip.level", levels},
		{"compression.lz4.level", levels},
		{"compression.zstd.level", levels},
		{"compression.type", codecs},
		{"delete.retention.ms", integers},
		{"errors.deadletterqueue.group.enable", booleans},
		{"file.delete.delay.ms", integers},
		{"flush.messages", integers},
		{"flush.ms", integers},
		{"follower.replication.throttled.replicas", replicas},
		{"leader.replication.throttled.replicas", replicas},
		{"index.interval.bytes", integers},
		{"local.retention.bytes", integers},
		{"local.retention.ms", integers},
		{"max.compaction.lag.ms", integers},
		{"max.message.bytes", integers},
		{"message.timestamp.after.max.ms", integers},
		{"message.timestamp.before.max.ms", integers},
		{"message.timestamp.type", stamps},
		{"min.cleanable.dirty.ratio", ratios},
		{"min.compaction.lag.ms", integers},
		{"min.insync.replicas", integers},
		{"preallocate", booleans},
		{"remote.copy.lag.bytes", integers},
		{"remote.copy.lag.ms", integers},
		{"remote.log.copy.disable", booleans},
		{"remote.log.delete.on.disable", booleans},
		{"retention.bytes", integers},
		{"retention.ms", integers},
		{"segment.bytes", integers},
		{"segment.index.bytes", integers},
		{"segment.jitter.ms", integers},
		{"segment.ms", integers},
		{"unclean.leader.election.enable", booleans},
		{"remote.storage.enable", []string{"false", "False", "yes"}},
		{"internal.segment.bytes", integers},
		{"message.format.version", []string{"3.0-IV1"}},
		{"message.downconversion.enable", booleans},
		{"no.such", nil},
		{"log.retention.ms", nil},
	}
}
