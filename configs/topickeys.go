package configs

import (
	"cmp"
	"slices"
)

// The units of synonyms whose topic key counts milliseconds.
const (
	milliseconds = 1
	minutes      = 60 * 1000
	hours        = 60 * minutes
)

// same are broker keys that give a topic key's value as it is.
func same(names ...string) []Synonym {
	synonyms := make([]Synonym, len(names))
	for i, name := range names {
		synonyms[i] = Synonym{Name: name}
	}
	return synonyms
}

// compressions are the values of compression.type; "producer" keeps what producers chose.
func compressions() oneOf {
	return oneOf{"uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"}
}

const (
	largest   = "9223372036854775807" // no limit, for a LONG
	maxArray  = 2147483639            // Java's longest array: Integer.MAX_VALUE - 8
	megabyte  = 1 << 20
	gzipUnset = -1 // the codec's own default
)

// topicKeys is read-only, sorted by name.
var topicKeys = buildTopicKeys()

// TopicKeys lists every topic key, sorted by name. The list is shared and must not be
// changed.
func TopicKeys() []Key { return topicKeys }

// TopicKey finds a topic key, or nil.
func TopicKey(name string) *Key { return find(topicKeys, name) }

// find looks a key up in a table that is sorted by name.
func find(keys []Key, name string) *Key {
	i, found := slices.BinarySearchFunc(keys, name, func(k Key, name string) int { return cmp.Compare(k.Name, name) })
	if !found {
		return nil
	}
	return &keys[i]
}

