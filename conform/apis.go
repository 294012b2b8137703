package conform

import "github.com/twmb/franz-go/pkg/kmsg"

// API is an API key that clients of Apache Kafka 4.4 may use, with its versions.
type API struct {
	Key      int16
	Name     string
	Min, Max int16
}

// APIs are the client-facing APIs of Apache Kafka 4.4 in the order of their keys: those
// of its broker listener without the ones that only brokers send each other.
func APIs() []API {
	return []API{
		{0, "Produce", 3, 13},
		{1, "Fetch", 4, 18},
		{2, "ListOffsets", 1, 11},
		{3, "Metadata", 0, 13},
		{8, "OffsetCommit", 2, 10},
		{9, "OffsetFetch", 1, 10},
		{10, "FindCoordinator", 0, 6},
		{11, "JoinGroup", 0, 9},
		{12, "Heartbeat", 0, 4},
		{13, "LeaveGroup", 0, 5},
		{14, "SyncGroup", 0, 5},
		{15, "DescribeGroups", 0, 6},
		{16, "ListGroups", 0, 5},
		{17, "SaslHandshake", 0, 1},
		{18, "ApiVersions", 0, 5},
		{19, "CreateTopics", 2, 7},
		{20, "DeleteTopics", 1, 6},
		{21, "DeleteRecords", 0, 2},
		{22, "InitProducerId", 0, 5},
		{23, "OffsetForLeaderEpoch", 2, 4},
		{24, "AddPartitionsToTxn", 0, 5},
		{25, "AddOffsetsToTxn", 0, 4},
		{26, "EndTxn", 0, 5},
		{27, "WriteTxnMarkers", 1, 2},
		{28, "TxnOffsetCommit", 0, 6},
		{29, "DescribeAcls", 1, 3},
		{30, "CreateAcls", 1, 3},
		{31, "DeleteAcls", 1, 3},
		{32, "DescribeConfigs", 1, 4},
		{33, "AlterConfigs", 0, 2},
		{34, "AlterReplicaLogDirs", 1, 2},
		{35, "DescribeLogDirs", 1, 5},
		{36, "SaslAuthenticate", 0, 2},
		{37, "CreatePartitions", 0, 3},
		{38, "CreateDelegationToken", 1, 3},
		{39, "RenewDelegationToken", 1, 2},
		{40, "ExpireDelegationToken", 1, 2},
		{41, "DescribeDelegationToken", 1, 3},
		{42, "DeleteGroups", 0, 3},
		{43, "ElectLeaders", 0, 2},
		{44, "IncrementalAlterConfigs", 0, 1},
		{45, "AlterPartitionReassignments", 0, 1},
		{46, "ListPartitionReassignments", 0, 0},
		{47, "OffsetDelete", 0, 0},
		{48, "DescribeClientQuotas", 0, 1},
		{49, "AlterClientQuotas", 0, 1},
		{50, "DescribeUserScramCredentials", 0, 0},
		{51, "AlterUserScramCredentials", 0, 0},
		{55, "DescribeQuorum", 0, 2},
		{57, "UpdateFeatures", 0, 2},
		{60, "DescribeCluster", 0, 2},
		{61, "DescribeProducers", 0, 0},
		{64, "UnregisterBroker", 0, 0},
		{65, "DescribeTransactions", 0, 0},
		{66, "ListTransactions", 0, 2},
		{68, "ConsumerGroupHeartbeat", 0, 1},
		{69, "ConsumerGroupDescribe", 0, 1},
		{71, "GetTelemetrySubscriptions", 0, 0},
		{72, "PushTelemetry", 0, 0},
		{74, "ListConfigResources", 0, 1},
		{75, "DescribeTopicPartitions", 0, 0},
		{76, "ShareGroupHeartbeat", 1, 1},
		{77, "ShareGroupDescribe", 1, 1},
		{78, "ShareFetch", 1, 2},
		{79, "ShareAcknowledge", 1, 2},
		{80, "AddRaftVoter", 0, 1},
		{81, "RemoveRaftVoter", 0, 0},
		{88, "StreamsGroupHeartbeat", 0, 1},
		{89, "StreamsGroupDescribe", 0, 1},
		{90, "DescribeShareGroupOffsets", 0, 1},
		{91, "AlterShareGroupOffsets", 0, 0},
		{92, "DeleteShareGroupOffsets", 0, 0},
		{93, "StreamsGroupTopologyDescriptionUpdate", 0, 0},
		{94, "UnregisterController", 0, 0},
	}
}

// Lookup finds the API of key.
func Lookup(key int16) (API, bool) {
	for _, api := range APIs() {
		if api.Key == key {
			return api, true
		}
	}
	return API{Key: key, Name: kmsg.NameForKey(key)}, false
}
