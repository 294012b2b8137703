package protocol

import (
	"iter"
	"math"
)

// Listener is a set of kinds of listener (Kafka's ApiMessageType.ListenerType).
type Listener uint8

// The kinds of listener.
const (
	BrokerListener Listener = 1 << iota
	ControllerListener
)

// The API keys that code outside the table has to name.
const (
	ProduceKey          int16 = 0
	FetchKey            int16 = 1
	SaslHandshakeKey    int16 = 17
	ApiVersionsKey      int16 = 18 //nolint:staticcheck // Kafka's spelling
	SaslAuthenticateKey int16 = 36

	GetTelemetrySubscriptionsKey int16 = 71
	PushTelemetryKey             int16 = 72
)

// API is one row of the table: an API key and the versions of it that are served, both
// ends included.
type API struct {
	Key  int16
	Name string // Kafka's name, as in its ApiKeys

	MinVersion, MaxVersion int16
	// AdvertisedMin is what ApiVersions says the minimum is: MinVersion, except for
	// Produce on a broker listener. Old librdkafka turns compression and idempotence
	// off unless it sees Produce 0, so Kafka says 0 and refuses 0 to 2 all the same
	// (KAFKA-18659).
	AdvertisedMin int16
	// FlexibleFrom is the first version with request header 2 and response header 1
	// (KIP-482).
	FlexibleFrom int16
	Listeners    Listener
}

// Serves reports whether version may be asked for on a listener of this kind.
func (a API) Serves(version int16, kind Listener) bool {
	return a.Listeners&kind != 0 && a.MinVersion <= version && version <= a.MaxVersion
}

// FlexibleRequest reports whether a request of version has header version 2, which ends
// in tagged fields.
func (a API) FlexibleRequest(version int16) bool { return version >= a.FlexibleFrom }

// FlexibleResponse reports whether the answer to a request of version has header
// version 1, which ends in tagged fields. The answer to ApiVersions never has, since a
// client reads it before it knows what the broker speaks (KIP-511).
func (a API) FlexibleResponse(version int16) bool {
	return a.Key != ApiVersionsKey && a.FlexibleRequest(version)
}

// Advertised reports whether ApiVersions names the key. Kafka leaves the two of client
// telemetry out where nobody is configured to receive it, and answers them all the same.
func (a API) Advertised() bool {
	return a.Key != GetTelemetrySubscriptionsKey && a.Key != PushTelemetryKey
}

// neverFlexible is the FlexibleFrom of an API that has no flexible version.
const neverFlexible = math.MaxInt16

