package configs

// groupKeys is read-only, sorted by name.
var groupKeys = buildGroupKeys()

// GroupKeys lists every key that a group may be told (Kafka's GroupConfig, the resource
// type GROUP), sorted by name. Where a group says nothing, the broker key named as its
// synonym counts. They are of consumer, share and streams groups; classic groups have
// none. The list is shared and must not be changed.
func GroupKeys() []Key { return groupKeys }

// GroupKey finds a group key, or nil.
func GroupKey(name string) *Key { return find(groupKeys, name) }

func buildGroupKeys() []Key {
	var keys []Key
	for _, part := range [][]Key{membershipKeys(), shareKeys(), streamsKeys()} {
		keys = append(keys, part...)
	}
	for i := range keys {
		if keys[i].Importance == "" {
			keys[i].Importance = Medium
		}
	}
	sortKeys(keys)
	return keys
}

// membershipKeys are what each of the three kinds of group has under its own prefix.
func membershipKeys() (keys []Key) {
	for _, kind := range []string{"consumer", "share", "streams"} {
		keys = append(keys,
			Key{
				Name: kind + ".assignment.interval.ms", Type: Int, Default: "1000", Valid: atLeast(0),
				Doc: "Least time between two new assignments of a " + kind + " group.",
			},
			Key{
				Name: kind + ".assignor.offload.enable", Type: Boolean, Default: "true", Internal: true,
				Doc: "Whether the assignment of a " + kind + " group is computed beside its coordinator.",
			},
			Key{
				Name: kind + ".heartbeat.interval.ms", Type: Int, Default: "5000", Valid: atLeast(1),
				Doc: "Time between two heartbeats of a member of a " + kind + " group.",
			},
			Key{
				Name: kind + ".session.timeout.ms", Type: Int, Default: "45000", Valid: atLeast(1),
				Doc: "Without a heartbeat for so long a member leaves its " + kind + " group.",
			},
		)
	}
	for i := range keys {
		keys[i].Synonyms = same("group." + keys[i].Name)
	}
	return keys
}

func shareKeys() []Key {
	return []Key{
		{
			Name: "errors.deadletterqueue.copy.record.enable", Type: Boolean, Default: "false",
			Doc: "Whether the dead letter queue gets the record itself, or only headers that tell where it is.",
		},
		{
			Name: "errors.deadletterqueue.topic.name", Type: String, Default: "",
			Doc: "Topic for records of a share group that nobody could process; empty for none.",
		},
		{
			Name: "share.auto.offset.reset", Type: String, Default: "latest", Valid: shareReset{},
			Doc: "Where a share group begins: earliest, latest, or by_duration: and an ISO 8601 duration before now.",
		},
		{
			Name: "share.delivery.count.limit", Type: Int, Default: "5", Valid: atLeast(2),
			Synonyms: same("group.share.delivery.count.limit"),
			Doc:      "How often a record is delivered before the share group gives up on it.",
		},
		{
			Name: "share.isolation.level", Type: String, Default: "read_uncommitted", Valid: oneOf{"read_committed", "read_uncommitted"},
			Doc: "Whether a share group sees records of transactions that are open or were aborted.",
		},
		{
			Name: "share.partition.max.record.locks", Type: Int, Default: "2000", Valid: atLeast(100),
			Synonyms: same("group.share.partition.max.record.locks"),
			Doc:      "Records of one partition that may be out for processing at a time.",
		},
		{
			Name: "share.record.lock.duration.ms", Type: Int, Default: "30000", Valid: atLeast(1000),
			Synonyms: same("group.share.record.lock.duration.ms"),
			Doc:      "How long a member may work on a record before others get it.",
		},
		{
			Name: "share.renew.acknowledge.enable", Type: Boolean, Default: "true",
			Doc: "Whether a member may ask for more time for a record.",
		},
	}
}

func streamsKeys() []Key {
	return []Key{
		{
			Name: "streams.acceptable.recovery.lag", Type: Long, Default: "10000", Valid: atLeast(0), Internal: true,
			Synonyms: same("group.streams.acceptable.recovery.lag"),
			Doc:      "How far behind a client's state may be for it to get a task at once.",
		},
		{
			Name: "streams.assignor.name", Type: String, Unset: true,
			Synonyms: same("group.streams.assignors"),
			Doc:      "Task assignor of the group, one of group.streams.assignors. Unset: the first of them.",
		},
		{
			Name: "streams.initial.rebalance.delay.ms", Type: Int, Default: "3000", Valid: atLeast(0),
			Synonyms: same("group.streams.initial.rebalance.delay.ms"),
			Doc:      "How long a new streams group waits for more members before its first assignment.",
		},
		{
			Name: "streams.num.standby.replicas", Type: Int, Default: "0", Valid: atLeast(0),
			Synonyms: same("group.streams.num.standby.replicas"),
			Doc:      "Standby copies of each task's state.",
		},
		{
			Name: "streams.num.warmup.replicas", Type: Int, Default: "2", Valid: atLeast(0), Internal: true,
			Synonyms: same("group.streams.num.warmup.replicas"),
			Doc:      "Extra copies that may be built up at a time so that tasks can move.",
		},
		{
			Name: "streams.rack.aware.assignment.tags", Type: List, Default: "", Importance: Low, Valid: listOf{},
			Synonyms: same("group.streams.rack.aware.assignment.tags"),
			Doc:      "Client tags over which standby copies are spread.",
		},
		{
			Name: "streams.task.offset.interval.ms", Type: Int, Default: "60000", Valid: atLeast(1), Internal: true,
			Synonyms: same("group.streams.task.offset.interval.ms"),
			Doc:      "Time between two reports of how far warm-up copies have come.",
		},
	}
}
