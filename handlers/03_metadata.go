package handlers

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// Metadata (key 3), versions 0–13: brokers, and topics with their leaders.
//
//	v0   an empty list of topics means all; a dead replica is an error
//	v1   null means all, empty means none; controller id, rack, internal topics
//	v2   cluster id
//	v3   throttle time
//	v4   allow_auto_topic_creation
//	v5   offline replicas
//	v6   LISTENER_NOT_FOUND instead of LEADER_NOT_AVAILABLE
//	v7   leader epoch
//	v8   authorized operations (of the cluster up to v10)
//	v9   flexible
//	v10  topic id in the answer
//	v12  topics may be asked by id
//	v13  top-level error code (KIP-1102)
//
// A client asks because a broker has just died: the answer waits until it can tell who leads
// instead (suspects.go).

func (h *Handlers) metadata(ctx context.Context, c call, req *kmsg.MetadataRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	if err := checkMetadata(req); err != nil {
		return metadataError(req, resp, err), nil
	}
	h.awaitSuspects(ctx, c)
	image := h.image()
	ask := newMetadataAsk(req)
	switch {
	case ask.all:
		for topic := range image.Topics() {
			resp.Topics = append(resp.Topics, h.topicMetadata(image, c, topic))
		}
	case ask.byID:
		h.metadataByID(image, c, ask.ids, resp)
	default:
		h.metadataByName(image, c, ask, resp)
	}
	h.addBrokers(image, c, resp)
	if req.IncludeTopicAuthorizedOperations {
		addTopicOperations(resp.Topics)
	}
	if req.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = clusterOperations
	}
	return resp, nil
}

// checkMetadata refuses what versions before 12 cannot ask, and a topic without name
// and id, which Kafka 4.4 answers with an unknown error.
func checkMetadata(req *kmsg.MetadataRequest) error {
	anyID, anyNameless := false, false
	for i := range req.Topics {
		anyID = anyID || req.Topics[i].TopicID != uuid.Zero
		anyNameless = anyNameless || req.Topics[i].Topic == nil
	}
	switch {
	case req.Version < 12 && (anyID || anyNameless):
		return kafkaerr.InvalidRequest
	case anyNameless && !anyID:
		return kafkaerr.UnknownServerError
	}
	return nil
}

// metadataError is the answer to a request that fails as a whole: an error for each
// topic named, no brokers.
func metadataError(req *kmsg.MetadataRequest, resp *kmsg.MetadataResponse, err error) *kmsg.MetadataResponse {
	for i := range req.Topics {
		topic := kmsg.NewMetadataResponseTopic()
		topic.Topic, topic.TopicID = new(string), req.Topics[i].TopicID
		if name := req.Topics[i].Topic; name != nil {
			topic.Topic = name
		}
		topic.ErrorCode = kafkaerr.Code(err)
		resp.Topics = append(resp.Topics, topic)
	}
	resp.ControllerID = -1
	resp.ErrorCode = kafkaerr.Code(err)
	return resp
}

// metadataAsk is what a request wants, with duplicates removed.
type metadataAsk struct {
	all, byID bool
	ids       []uuid.UUID
	names     []string
	create    bool // the client allows unknown topics to be made
}

// newMetadataAsk reads a checked request. One id makes it a request by id: names beside
// it are ignored, as in Kafka.
func newMetadataAsk(req *kmsg.MetadataRequest) metadataAsk {
	ask := metadataAsk{
		all:    req.Topics == nil || req.Version == 0 && len(req.Topics) == 0,
		create: req.Version < 4 || req.AllowAutoTopicCreation,
	}
	seen := make(map[uuid.UUID]struct{})
	for i := range req.Topics {
		id := uuid.UUID(req.Topics[i].TopicID)
		if _, again := seen[id]; !again && !id.IsZero() {
			seen[id] = struct{}{}
			ask.ids = append(ask.ids, id)
		}
		if name := req.Topics[i].Topic; name != nil {
			ask.names = append(ask.names, *name)
		}
	}
	ask.byID = len(ask.ids) > 0
	slices.Sort(ask.names)
	ask.names = slices.Compact(ask.names)
	return ask
}

// addTopicOperations says what the client may do with each topic, also with one that does
// not exist, but not with an id that stands for none.
func addTopicOperations(topics []kmsg.MetadataResponseTopic) {
	for i := range topics {
		if topics[i].ErrorCode != kafkaerr.Code(kafkaerr.UnknownTopicID) {
			topics[i].AuthorizedOperations = topicOperations
		}
	}
}

func (h *Handlers) metadataByID(image *metadata.Image, c call, ids []uuid.UUID, resp *kmsg.MetadataResponse) {
	for _, id := range ids {
		if topic := image.TopicByID(id); topic != nil {
			resp.Topics = append(resp.Topics, h.topicMetadata(image, c, topic))
			continue
		}
		unknown := kmsg.NewMetadataResponseTopic()
		unknown.TopicID, unknown.ErrorCode = id, kafkaerr.Code(kafkaerr.UnknownTopicID)
		resp.Topics = append(resp.Topics, unknown)
	}
}

