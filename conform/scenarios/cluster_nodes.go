package scenarios

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func clusterNodes() []conform.Scenario {
	return []conform.Scenario{
		{Name: "cluster-nodes/requests-of-nodes-to-clients-listeners", Key: 18, Run: nodesAsClients},
		{Name: "cluster-nodes/registration", Key: 18, Needs: []int16{55}, Run: registerNodes},
		{Name: "cluster-nodes/stale-nodes", Key: 18, Needs: []int16{55}, Run: staleNodes},
		{Name: "cluster-nodes/configured-voters", Key: 80, Needs: []int16{55}, Run: configuredVoters},
		{Name: "cluster-nodes/clients-at-controllers", Key: 60, Needs: []int16{55}, Run: clientsAtControllers},
		{Name: "cluster-nodes/unregister", Key: 64, Faults: true, Run: unregisterNodes},
		{Name: "cluster-nodes/unregister-a-live-one", Key: 64, Faults: true, Run: unregisterLive},
	}
}

// registration is a BrokerRegistration of a node.
func registration(r *conform.R, version int16, id int32, cluster string) *kmsg.BrokerRegistrationRequest {
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.Version, req.BrokerID, req.ClusterID = version, id, cluster
	req.IncarnationID = r.TopicID(fmt.Sprintf("incarnation-%d", id))
	l := kmsg.NewBrokerRegistrationRequestListener()
	l.Name, l.Host, l.Port = "PLAINTEXT", "127.0.0.1", 1
	req.Listeners = append(req.Listeners, l)
	req.LogDirs = append(req.LogDirs, r.TopicID("directory"))
	return req
}

// ofNodes are requests that nodes send to controllers.
func ofNodes(r *conform.R) (all []kmsg.Request) {
	for v := range int16(5) {
		all = append(all, registration(r, v, r.Node(0), "nobody"))
	}
	for v := range int16(2) {
		beat := kmsg.NewPtrBrokerHeartbeatRequest()
		beat.Version, beat.BrokerID = v, r.Node(0)
		all = append(all, beat)
	}
	for v := int16(2); v <= 3; v++ {
		alter := kmsg.NewPtrAlterPartitionRequest()
		alter.Version, alter.BrokerID = v, r.Node(0)
		all = append(all, alter)
	}
	ids := kmsg.NewPtrAllocateProducerIDsRequest()
	ids.BrokerID = r.Node(0)
	envelope := kmsg.NewPtrEnvelopeRequest()
	envelope.RequestData = []byte("nothing")
	dirs := kmsg.NewPtrAssignReplicasToDirsRequest()
	dirs.BrokerID = r.Node(0)
	return append(all, ids, envelope, dirs)
}

// nodesAsClients sends them where clients are heard.
func nodesAsClients(r *conform.R) {
	for _, req := range ofNodes(r) {
		r.SendTo(0, label(req.GetVersion(), "%s", kmsg.NameForKey(req.Key())), req)
	}
}

// atControllers sends a request to each controller, the active one first.
func atControllers(r *conform.R, title string, mk func() kmsg.Request) {
	for at := range r.Count() {
		req := mk()
		r.SendOn(conform.AtController(at, "main"), label(req.GetVersion(), "%s, %s, at controller %d", kmsg.NameForKey(req.Key()), title, at+1), req)
	}
}

// registerNodes has somebody else claim to be a node.
func registerNodes(r *conform.R) {
	r.NumberFrom(r.Controller())
	for v := range int16(5) {
		atControllers(r, "another cluster", func() kmsg.Request { return registration(r, v, 1000, "nobody") })
		atControllers(r, "no cluster", func() kmsg.Request { return registration(r, v, 1000, "") })
		for id := range r.Count() {
			atControllers(r, fmt.Sprintf("the id of node %d, of another cluster", id+1), func() kmsg.Request { return registration(r, v, r.Node(id), "nobody") })
			atControllers(r, fmt.Sprintf("the id of node %d", id+1), func() kmsg.Request { return registration(r, v, r.Node(id), r.ClusterID()) })
		}
	}
	r.AwaitBrokers()
	everywhere(r, "afterwards", func() *kmsg.MetadataRequest { return metadataFor(r, "nope") })
}

