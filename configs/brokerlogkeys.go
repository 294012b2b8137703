package configs

func logKeys() []Key {
	return []Key{
		{
			Name: "log.dir", Type: List, Default: "./klamm-data", Valid: listOf{notEmpty: true}, Importance: High,
			Doc: "Directory of the logs, where log.dirs is not set.",
		},
		{
			Name: "log.dirs", Type: List, Unset: true, Valid: listOf{notEmpty: true}, Importance: High,
			Doc: "Directories of the logs. Unset: log.dir.",
		},
		{
			Name: "log.flush.offset.checkpoint.interval.ms", Type: Int, Default: "30000", Valid: atLeast(0), Importance: High,
			Doc: "Time between two checkpoints of recovery points.",
		},
		{
			Name: "log.flush.start.offset.checkpoint.interval.ms", Type: Int, Default: "60000", Valid: atLeast(0), Importance: High,
			Doc: "Time between two checkpoints of log start offsets.",
		},
		{
			Name: "log.retention.check.interval.ms", Type: Long, Default: "300000", Valid: atLeast(1), Importance: Medium,
			Doc: "Time between two looks for segments to delete.",
		},
		{
			Name: "num.recovery.threads.per.data.dir", Type: Int, Default: "2", Valid: atLeast(1), Importance: High,
			Doc: "Logs of one directory that are recovered at a time at start.",
		},
		{
			Name: "num.replica.alter.log.dirs.threads", Type: Int, Unset: true, Importance: High,
			Doc: "Replicas that are moved between log directories at a time. Unset: as many as there are directories.",
		},
	}
}

