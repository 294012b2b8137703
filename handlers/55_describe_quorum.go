package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// clusterMetadataTopic is how Kafka calls the metadata log.
const clusterMetadataTopic = "__cluster_metadata"

// Quorum is what this node knows of the nodes that keep the metadata log.
type Quorum struct {
	Leader int32 // -1: nobody, as far as is known
	Epoch  int32 // the leader's term, as far as this node knows
	// LeaderHere tells that this node leads; if not, nothing below is known.
	LeaderHere        bool
	HighWatermark     int64 // of the log: the offset after the last committed entry
	Voters, Observers []QuorumReplica
}

// QuorumReplica is a member of the quorum, as its leader sees it.
type QuorumReplica struct {
	ID           int32
	DirectoryID  uuid.UUID
	LogEndOffset int64 // -1: not known
	// Timestamps in ms since 1970 of the last fetch, and of the last one that reached the
	// leader's end; the leader has the time of asking, -1: not known.
	LastFetch, LastCaughtUp int64
}

// DescribeQuorum (key 55), versions 0–2: leader, voters and observers of the metadata log
// (KIP-595).
//
//	v1  times of the last fetches (KIP-836)
//	v2  directory ids, nodes with their listeners, error messages (KIP-853)
//
// It asks for one partition, that of the metadata log; for any other question every
// partition of it is unknown. A broker whose node does not lead the log asks the one that
// does; a controller says that it does not.
func (h *Handlers) describeQuorum(ctx context.Context, c call, req *kmsg.DescribeQuorumRequest) (kmsg.Response, error) {
	quorum := h.quorum()
	if !quorum.LeaderHere && asksForMetadataLog(req) && c.request.Conn.Listener.Kind == protocol.BrokerListener {
		if resp, err := h.forward(ctx, c, req); err == nil && resp != nil {
			return resp, nil
		}
	}
	return AnswerQuorum(req, quorum, h.image()), nil
}

// AnswerQuorum is the answer of a node that knows this of the quorum.
func AnswerQuorum(req *kmsg.DescribeQuorumRequest, quorum Quorum, image *metadata.Image) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DescribeQuorumResponse)
	none := "" // where there is no error, Kafka says so with a text that is empty
	resp.ErrorMessage = &none
	if !asksForMetadataLog(req) {
		for _, t := range req.Topics {
			resp.Topics = append(resp.Topics, unknownQuorum(t))
		}
		return resp
	}
	p := kmsg.NewDescribeQuorumResponseTopicPartition()
	if quorum.LeaderHere {
		p.ErrorMessage = &none
		p.LeaderID, p.LeaderEpoch, p.HighWatermark = quorum.Leader, quorum.Epoch, quorum.HighWatermark
		p.CurrentVoters, p.Observers = quorumReplicas(quorum.Voters), quorumReplicas(quorum.Observers)
		resp.Nodes = quorumNodes(image, quorum.Voters)
	} else {
		p.ErrorCode, p.ErrorMessage = kafkaerr.NotLeaderOrFollower.Code, &kafkaerr.NotLeaderOrFollower.Description
	}
	topic := kmsg.NewDescribeQuorumResponseTopic()
	topic.Topic = clusterMetadataTopic
	topic.Partitions = append(topic.Partitions, p)
	resp.Topics = append(resp.Topics, topic)
	return resp
}

func asksForMetadataLog(req *kmsg.DescribeQuorumRequest) bool {
	if len(req.Topics) != 1 || len(req.Topics[0].Partitions) != 1 {
		return false
	}
	return req.Topics[0].Topic == clusterMetadataTopic && req.Topics[0].Partitions[0].Partition == 0
}

func unknownQuorum(t kmsg.DescribeQuorumRequestTopic) kmsg.DescribeQuorumResponseTopic {
	unknown := kmsg.NewDescribeQuorumResponseTopic()
	unknown.Topic = t.Topic
	for _, asked := range t.Partitions {
		p := kmsg.NewDescribeQuorumResponseTopicPartition()
		p.Partition = asked.Partition
		p.ErrorCode, p.ErrorMessage = kafkaerr.UnknownTopicOrPartition.Code, &kafkaerr.UnknownTopicOrPartition.Description
		unknown.Partitions = append(unknown.Partitions, p)
	}
	return unknown
}

func quorumReplicas(list []QuorumReplica) (states []kmsg.DescribeQuorumResponseTopicPartitionReplicaState) {
	for _, r := range list {
		s := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
		s.ReplicaID, s.ReplicaDirectoryID, s.LogEndOffset = r.ID, r.DirectoryID, r.LogEndOffset
		s.LastFetchTimestamp, s.LastCaughtUpTimestamp = r.LastFetch, r.LastCaughtUp
		states = append(states, s)
	}
	return states
}

// quorumNodes are the voters with the listeners on which they are reached. A node that opens
// none for controllers, since nobody else may talk to it, has those of its broker.
func quorumNodes(image *metadata.Image, voters []QuorumReplica) (nodes []kmsg.DescribeQuorumResponseNode) {
	for _, v := range voters {
		node := kmsg.NewDescribeQuorumResponseNode()
		node.NodeID = v.ID
		for _, l := range controllerListeners(image, v.ID) {
			listener := kmsg.NewDescribeQuorumResponseNodeListener()
			listener.Name, listener.Host, listener.Port = l.Name, l.Host, uint16(l.Port)
			node.Listeners = append(node.Listeners, listener)
		}
		nodes = append(nodes, node)
	}
	return nodes
}

func controllerListeners(image *metadata.Image, id int32) []metadata.Endpoint {
	if c := image.Controller(id); c != nil {
		return c.Listeners
	}
	if b := image.Broker(id); b != nil {
		return b.Listeners
	}
	return nil
}
