package configs

// brokerKeys is read-only, sorted by name.
var brokerKeys = buildBrokerKeys()

// BrokerKeys lists every broker key that is served, sorted by name. The list is shared
// and must not be changed.
func BrokerKeys() []Key { return brokerKeys }

// BrokerKey finds a broker key, or nil.
func BrokerKey(name string) *Key { return find(brokerKeys, name) }

func buildBrokerKeys() []Key {
	var keys []Key
	for _, part := range [][]Key{identityKeys(), quorumKeys(), networkKeys(), quotaKeys(), topicKeysOfBroker(), logKeys(), cleanerKeys(), topicDefaultKeys(), replicationKeys(), coordinatorKeys(), groupCoordinatorKeys()} {
		keys = append(keys, part...)
	}
	sortKeys(keys)
	return keys
}

// noLimit is the largest INT, which in limits means none.
const noLimit = "2147483647"

func identityKeys() []Key {
	return []Key{
		{
			Name: "admin.listener", Type: String, Default: "127.0.0.1:9644", Valid: hostPort{emptyOK: true}, Importance: Medium, Ours: true,
			Doc: "Address of metrics, health and the console; empty for none.",
		},
		{
			Name: "broker.id", Type: Int, Default: "-1", Importance: High,
			Doc: "Older name of node.id.",
		},
		{
			Name: "broker.rack", Type: String, Unset: true, Importance: Medium,
			Doc: "Where this broker stands; replicas are spread over racks.",
		},
		{
			Name: "cluster.id", Type: String, Unset: true, Valid: clusterID{}, Importance: Medium, Ours: true,
			Doc: "Id of the cluster that this node founds or expects to find: 22 characters. Unset: drawn when the cluster is founded.",
		},
		{
			Name: "controlled.shutdown.enable", Type: Boolean, Default: "true", Importance: Medium,
			Doc: "Whether leadership is handed over before the broker stops.",
		},
		{
			Name: "durability", Type: String, Default: "fsync", Valid: oneOf{"fsync", "replicated"}, Importance: High, Ours: true,
			Doc: "What acks=all waits for in a cluster that this node founds, and in topics that do not say: fsync or replicated.",
		},
		{
			Name: "initial.broker.registration.timeout.ms", Type: Int, Default: "60000", Importance: Medium,
			Doc: "How long a starting broker tries to register before it gives up.",
		},
		{
			Name: "node.id", Type: Int, Default: "1", Valid: atLeast(0), Importance: High,
			Doc: "Number of this node in its cluster. Must be set where several nodes are named.",
		},
		{
			Name: "process.roles", Type: List, Default: "broker,controller", Importance: High,
			Valid: listOf{elements: oneOf{"broker", "controller"}, notEmpty: true},
			Doc:   "What this process is: broker, controller or both.",
		},
		{
			Name: "broker.heartbeat.interval.ms", Type: Int, Default: "500", Valid: atLeast(1), Importance: Medium,
			Doc: "Time between two heartbeats to the controller.",
		},
		{
			Name: "broker.session.timeout.ms", Type: Int, Default: "3000", Valid: atLeast(1), Importance: Medium,
			Doc: "Without a heartbeat for so long a broker loses its leaderships.",
		},
		{
			Name: "request.timeout.ms", Type: Int, Default: "30000", Valid: atLeast(1), Importance: High,
			Doc: "How long a request to another node may take.",
		},
	}
}

func quorumKeys() []Key {
	return []Key{
		{
			Name: "controller.listener.names", Type: List, Unset: true, Valid: listOf{notEmpty: true}, Importance: High,
			Doc: "Listeners that controllers are reached on. Unset: the inter-broker listener.",
		},
		{
			Name: "controller.quorum.auto.join.enable", Type: Boolean, Default: "false", Importance: Low,
			Doc: "Whether a controller has itself added to the voters, where the configuration names none.",
		},
		{
			Name: "controller.quorum.bootstrap.servers", Type: List, Default: "", Valid: hostPorts{}, Importance: High,
			Doc: "Addresses where the controllers are found.",
		},
		{
			Name: "controller.quorum.election.timeout.ms", Type: Int, Unset: true, Valid: atLeast(0), Importance: High,
			Doc: "How long a candidate waits for votes, at least as long as a voter for its leader. Unset: 1500.",
		},
		{
			Name: "controller.quorum.fetch.timeout.ms", Type: Int, Unset: true, Valid: atLeast(0), Importance: High,
			Doc: "How long a voter waits for a silent leader before it starts an election; a leader whose process has ended is not waited for. Unset: 1500.",
		},
		{
			Name: "controller.quorum.voters", Type: List, Default: "", Valid: voters{}, Importance: High,
			Doc: "The voters of a new cluster: id@host:port of each.",
		},
		{
			Name: "metadata.log.dir", Type: String, Unset: true, Importance: High,
			Doc: "Directory of the metadata log. Unset: the first log directory.",
		},
	}
}

// quotaKeys are the windows in which the use of quotas is measured.
func quotaKeys() []Key {
	var keys []Key
	for _, of := range []struct{ prefix, what string }{
		{"quota", "what clients use"},
		{"controller.quota", "how many partitions clients make and delete"},
		{"replication.quota", "what is replicated of throttled replicas"},
	} {
		keys = append(keys,
			Key{Name: of.prefix + ".window.num", Type: Int, Default: "11", Valid: atLeast(1), Importance: Low, Doc: "Windows over which is measured " + of.what + "."},
			Key{Name: of.prefix + ".window.size.seconds", Type: Int, Default: "1", Valid: atLeast(1), Importance: Low, Doc: "Length of each window over which is measured " + of.what + "."},
		)
	}
	return keys
}