// topicDefaultKeys are the synonyms of topic keys; their meaning is explained there.
func topicDefaultKeys() []Key {
	const doc = "Value of topics that do not set it: "
	return []Key{
		{Name: "compression.gzip.level", Type: Int, Default: "-1", Valid: rangeOr{inRange(1, 9), gzipUnset}, Importance: Medium, Doc: doc + "the same key."},
		{Name: "compression.lz4.level", Type: Int, Default: "9", Valid: inRange(1, 17), Importance: Medium, Doc: doc + "the same key."},
		{Name: "compression.type", Type: String, Default: "producer", Valid: compressions(), Importance: High, Doc: doc + "the same key."},
		{Name: "compression.zstd.level", Type: Int, Default: "3", Valid: inRange(-131072, 22), Importance: Medium, Doc: doc + "the same key."},
		{Name: "log.cleaner.delete.retention.ms", Type: Long, Default: "86400000", Valid: atLeast(0), Importance: Medium, Doc: doc + "delete.retention.ms."},
		{Name: "log.cleaner.max.compaction.lag.ms", Type: Long, Default: largest, Valid: atLeast(1), Importance: Medium, Doc: doc + "max.compaction.lag.ms."},
		{Name: "log.cleaner.min.cleanable.ratio", Type: Double, Default: "0.5", Valid: inRange(0, 1), Importance: Medium, Doc: doc + "min.cleanable.dirty.ratio."},
		{Name: "log.cleaner.min.compaction.lag.ms", Type: Long, Default: "0", Valid: atLeast(0), Importance: Medium, Doc: doc + "min.compaction.lag.ms."},
		{Name: "log.cleanup.policy", Type: List, Default: "delete", Valid: listOf{elements: oneOf{"compact", "delete"}}, Importance: Medium, Doc: doc + "cleanup.policy."},
		{Name: "log.flush.interval.messages", Type: Long, Default: largest, Valid: atLeast(1), Importance: High, Doc: doc + "flush.messages."},
		{Name: "log.flush.interval.ms", Type: Long, Unset: true, Importance: High, Doc: doc + "flush.ms. Unset: log.flush.scheduler.interval.ms."},
		{Name: "log.flush.scheduler.interval.ms", Type: Long, Default: largest, Importance: High, Doc: doc + "flush.ms, where log.flush.interval.ms is not set."},
		{Name: "log.index.interval.bytes", Type: Int, Default: "4096", Valid: atLeast(0), Importance: Medium, Doc: doc + "index.interval.bytes."},
		{Name: "log.index.size.max.bytes", Type: Int, Default: "10485760", Valid: atLeast(4), Importance: Medium, Doc: doc + "segment.index.bytes."},
		{Name: "log.local.retention.bytes", Type: Long, Default: "-2", Valid: atLeast(-2), Importance: Medium, Doc: doc + "local.retention.bytes."},
		{Name: "log.local.retention.ms", Type: Long, Default: "-2", Valid: atLeast(-2), Importance: Medium, Doc: doc + "local.retention.ms."},
		{Name: "log.message.timestamp.after.max.ms", Type: Long, Default: "3600000", Valid: atLeast(0), Importance: Medium, Doc: doc + "message.timestamp.after.max.ms."},
		{Name: "log.message.timestamp.before.max.ms", Type: Long, Default: largest, Valid: atLeast(0), Importance: Medium, Doc: doc + "message.timestamp.before.max.ms."},
		{Name: "log.message.timestamp.type", Type: String, Default: "CreateTime", Valid: oneOf{"CreateTime", "LogAppendTime"}, Importance: Medium, Doc: doc + "message.timestamp.type."},
		{Name: "log.preallocate", Type: Boolean, Default: "false", Importance: Medium, Doc: doc + "preallocate."},
		{Name: "log.remote.copy.lag.bytes", Type: Long, Default: "-1", Valid: atLeast(-1), Importance: Medium, Doc: doc + "remote.copy.lag.bytes."},
		{Name: "log.remote.copy.lag.ms", Type: Long, Default: "0", Valid: atLeast(-1), Importance: Medium, Doc: doc + "remote.copy.lag.ms."},
		{Name: "log.retention.bytes", Type: Long, Default: "-1", Importance: High, Doc: doc + "retention.bytes."},
		{Name: "log.retention.hours", Type: Int, Default: "168", Importance: High, Doc: doc + "retention.ms, in hours, where the two finer keys are not set."},
		{Name: "log.retention.minutes", Type: Int, Unset: true, Importance: High, Doc: doc + "retention.ms, in minutes, where log.retention.ms is not set."},
		{Name: "log.retention.ms", Type: Long, Unset: true, Importance: High, Doc: doc + "retention.ms; negative for ever."},
		{Name: "log.roll.hours", Type: Int, Default: "168", Valid: atLeast(1), Importance: High, Doc: doc + "segment.ms, in hours, where log.roll.ms is not set."},
		{Name: "log.roll.jitter.hours", Type: Int, Default: "0", Valid: atLeast(0), Importance: High, Doc: doc + "segment.jitter.ms, in hours, where log.roll.jitter.ms is not set."},
		{Name: "log.roll.jitter.ms", Type: Long, Unset: true, Importance: High, Doc: doc + "segment.jitter.ms."},
		{Name: "log.roll.ms", Type: Long, Unset: true, Importance: High, Doc: doc + "segment.ms."},
		{Name: "log.segment.bytes", Type: Int, Default: "1073741824", Valid: atLeast(megabyte), Importance: High, Doc: doc + "segment.bytes."},
		{Name: "log.segment.delete.delay.ms", Type: Long, Default: "60000", Valid: atLeast(0), Importance: High, Doc: doc + "file.delete.delay.ms."},
		{Name: "max.decompressed.message.bytes", Type: Int, Default: "2147483639", Valid: inRange(1, maxArray), Importance: Medium, Doc: doc + "the same key."},
		{Name: "message.max.bytes", Type: Int, Default: "1048588", Valid: atLeast(0), Importance: High, Doc: doc + "max.message.bytes."},
		{Name: "min.insync.replicas", Type: Int, Default: "1", Valid: atLeast(1), Importance: High, Doc: doc + "the same key."},
		{Name: "unclean.leader.election.enable", Type: Boolean, Default: "false", Importance: High, Doc: doc + "the same key."},
	}
}

