package configs

import "time"

// Groups are the limits and paces of classic groups and of committed offsets.
type Groups struct {
	InitialRebalanceDelay                time.Duration
	MinSessionTimeout, MaxSessionTimeout time.Duration
	MaxSize                              int32         // members of one group; 2147483647: no limit
	AppendLinger                         time.Duration // negative: as long as the coordinator is busy

	OffsetMetadataMaxBytes int32
	OffsetCommitTimeout    time.Duration
	OffsetsRetention       time.Duration
	RetentionCheckInterval time.Duration
}

func groupCoordinatorKeys() []Key {
	return []Key{
		{
			Name: "group.coordinator.append.linger.ms", Type: Int, Default: "-1", Valid: atLeast(-1), Importance: Medium,
			Doc: "How long coordinators gather records for one batch; -1 lets them choose by their load.",
		},
		{
			Name: "group.initial.rebalance.delay.ms", Type: Int, Default: "3000", Importance: Medium,
			Doc: "How long a group that was empty waits for more members before its first rebalance.",
		},
		{
			Name: "group.max.session.timeout.ms", Type: Int, Default: "1800000", Importance: Medium,
			Doc: "Longest session timeout that a member may ask for.",
		},
		{
			Name: "group.max.size", Type: Int, Default: noLimit, Valid: atLeast(1), Importance: Medium,
			Doc: "Members of one group.",
		},
		{
			Name: "group.min.session.timeout.ms", Type: Int, Default: "6000", Importance: Medium,
			Doc: "Shortest session timeout that a member may ask for.",
		},
		{
			Name: "offset.metadata.max.bytes", Type: Int, Default: "4096", Importance: High,
			Doc: "Longest text that a client may store with a committed offset.",
		},
		{
			Name: "offsets.commit.timeout.ms", Type: Int, Default: "5000", Valid: atLeast(1), Importance: High,
			Doc: "How long a commit waits for the replicas of __consumer_offsets.",
		},
		{
			Name: "offsets.retention.check.interval.ms", Type: Long, Default: "600000", Valid: atLeast(1), Importance: High,
			Doc: "Time between two looks for expired offsets.",
		},
		{
			Name: "offsets.retention.minutes", Type: Int, Default: "10080", Valid: atLeast(1), Importance: High,
			Doc: "Offsets of a group without members, and of topics that no member subscribes to, are removed after so long.",
		},
	}
}

func (b *Broker) groups(v values) {
	b.Groups = Groups{
		InitialRebalanceDelay:  v.ms("group.initial.rebalance.delay.ms"),
		MinSessionTimeout:      v.ms("group.min.session.timeout.ms"),
		MaxSessionTimeout:      v.ms("group.max.session.timeout.ms"),
		MaxSize:                v.int("group.max.size"),
		AppendLinger:           v.ms("group.coordinator.append.linger.ms"),
		OffsetMetadataMaxBytes: v.int("offset.metadata.max.bytes"),
		OffsetCommitTimeout:    v.ms("offsets.commit.timeout.ms"),
		OffsetsRetention:       time.Duration(v.int("offsets.retention.minutes")) * time.Minute,
		RetentionCheckInterval: v.ms("offsets.retention.check.interval.ms"),
	}
}