// staleNodes speaks for nodes with epochs that they do not have.
func staleNodes(r *conform.R) {
	r.NumberFrom(r.Controller())
	r.CreateOn("a", [][]int{{0, 1}})
	for _, epoch := range []int64{-1, 0, 1 << 40} {
		for _, id := range []int32{r.Node(0), r.Node(1), 1000} {
			who := "an unknown node"
			if id == r.Node(0) {
				who = "the controller's node"
			} else if id == r.Node(1) {
				who = "another node"
			}
			title := fmt.Sprintf("%s in epoch %d", who, epoch)
			for v := range int16(2) {
				atControllers(r, title, func() kmsg.Request {
					req := kmsg.NewPtrBrokerHeartbeatRequest()
					req.Version, req.BrokerID, req.BrokerEpoch = v, id, epoch
					return req
				})
			}
			for v := int16(2); v <= 3; v++ {
				atControllers(r, title, func() kmsg.Request { return newISR(r, v, id, epoch) })
			}
			atControllers(r, title, func() kmsg.Request {
				req := kmsg.NewPtrAllocateProducerIDsRequest()
				req.BrokerID, req.BrokerEpoch = id, epoch
				return req
			})
			atControllers(r, title, func() kmsg.Request {
				req := kmsg.NewPtrAssignReplicasToDirsRequest()
				req.BrokerID, req.BrokerEpoch = id, epoch
				return req
			})
		}
	}
	describeTopic(r, "afterwards", "a")
}