func replicationKeys() []Key {
	return []Key{
		{
			Name: "auto.leader.rebalance.enable", Type: Boolean, Default: "true", Importance: High,
			Doc: "Whether leadership returns to preferred replicas by itself.",
		},
		{
			Name: "leader.imbalance.check.interval.seconds", Type: Long, Default: "300", Valid: atLeast(1), Importance: High,
			Doc: "Time between two looks at the balance of leaders.",
		},
		{
			Name: "num.replica.fetchers", Type: Int, Default: "1", Valid: atLeast(1), Importance: High,
			Doc: "Connections on which replicas are fetched from one leader into one log directory.",
		},
		{
			Name: "replica.fetch.backoff.ms", Type: Int, Default: "1000", Valid: atLeast(0), Importance: Medium,
			Doc: "Wait of a follower after a failed fetch.",
		},
		{
			Name: "replica.fetch.max.bytes", Type: Int, Default: "1048576", Valid: atLeast(0), Importance: Medium,
			Doc: "Bytes that a follower asks for of one partition; a larger batch is fetched all the same.",
		},
		{
			Name: "replica.fetch.min.bytes", Type: Int, Default: "1", Importance: High,
			Doc: "Bytes for which a follower's fetch waits.",
		},
		{
			Name: "replica.fetch.response.max.bytes", Type: Int, Default: "10485760", Valid: atLeast(0), Importance: Medium,
			Doc: "Bytes that a follower asks for in one answer.",
		},
		{
			Name: "replica.fetch.wait.max.ms", Type: Int, Default: "500", Importance: High,
			Doc: "How long a follower's fetch waits.",
		},
		{
			Name: "replica.high.watermark.checkpoint.interval.ms", Type: Long, Default: "5000", Valid: atLeast(1), Importance: High,
			Doc: "Time between two checkpoints of high watermarks.",
		},
		{
			Name: "replica.lag.time.max.ms", Type: Long, Default: "30000", Valid: atLeast(1), Importance: High,
			Doc: "A follower that has not caught up for so long leaves the in-sync replicas.",
		},
		{
			Name: "replica.selector.class", Type: String, Unset: true, Valid: oneOf{RackAwareSelector}, Importance: Medium,
			Doc: "How leaders choose the replica that consumers read from: with this one, a replica in the consumer's rack. Unset: the leader.",
		},
		{
			Name: "replica.socket.receive.buffer.bytes", Type: Int, Default: "65536", Importance: High,
			Doc: "Receive buffer of followers' connections; where nobody sets it, and with -1, the system's choice.",
		},
		{
			Name: "replica.socket.timeout.ms", Type: Int, Default: "30000", Importance: High,
			Doc: "How long a follower's request may take.",
		},
		{
			Name: "unclean.leader.election.interval.ms", Type: Long, Default: "300000", Valid: atLeast(1), Importance: Medium, Internal: true,
			Doc: "Time between two looks for partitions that need an unclean election.",
		},
	}
}

func coordinatorKeys() []Key {
	doc := func(topic string) string {
		return "Replicas of " + topic + ". Unset: 3, or 1 in a cluster of one broker that was founded for one."
	}
	return []Key{
		{
			Name: "offsets.topic.compression.codec", Type: Int, Default: "0", Valid: inRange(0, 4), Importance: High,
			Doc: "Codec of __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
		},
		{
			Name: "offsets.topic.num.partitions", Type: Int, Default: "50", Valid: atLeast(1), Importance: High,
			Doc: "Partitions of __consumer_offsets; must not change once it exists.",
		},
		{Name: "offsets.topic.replication.factor", Type: Short, Default: "3", Valid: atLeast(1), Importance: High, Doc: doc("__consumer_offsets")},
		{
			Name: "offsets.topic.segment.bytes", Type: Int, Default: "104857600", Valid: atLeast(1), Importance: High,
			Doc: "Segment size of __consumer_offsets.",
		},
		{
			Name: "producer.id.expiration.ms", Type: Int, Default: "86400000", Valid: atLeast(1), Importance: Low,
			Doc: "How long a partition remembers an idle producer's last batches.",
		},
		{
			Name: "share.coordinator.state.topic.min.isr", Type: Short, Default: "2", Valid: atLeast(1), Importance: High,
			Doc: "min.insync.replicas of __share_group_state.",
		},
		{
			Name: "share.coordinator.state.topic.num.partitions", Type: Int, Default: "50", Valid: atLeast(1), Importance: High,
			Doc: "Partitions of __share_group_state; must not change once it exists.",
		},
		{Name: "share.coordinator.state.topic.replication.factor", Type: Short, Default: "3", Valid: atLeast(1), Importance: High, Doc: doc("__share_group_state")},
		{
			Name: "share.coordinator.state.topic.segment.bytes", Type: Int, Default: "104857600", Valid: atLeast(1), Importance: High,
			Doc: "Segment size of __share_group_state.",
		},
		{
			Name: "transaction.max.timeout.ms", Type: Int, Default: "900000", Valid: atLeast(1), Importance: High,
			Doc: "Longest transaction that a producer may ask for.",
		},
		{
			Name: "transaction.state.log.min.isr", Type: Int, Default: "2", Valid: atLeast(1), Importance: High,
			Doc: "min.insync.replicas of __transaction_state.",
		},
		{
			Name: "transaction.state.log.num.partitions", Type: Int, Default: "50", Valid: atLeast(1), Importance: High,
			Doc: "Partitions of __transaction_state; must not change once it exists.",
		},
		{Name: "transaction.state.log.replication.factor", Type: Short, Default: "3", Valid: atLeast(1), Importance: High, Doc: doc("__transaction_state")},
		{
			Name: "transaction.state.log.segment.bytes", Type: Int, Default: "104857600", Valid: atLeast(1), Importance: High,
			Doc: "Segment size of __transaction_state.",
		},
	}
}
