package scenarios

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func quorum() []conform.Scenario {
	return []conform.Scenario{
		{Name: "quorum/describe", Key: 55, Run: describeQuorum},
		{Name: "quorum/add-voter", Key: 80, Run: addVoter},
		{Name: "quorum/remove-voter", Key: 81, Run: removeVoter},
		{Name: "quorum/unregister-broker", Key: 64, Run: unregisterBroker},
		{Name: "quorum/unregister-controller", Key: 94, Run: unregisterController},
	}
}

func quorumOf(version int16, topic string, partitions ...int32) *kmsg.DescribeQuorumRequest {
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.Version = version
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic = topic
	for _, partition := range partitions {
		p := kmsg.NewDescribeQuorumRequestTopicPartition()
		p.Partition = partition
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	return req
}

// describeQuorum leaves out what moves (offsets, times, epochs) and where controllers
// listen.
func describeQuorum(r *conform.R) {
	const partition = "Topics.Partitions."
	r.Ignore(partition+"LeaderEpoch", partition+"HighWatermark", partition+"CurrentVoters.LogEndOffset",
		partition+"CurrentVoters.LastFetchTimestamp", partition+"CurrentVoters.LastCaughtUpTimestamp",
		partition+"Observers.LogEndOffset", partition+"Observers.LastFetchTimestamp", partition+"Observers.LastCaughtUpTimestamp",
		"Nodes.Listeners")
	const log = "__cluster_metadata"
	for _, v := range conform.Versions(55) {
		r.Send(label(v, "the cluster's log"), quorumOf(v, log, 0))
		r.Send(label(v, "another partition"), quorumOf(v, log, 1))
		r.Send(label(v, "negative partition"), quorumOf(v, log, -1))
		r.Send(label(v, "two partitions"), quorumOf(v, log, 0, 1))
		r.Send(label(v, "a partition twice"), quorumOf(v, log, 0, 0))
		r.Send(label(v, "no partitions"), quorumOf(v, log))
		r.Send(label(v, "another topic"), quorumOf(v, r.Name("t"), 0))
		r.Send(label(v, "empty name"), quorumOf(v, "", 0))
		twice := quorumOf(v, log, 0)
		twice.Topics = append(twice.Topics, twice.Topics[0])
		r.Send(label(v, "twice"), twice)
		both := quorumOf(v, log, 0)
		both.Topics = append(both.Topics, quorumOf(v, r.Name("t"), 0).Topics...)
		r.Send(label(v, "and another topic"), both)
		none := quorumOf(v, log)
		none.Topics = nil
		r.Send(label(v, "none"), none)
		tagged := quorumOf(v, log, 0)
		unknownTags(&tagged.UnknownTags)
		unknownTags(&tagged.Topics[0].UnknownTags)
		unknownTags(&tagged.Topics[0].Partitions[0].UnknownTags)
		r.Send(label(v, "unknown tags"), tagged)
	}
}

// addVoter asks for voters that cannot be added.
func addVoter(r *conform.R) {
	type request = *kmsg.AddRaftVoterRequest
	listener := func(name, host string, port uint16) kmsg.AddRaftVoterRequestListener {
		l := kmsg.NewAddRaftVoterRequestListener()
		l.Name, l.Host, l.Port = name, host, port
		return l
	}
	mk := func() request {
		req := kmsg.NewPtrAddRaftVoterRequest()
		req.ClusterID, req.TimeoutMillis, req.VoterID = of("nobody"), 1000, r.Node(0)+1000
		req.VoterDirectoryID = r.TopicID("directory")
		req.Listeners = append(req.Listeners, listener("CONTROLLER", "127.0.0.1", 1))
		return req
	}
	sendVariants(r, mk, []variant[request]{
		with("wrong cluster", func(request) {}),
		with("wrong cluster, known voter", func(req request) { req.VoterID = r.Node(0) }),
		with("no listeners", func(req request) { req.ClusterID, req.Listeners = nil, nil }),
		with("other listener's name", func(req request) { req.ClusterID = nil; req.Listeners[0].Name = "X" }),
		with("known voter", func(req request) { req.ClusterID, req.VoterID = nil, r.Node(0) }),
		with("negative voter", func(req request) { req.ClusterID, req.VoterID = nil, -1 }),
		with("zero directory", func(req request) { req.ClusterID, req.VoterID, req.VoterDirectoryID = nil, r.Node(0), [16]byte{} }),
		with("unknown tags", func(req request) { unknownTags(&req.UnknownTags); unknownTags(&req.Listeners[0].UnknownTags) }),
	})
}

// removeVoter asks to remove voters that are none.
func removeVoter(r *conform.R) {
	type request = *kmsg.RemoveRaftVoterRequest
	mk := func() request {
		req := kmsg.NewPtrRemoveRaftVoterRequest()
		req.ClusterID, req.VoterID, req.VoterDirectoryID = of("nobody"), r.Node(0)+1000, r.TopicID("directory")
		return req
	}
	sendVariants(r, mk, []variant[request]{
		with("wrong cluster", func(request) {}),
		with("unknown voter", func(req request) { req.ClusterID = nil }),
		with("unknown voter of this cluster", func(req request) { req.ClusterID = of(r.ClusterID()) }),
		with("negative voter", func(req request) { req.ClusterID, req.VoterID = nil, -1 }),
		with("known voter, other directory", func(req request) { req.ClusterID, req.VoterID = nil, r.Node(0) }),
		with("unknown tags", func(req request) { unknownTags(&req.UnknownTags) }),
	})
}

// unregisterBroker names brokers that are not there.
func unregisterBroker(r *conform.R) {
	for _, c := range []struct {
		title string
		id    int32
	}{{"unknown", r.Node(0) + 1000}, {"largest", maxInt32}, {"negative", -1}, {"least", minInt32}} {
		req := kmsg.NewPtrUnregisterBrokerRequest()
		req.BrokerID = c.id
		r.Send(c.title, req)
		unknownTags(&req.UnknownTags)
		r.Send(c.title+", unknown tags", req)
	}
}

// unregisterController names controllers that are not there.
func unregisterController(r *conform.R) {
	for _, c := range []struct {
		title string
		id    int32
	}{{"unknown", r.Node(0) + 1000}, {"largest", maxInt32}, {"negative", -1}, {"least", minInt32}} {
		req := kmsg.NewPtrUnregisterControllerRequest()
		req.ControllerID = c.id
		r.Send(c.title, req)
		unknownTags(&req.UnknownTags)
		r.Send(c.title+", unknown tags", req)
	}
}