func (h *Handlers) metadataByName(image *metadata.Image, c call, ask metadataAsk, resp *kmsg.MetadataResponse) {
	var missing []string
	for _, name := range ask.names {
		if topic := image.Topic(name); topic != nil {
			resp.Topics = append(resp.Topics, h.topicMetadata(image, c, topic))
			continue
		}
		err := metadata.ValidateTopicName(name)
		if err == nil {
			missing = append(missing, name)
			err = kafkaerr.UnknownTopicOrPartition
		}
		unknown := kmsg.NewMetadataResponseTopic()
		unknown.Topic, unknown.ErrorCode = &name, kafkaerr.Code(err)
		unknown.IsInternal = metadata.IsInternalTopic(name)
		resp.Topics = append(resp.Topics, unknown)
	}
	if len(missing) > 0 && ask.create && h.config.AutoCreateTopics {
		h.autoCreate.request(requester{c.request.ClientID, true}, missing)
	}
}

func (h *Handlers) topicMetadata(image *metadata.Image, c call, topic *metadata.Topic) kmsg.MetadataResponseTopic {
	t := kmsg.NewMetadataResponseTopic()
	t.Topic, t.TopicID, t.IsInternal = &topic.Name, topic.ID, metadata.IsInternalTopic(topic.Name)
	t.Partitions = make([]kmsg.MetadataResponseTopicPartition, 0, len(topic.Partitions))
	for _, p := range topic.Partitions {
		t.Partitions = append(t.Partitions, partitionMetadata(image, c.request.Conn.Listener.Name, c.request.Version, p))
	}
	return t
}

// partitionMetadata shapes one partition as a client of the listener may see it
// (Kafka's KRaftMetadataCache).
func partitionMetadata(image *metadata.Image, listener string, version int16, p *metadata.Partition) kmsg.MetadataResponseTopicPartition {
	m := kmsg.NewMetadataResponseTopicPartition()
	m.Partition, m.LeaderEpoch = p.Index, p.LeaderEpoch
	m.Replicas, m.ISR = p.Replicas, p.ISR
	for i, id := range p.Replicas {
		if replicaOffline(image, listener, p, i, id) {
			m.OfflineReplicas = append(m.OfflineReplicas, id)
		}
	}
	if version == 0 {
		m.Replicas = reachable(image, listener, p.Replicas)
		m.ISR = reachable(image, listener, p.ISR)
	}
	m.Leader, m.ErrorCode = leaderFor(image, listener, version, p.Leader)
	if m.ErrorCode == 0 && (len(m.Replicas) < len(p.Replicas) || len(m.ISR) < len(p.ISR)) {
		m.ErrorCode = kafkaerr.Code(kafkaerr.ReplicaNotAvailable)
	}
	return m
}

// leaderFor is the leader if a client of the listener can reach it, else -1 and why not.
func leaderFor(image *metadata.Image, listener string, version int16, leader int32) (int32, int16) {
	broker := image.Broker(leader)
	switch {
	case broker == nil:
		return metadata.NoLeader, kafkaerr.Code(kafkaerr.LeaderNotAvailable)
	case endpointOf(broker, listener) != nil:
		return leader, 0
	case version >= 6:
		return metadata.NoLeader, kafkaerr.Code(kafkaerr.ListenerNotFound)
	default:
		return metadata.NoLeader, kafkaerr.Code(kafkaerr.LeaderNotAvailable)
	}
}

func replicaOffline(image *metadata.Image, listener string, p *metadata.Partition, i int, id int32) bool {
	broker := image.Broker(id)
	if broker == nil || broker.Fenced || endpointOf(broker, listener) == nil {
		return true
	}
	return i < len(p.Directories) && !broker.HasOnlineDir(p.Directories[i])
}

func reachable(image *metadata.Image, listener string, ids []int32) []int32 {
	alive := make([]int32, 0, len(ids))
	for _, id := range ids {
		if b := image.Broker(id); b != nil && !b.Fenced && endpointOf(b, listener) != nil {
			alive = append(alive, id)
		}
	}
	return alive
}

// addBrokers lists the live brokers with their addresses on the listener asked.
func (h *Handlers) addBrokers(image *metadata.Image, c call, resp *kmsg.MetadataResponse) {
	for broker := range image.Brokers() {
		if broker.Fenced {
			continue
		}
		host, port, ok := h.address(image, c, broker)
		if !ok {
			continue
		}
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port, b.Rack = broker.ID, host, port, broker.Rack
		resp.Brokers = append(resp.Brokers, b)
	}
	cluster := image.ClusterID()
	resp.ClusterID = &cluster
	resp.ControllerID = h.anyAliveBroker(image)
}