func networkKeys() []Key {
	return []Key{
		{
			Name: "advertised.listeners", Type: List, Unset: true, Valid: listOf{notEmpty: true}, Importance: High,
			Doc: "Addresses that clients are told, by listener name. Unset: those of listeners.",
		},
		{
			Name: "connections.max.idle.ms", Type: Long, Default: "600000", Importance: Medium,
			Doc: "An idle connection is closed after it; negative for never.",
		},
		{
			Name: "fetch.max.bytes", Type: Int, Default: "57671680", Valid: atLeast(1024), Importance: Medium,
			Doc: "Largest answer to a fetch.",
		},
		{
			Name: "inter.broker.listener.name", Type: String, Unset: true, Valid: nonEmpty{}, Importance: Medium,
			Doc: "Listener that brokers use among themselves. Unset: PLAINTEXT, or the only one.",
		},
		{
			Name: "listener.security.protocol.map", Type: String, Importance: Low,
			Default: "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
			Doc:     "Protocol of each listener name: NAME:PROTOCOL. Only PLAINTEXT is served.",
		},
		{
			Name: "listeners", Type: List, Default: "PLAINTEXT://127.0.0.1:9092", Valid: listOf{notEmpty: true}, Importance: High,
			Doc: "Addresses to listen on: NAME://host:port, with an empty host for all of this machine's.",
		},
		{
			Name: "max.connection.creation.rate", Type: Int, Default: noLimit, Valid: atLeast(0), Importance: Medium,
			Doc: "New connections in a second.",
		},
		{
			Name: "max.connections", Type: Int, Default: noLimit, Valid: atLeast(0), Importance: Medium,
			Doc: "Connections of this broker at a time.",
		},
		{
			Name: "max.connections.per.ip", Type: Int, Default: noLimit, Valid: atLeast(0), Importance: Medium,
			Doc: "Connections from one address at a time.",
		},
		{
			Name: "max.connections.per.ip.overrides", Type: String, Default: "", Valid: perIP{}, Importance: Medium,
			Doc: "Addresses or host names with a limit of their own: host:count.",
		},
		{
			Name: "max.incremental.fetch.session.cache.slots", Type: Int, Default: "1000", Valid: atLeast(0), Importance: Medium,
			Doc: "Fetch sessions kept for consumers and followers.",
		},
		{
			Name: "queued.max.request.bytes", Type: Long, Default: "-1", Importance: Medium,
			Doc: "Memory for requests being received and worked on; -1 lets the broker choose.",
		},
		{
			Name: "queued.max.requests", Type: Int, Default: "500", Valid: atLeast(1), Importance: High,
			Doc: "Requests worked on at a time before connections wait.",
		},
		{
			Name: "security.inter.broker.protocol", Type: String, Default: "PLAINTEXT", Importance: Medium,
			Valid: oneOf{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"},
			Doc:   "Picks the inter-broker listener by protocol. Only PLAINTEXT is served.",
		},
		{
			Name: "socket.listen.backlog.size", Type: Int, Default: "50", Valid: atLeast(1), Importance: Medium,
			Doc: "Connections that may wait to be accepted, where the system lets us choose.",
		},
		{
			Name: "socket.receive.buffer.bytes", Type: Int, Default: "102400", Valid: atLeast(-1), Importance: High,
			Doc: "The sockets' receive buffer; -1 for the system's choice.",
		},
		{
			Name: "socket.request.max.bytes", Type: Int, Default: "104857600", Valid: atLeast(1), Importance: High,
			Doc: "Largest request.",
		},
		{
			Name: "socket.send.buffer.bytes", Type: Int, Default: "102400", Valid: atLeast(-1), Importance: High,
			Doc: "The sockets' send buffer; -1 for the system's choice.",
		},
		{
			Name: "telemetry.max.bytes", Type: Int, Default: "1048576", Valid: atLeast(1), Importance: Low,
			Doc: "Most that a client may push of its metrics at once.",
		},
	}
}

func topicKeysOfBroker() []Key {
	return []Key{
		{
			Name: "auto.create.topics.enable", Type: Boolean, Default: "true", Importance: High,
			Doc: "Whether a topic that a client asks for is created.",
		},
		{
			Name: "default.replication.factor", Type: Int, Default: "1", Importance: Medium,
			Valid: inRange(1, 32767),
			Doc:   "Replicas of a topic whose creator leaves it to the broker.",
		},
		{
			Name: "delete.topic.enable", Type: Boolean, Default: "true", Importance: High,
			Doc: "Whether topics can be deleted.",
		},
		{
			Name: "max.request.partition.size.limit", Type: Int, Default: "2000", Valid: atLeast(1), Importance: Medium,
			Doc: "Partitions in one answer to DescribeTopicPartitions.",
		},
		{
			Name: "num.partitions", Type: Int, Default: "1", Valid: atLeast(1), Importance: Medium,
			Doc: "Partitions of a topic whose creator leaves it to the broker.",
		},
	}
}