func buildTopicKeys() []Key {
	keys := []Key{
		{
			Name: "cleanup.policy", Type: List, Default: "delete", Valid: listOf{elements: oneOf{"compact", "delete"}},
			Synonyms: same("log.cleanup.policy"),
			Doc:      "What happens to old records: deleted by age and size, compacted by key, or both. Empty: kept for ever.",
		},
		{
			Name: "compression.gzip.level", Type: Int, Default: "-1", Valid: rangeOr{inRange(1, 9), gzipUnset},
			Synonyms: same("compression.gzip.level"),
			Doc:      "Level where the broker compresses with gzip; -1 is the codec's default.",
		},
		{
			Name: "compression.lz4.level", Type: Int, Default: "9", Valid: inRange(1, 17),
			Synonyms: same("compression.lz4.level"),
			Doc:      "Level where the broker compresses with lz4.",
		},
		{
			Name: "compression.type", Type: String, Default: "producer", Valid: compressions(),
			Synonyms: same("compression.type"),
			Doc:      "How batches are stored: as the producer sent them, uncompressed, or compressed by the broker.",
		},
		{
			Name: "compression.zstd.level", Type: Int, Default: "3", Valid: inRange(-131072, 22),
			Synonyms: same("compression.zstd.level"),
			Doc:      "Level where the broker compresses with zstd.",
		},
		{
			Name: "delete.retention.ms", Type: Long, Default: "86400000", Valid: atLeast(0),
			Synonyms: same("log.cleaner.delete.retention.ms"),
			Doc:      "How long a compacted topic keeps tombstones, so that slow readers see the deletion.",
		},
		{
			Name: "durability", Type: String, Default: "fsync", Valid: oneOf{"fsync", "replicated"}, Ours: true, Importance: High,
			Synonyms: same("durability"),
			Doc: "What acks=all waits for: fsync, written and flushed on every in-sync replica; " +
				"replicated, written on every in-sync replica, as in Kafka. May only be changed to replicated.",
		},
		{
			Name: "errors.deadletterqueue.group.enable", Type: Boolean, Default: "false",
			Doc: "Whether share groups may use this topic as their dead letter queue.",
		},
		{
			Name: "file.delete.delay.ms", Type: Long, Default: "60000", Valid: atLeast(0),
			Synonyms: same("log.segment.delete.delay.ms"),
			Doc:      "How long the directory of a deleted partition stays on disk under another name. Files of removed segments go at once; who reads them has them open.",
		},
		{
			Name: "flush.messages", Type: Long, Default: largest, Valid: atLeast(1),
			Synonyms: same("log.flush.interval.messages"),
			Doc:      "Records that may be unflushed with durability=replicated.",
		},
		{
			Name: "flush.ms", Type: Long, Default: largest, Valid: atLeast(0),
			Synonyms: same("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
			Doc:      "How long a record may be unflushed with durability=replicated.",
		},
		{
			Name: "follower.replication.throttled.replicas", Type: List, Default: "", Valid: throttledReplicas{},
			Doc: "Replicas (partition:broker, or *) whose fetching counts for the follower's throttle.",
		},
		{
			Name: "index.interval.bytes", Type: Int, Default: "4096", Valid: atLeast(0),
			Synonyms: same("log.index.interval.bytes"),
			Doc:      "Bytes of log between two entries of the offset index.",
		},
		{
			Name: "internal.segment.bytes", Type: Int, Unset: true, Internal: true,
			Doc: "Segment size below the smallest that segment.bytes allows, for tests.",
		},
		{
			Name: "leader.replication.throttled.replicas", Type: List, Default: "", Valid: throttledReplicas{},
			Doc: "Replicas (partition:broker, or *) that count for the leader's throttle.",
		},
	}
	keys = append(keys, retentionAndLimits()...)
	keys = append(keys, segmentsAndRemote()...)
	for i := range keys {
		if keys[i].Importance == "" {
			keys[i].Importance = Medium
		}
	}
	return keys
}

func retentionAndLimits() []Key {
	return []Key{
		{
			Name: "local.retention.bytes", Type: Long, Default: "-2", Valid: atLeast(-2),
			Synonyms: same("log.local.retention.bytes"),
			Doc:      "Bytes of a tiered partition that stay on local disk; -2 is retention.bytes.",
		},
		{
			Name: "local.retention.ms", Type: Long, Default: "-2", Valid: atLeast(-2),
			Synonyms: same("log.local.retention.ms"),
			Doc:      "Age of a tiered partition's records on local disk; -2 is retention.ms.",
		},
		{
			Name: "max.compaction.lag.ms", Type: Long, Default: largest, Valid: atLeast(1),
			Synonyms: same("log.cleaner.max.compaction.lag.ms"),
			Doc:      "How long a record may stay uncompacted.",
		},
		{
			Name: "max.decompressed.message.bytes", Type: Int, Default: "2147483639", Valid: inRange(1, maxArray),
			Synonyms: same("max.decompressed.message.bytes"),
			Doc:      "Largest batch after decompression; bounds what a hostile batch can cost.",
		},
		{
			Name: "max.message.bytes", Type: Int, Default: "1048588", Valid: atLeast(0),
			Synonyms: same("message.max.bytes"),
			Doc:      "Largest record batch, as stored.",
		},
		{
			Name: "message.timestamp.after.max.ms", Type: Long, Default: "3600000", Valid: atLeast(0),
			Synonyms: same("log.message.timestamp.after.max.ms"),
			Doc:      "How far a record's time may lie ahead of the broker's, with CreateTime.",
		},
		{
			Name: "message.timestamp.before.max.ms", Type: Long, Default: largest, Valid: atLeast(0),
			Synonyms: same("log.message.timestamp.before.max.ms"),
			Doc:      "How far a record's time may lie behind the broker's, with CreateTime.",
		},
		{
			Name: "message.timestamp.type", Type: String, Default: "CreateTime", Valid: oneOf{"CreateTime", "LogAppendTime"},
			Synonyms: same("log.message.timestamp.type"),
			Doc:      "Whose clock stamps records: the producer's or the broker's at append.",
		},
		{
			Name: "min.cleanable.dirty.ratio", Type: Double, Default: "0.5", Valid: inRange(0, 1),
			Synonyms: same("log.cleaner.min.cleanable.ratio"),
			Doc:      "Share of a log that must be uncompacted before it is compacted.",
		},
		{
			Name: "min.compaction.lag.ms", Type: Long, Default: "0", Valid: atLeast(0),
			Synonyms: same("log.cleaner.min.compaction.lag.ms"),
			Doc:      "How long a record stays uncompacted at least.",
		},
		{
			Name: "min.insync.replicas", Type: Int, Default: "1", Valid: atLeast(1),
			Synonyms: same("min.insync.replicas"),
			Doc:      "In-sync replicas without which acks=all is refused and nothing becomes visible.",
		},
		{
			Name: "preallocate", Type: Boolean, Default: "false",
			Synonyms: same("log.preallocate"),
			Doc:      "Accepted for compatibility; segment files are never preallocated.",
		},
	}
}

func segmentsAndRemote() []Key {
	return []Key{
		{
			Name: "remote.copy.lag.bytes", Type: Long, Default: "-1", Valid: atLeast(-1),
			Synonyms: same("log.remote.copy.lag.bytes"),
			Doc:      "Bytes that a tiered partition leaves uncopied.",
		},
		{
			Name: "remote.copy.lag.ms", Type: Long, Default: "0", Valid: atLeast(-1),
			Synonyms: same("log.remote.copy.lag.ms"),
			Doc:      "Time for which a tiered partition leaves records uncopied.",
		},
		{
			Name: "remote.log.copy.disable", Type: Boolean, Default: "false",
			Doc: "Stops copying to remote storage; what is there stays readable.",
		},
		{
			Name: "remote.log.delete.on.disable", Type: Boolean, Default: "false",
			Doc: "Removes remote data when remote storage is disabled.",
		},
		{
			Name: "remote.storage.enable", Type: Boolean, Default: "false",
			Doc: "Tiered storage for this topic.",
		},
		{
			Name: "retention.bytes", Type: Long, Default: "-1",
			Synonyms: same("log.retention.bytes"),
			Doc:      "Size beyond which a partition's oldest segments are deleted; negative for no limit.",
		},
		{
			Name: "retention.ms", Type: Long, Default: "604800000", Valid: atLeast(-1),
			Synonyms: []Synonym{{"log.retention.ms", milliseconds}, {"log.retention.minutes", minutes}, {"log.retention.hours", hours}},
			Doc:      "Age at which segments are deleted; -1 for ever.",
		},
		{
			Name: "segment.bytes", Type: Int, Default: "1073741824", Valid: atLeast(megabyte),
			Synonyms: same("log.segment.bytes"),
			Doc:      "Size at which a new segment begins.",
		},
		{
			Name: "segment.index.bytes", Type: Int, Default: "10485760", Valid: atLeast(4),
			Synonyms: same("log.index.size.max.bytes"),
			Doc:      "Size of a segment's offset index at which a new segment begins.",
		},
		{
			Name: "segment.jitter.ms", Type: Long, Default: "0", Valid: atLeast(0),
			Synonyms: []Synonym{{Name: "log.roll.jitter.ms"}, {"log.roll.jitter.hours", hours}},
			Doc:      "Random part of segment.ms that is left out, so that partitions do not roll together.",
		},
		{
			Name: "segment.ms", Type: Long, Default: "604800000", Valid: atLeast(1),
			Synonyms: []Synonym{{Name: "log.roll.ms"}, {"log.roll.hours", hours}},
			Doc:      "Age at which a new segment begins even if the old one is not full.",
		},
		{
			Name: "unclean.leader.election.enable", Type: Boolean, Default: "false",
			Synonyms: same("unclean.leader.election.enable"),
			Doc:      "Whether a replica that is not in sync may lead when no other is left; acknowledged records may be lost.",
		},
	}
}