// apis is in the order of the keys; Lookup depends on it.
var apis = [...]API{
	{0, "Produce", 3, 13, 0, 9, BrokerListener},
	{1, "Fetch", 4, 18, 4, 12, BrokerListener},
	{2, "ListOffsets", 1, 11, 1, 6, BrokerListener},
	{3, "Metadata", 0, 13, 0, 9, BrokerListener},
	{8, "OffsetCommit", 2, 10, 2, 8, BrokerListener},
	{9, "OffsetFetch", 1, 10, 1, 6, BrokerListener},
	{10, "FindCoordinator", 0, 6, 0, 3, BrokerListener},
	{11, "JoinGroup", 0, 9, 0, 6, BrokerListener},
	{12, "Heartbeat", 0, 4, 0, 4, BrokerListener},
	{13, "LeaveGroup", 0, 5, 0, 4, BrokerListener},
	{14, "SyncGroup", 0, 5, 0, 4, BrokerListener},
	{15, "DescribeGroups", 0, 6, 0, 5, BrokerListener},
	{16, "ListGroups", 0, 5, 0, 3, BrokerListener},
	{17, "SaslHandshake", 0, 1, 0, neverFlexible, BrokerListener | ControllerListener},
	{18, "ApiVersions", 0, 5, 0, 3, BrokerListener | ControllerListener},
	{19, "CreateTopics", 2, 7, 2, 5, BrokerListener | ControllerListener},
	{20, "DeleteTopics", 1, 6, 1, 4, BrokerListener | ControllerListener},
	{21, "DeleteRecords", 0, 2, 0, 2, BrokerListener},
	{22, "InitProducerId", 0, 5, 0, 2, BrokerListener},
	{23, "OffsetForLeaderEpoch", 2, 4, 2, 4, BrokerListener},
	{29, "DescribeAcls", 1, 3, 1, 2, BrokerListener | ControllerListener},
	{30, "CreateAcls", 1, 3, 1, 2, BrokerListener | ControllerListener},
	{31, "DeleteAcls", 1, 3, 1, 2, BrokerListener | ControllerListener},
	{32, "DescribeConfigs", 1, 4, 1, 4, BrokerListener | ControllerListener},
	{33, "AlterConfigs", 0, 2, 0, 2, BrokerListener | ControllerListener},
	{34, "AlterReplicaLogDirs", 1, 2, 1, 2, BrokerListener},
	{35, "DescribeLogDirs", 1, 5, 1, 2, BrokerListener},
	{36, "SaslAuthenticate", 0, 2, 0, 2, BrokerListener | ControllerListener},
	{37, "CreatePartitions", 0, 3, 0, 2, BrokerListener | ControllerListener},
	{38, "CreateDelegationToken", 1, 3, 1, 2, BrokerListener | ControllerListener},
	{39, "RenewDelegationToken", 1, 2, 1, 2, BrokerListener | ControllerListener},
	{40, "ExpireDelegationToken", 1, 2, 1, 2, BrokerListener | ControllerListener},
	{41, "DescribeDelegationToken", 1, 3, 1, 2, BrokerListener | ControllerListener},
	{42, "DeleteGroups", 0, 3, 0, 2, BrokerListener},
	{43, "ElectLeaders", 0, 2, 0, 2, BrokerListener | ControllerListener},
	{44, "IncrementalAlterConfigs", 0, 1, 0, 1, BrokerListener | ControllerListener},
	{45, "AlterPartitionReassignments", 0, 1, 0, 0, BrokerListener | ControllerListener},
	{46, "ListPartitionReassignments", 0, 0, 0, 0, BrokerListener | ControllerListener},
	{47, "OffsetDelete", 0, 0, 0, 1, BrokerListener},
	{48, "DescribeClientQuotas", 0, 1, 0, 1, BrokerListener},
	{49, "AlterClientQuotas", 0, 1, 0, 1, BrokerListener | ControllerListener},
	{55, "DescribeQuorum", 0, 2, 0, 0, BrokerListener | ControllerListener},
	{56, "AlterPartition", 2, 3, 2, 0, ControllerListener},
	{57, "UpdateFeatures", 0, 2, 0, 0, BrokerListener | ControllerListener},
	{58, "Envelope", 0, 0, 0, 0, ControllerListener},
	{60, "DescribeCluster", 0, 2, 0, 0, BrokerListener | ControllerListener},
	{61, "DescribeProducers", 0, 0, 0, 0, BrokerListener},
	{62, "BrokerRegistration", 0, 4, 0, 0, ControllerListener},
	{63, "BrokerHeartbeat", 0, 2, 0, 0, ControllerListener},
	{64, "UnregisterBroker", 0, 0, 0, 0, BrokerListener | ControllerListener},
	{67, "AllocateProducerIds", 0, 0, 0, 0, ControllerListener},
	{70, "ControllerRegistration", 0, 0, 0, 0, ControllerListener},
	{71, "GetTelemetrySubscriptions", 0, 0, 0, 0, BrokerListener},
	{72, "PushTelemetry", 0, 0, 0, 0, BrokerListener},
	{73, "AssignReplicasToDirs", 0, 0, 0, 0, ControllerListener},
	{74, "ListConfigResources", 0, 1, 0, 0, BrokerListener},
	{75, "DescribeTopicPartitions", 0, 0, 0, 0, BrokerListener},
	{80, "AddRaftVoter", 0, 1, 0, 0, BrokerListener | ControllerListener},
	{81, "RemoveRaftVoter", 0, 0, 0, 0, BrokerListener | ControllerListener},
	{82, "UpdateRaftVoter", 0, 0, 0, 0, ControllerListener},
}

// APIs returns the table, in the order of the keys. The caller owns the copy.
func APIs() []API { return append([]API(nil), apis[:]...) }

// Served iterates over the table in the order of the keys.
func Served() iter.Seq[API] {
	return func(yield func(API) bool) {
		for _, api := range apis {
			if !yield(api) {
				return
			}
		}
	}
}

// Lookup finds the row of key.
func Lookup(key int16) (API, bool) {
	for _, api := range &apis {
		if api.Key >= key {
			return api, api.Key == key
		}
	}
	return API{}, false
}