// newISR asks to make the first node the only one in sync.
func newISR(r *conform.R, version int16, broker int32, epoch int64) *kmsg.AlterPartitionRequest {
	req := kmsg.NewPtrAlterPartitionRequest()
	req.Version, req.BrokerID, req.BrokerEpoch = version, broker, epoch
	t := kmsg.NewAlterPartitionRequestTopic()
	t.TopicID = r.TopicID("a")
	p := kmsg.NewAlterPartitionRequestTopicPartition()
	p.NewISR = r.Nodes(0)
	member := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
	member.BrokerID, member.BrokerEpoch = r.Node(0), -1
	p.NewEpochISR = append(p.NewEpochISR, member)
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// clientsAtControllers asks controllers, the active one first, what clients may ask them.
func clientsAtControllers(r *conform.R) {
	r.NumberFrom(r.Controller())
	r.CreateOn("a", [][]int{{0, 1}})
	r.Ignore("Topics.Partitions.LeaderEpoch", "Topics.Partitions.HighWatermark", "Topics.Partitions.CurrentVoters.LogEndOffset",
		"Topics.Partitions.CurrentVoters.LastFetchTimestamp", "Topics.Partitions.CurrentVoters.LastCaughtUpTimestamp", "Nodes.Listeners")
	for kind := int8(1); kind <= 2; kind++ {
		for v := int16(1); v <= 2; v++ {
			atControllers(r, fmt.Sprintf("type %d", kind), func() kmsg.Request {
				req := kmsg.NewPtrDescribeClusterRequest()
				req.Version, req.EndpointType = v, kind
				return req
			})
		}
	}
	for _, c := range []struct {
		title string
		mk    func() kmsg.Request
	}{
		{"validate", func() kmsg.Request { return validate(7, assigned(r, "new", -1, -1, r.Nodes(1, 2))) }},
		{"validate", func() kmsg.Request { return growOnlyAsk(3, grown(r, "a", 2, r.Nodes(2, 1))) }},
		{"not needed", func() kmsg.Request { return elect(r, 2, 0, "a", 0) }},
		{"nothing", func() kmsg.Request { return reassignTo(r, 1, target{"a", 0, nil}) }},
		{"none", func() kmsg.Request { return moving(r, "a", 0) }},
		{"of a topic", func() kmsg.Request {
			req := change(topicResource, r.Name("a"), operation{0, "retention.ms", of("1000000")})
			req.ValidateOnly = true
			return req
		}},
		{"of nothing", func() kmsg.Request {
			req := kmsg.NewPtrDeleteTopicsRequest()
			req.Version, req.TimeoutMillis, req.TopicNames = 5, 20_000, []string{r.Name("nope")}
			return req
		}},
		{"an unknown node", func() kmsg.Request {
			req := kmsg.NewPtrUnregisterBrokerRequest()
			req.BrokerID = 1000
			return req
		}},
		{"quorum", func() kmsg.Request { return quorumOf(2, "__cluster_metadata", 0) }},
		{"of clients alone", func() kmsg.Request { return metadataFor(r, "a") }},
		{"of clients alone", func() kmsg.Request { return listOf(r, 7, -1, place{"a", 0}) }},
		{"of clients alone", func() kmsg.Request { return find(4, 0, r.Name("g")) }},
	} {
		atControllers(r, c.title, c.mk)
	}
}

// unregister takes a node out of the cluster's list.
func unregister(r *conform.R, i int) *kmsg.UnregisterBrokerRequest {
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = r.Node(i)
	return req
}

// describeNodes asks which brokers there are, those out of service, too.
func describeNodes(r *conform.R, title string) {
	everywhere(r, title, func() *kmsg.DescribeClusterRequest {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.Version, req.IncludeFencedBrokers = 2, true
		return req
	})
}

// unregisterNodes unregisters a node that is gone, which then comes back.
func unregisterNodes(r *conform.R) {
	r.CreateOn("a", [][]int{{0, 1, 2}})
	r.CreateOn("b", [][]int{{2, 1}})
	r.CreateOn("c", [][]int{{2}})
	r.Kill(2)
	r.AwaitPartition("a", 0, conform.Replicas{Leader: 0, ISR: []int{0, 1}})
	r.AwaitPartition("c", 0, conform.Replicas{Leader: conform.NoLeader})
	describeNodes(r, "it is gone")
	r.Send("unregister it", unregister(r, 2))
	r.Settle()
	describeNodes(r, "it is forgotten")
	r.Send("unregister it again", unregister(r, 2))
	for _, t := range []string{"a", "b", "c"} {
		describeTopic(r, "it is forgotten", t)
	}
	everywhere(r, "it is forgotten", func() *kmsg.MetadataRequest { return metadataFor(r, "a", "b", "c") })
	r.Send("a replica on it", validate(7, assigned(r, "new", -1, -1, r.Nodes(0, 2))))
	r.Send("three replicas", validate(7, newTopic(r, "new", 1, 3)))
	r.Send("move to it", reassignTo(r, 1, target{"b", 0, r.Nodes(2, 0)}))
	r.StartAgain(2)
	r.AwaitPartition("a", 0, conform.Replicas{Leader: 0, ISR: []int{0, 1, 2}})
	r.AwaitPartition("b", 0, conform.Replicas{Leader: 1, ISR: []int{1, 2}})
	r.AwaitPartition("c", 0, conform.Replicas{Leader: 2})
	describeNodes(r, "it is back")
	for _, t := range []string{"a", "b", "c"} {
		describeTopic(r, "it is back", t)
	}
}

// unregisterLive unregisters a node that runs, and starts it anew. What it does in between is
// not looked at.
func unregisterLive(r *conform.R) {
	r.CreateOn("a", [][]int{{0, 1, 2}})
	r.CreateOn("b", [][]int{{2, 1}})
	r.CreateOn("c", [][]int{{2}})
	r.SendTo(2, "everybody has it", produceWith(r, 9, "b", 0, -1, "x"))
	r.Send("unregister it", unregister(r, 2))
	r.Kill(2)
	r.AwaitPartition("a", 0, conform.Replicas{Leader: 0, ISR: []int{0, 1}})
	r.AwaitPartition("b", 0, conform.Replicas{Leader: 1, ISR: []int{1}})
	r.AwaitPartition("c", 0, conform.Replicas{Leader: conform.NoLeader})
	r.AwaitBrokers()
	everywhere(r, "it is gone", func() *kmsg.MetadataRequest { return metadataFor(r, "a", "b", "c") })
	r.StartAgain(2)
	r.AwaitPartition("a", 0, conform.Replicas{Leader: 0, ISR: []int{0, 1, 2}})
	r.AwaitPartition("b", 0, conform.Replicas{Leader: 1, ISR: []int{1, 2}})
	r.AwaitPartition("c", 0, conform.Replicas{Leader: 2})
	describeNodes(r, "it is back")
	for _, t := range []string{"a", "b", "c"} {
		describeTopic(r, "it is back", t)
	}
}
