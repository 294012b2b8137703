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
	m := &metadataAnswer{
		MetadataResponse: resp, view: viewBrokers(image, c.request.Conn.Listener.Name), operations: req.IncludeTopicAuthorizedOperations,
	}
	switch {
	case ask.all:
		m.topics = make([]topicAnswer, 0, image.NumTopics())
		for topic := range image.Topics() {
			m.topics = append(m.topics, topicAnswer{Topic: topic})
		}
	case ask.byID:
		m.addByID(image, ask.ids)
	default:
		missing := m.addByName(image, ask.names)
		if len(missing) > 0 && ask.create && h.config.AutoCreateTopics {
			h.autoCreate.request(requester{c.request.ClientID, true}, missing)
		}
	}
	h.addBrokers(image, c, resp)
	if req.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = clusterOperations
	}
	return m, nil
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

func (m *metadataAnswer) addByID(image *metadata.Image, ids []uuid.UUID) {
	for _, id := range ids {
		t := topicAnswer{Topic: image.TopicByID(id)}
		if t.Topic == nil {
			t.unknown = &unknownTopic{id: id, errorCode: kafkaerr.UnknownTopicID.Code}
		}
		m.topics = append(m.topics, t)
	}
}

// addByName gives the names that a topic might have, and none has.
func (m *metadataAnswer) addByName(image *metadata.Image, names []string) (missing []string) {
	for _, name := range names {
		t := topicAnswer{Topic: image.Topic(name)}
		if t.Topic == nil {
			err := metadata.ValidateTopicName(name)
			if err == nil {
				missing = append(missing, name)
				err = kafkaerr.UnknownTopicOrPartition
			}
			t.unknown = &unknownTopic{name: &name, errorCode: kafkaerr.Code(err)}
		}
		m.topics = append(m.topics, t)
	}
	return missing
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
