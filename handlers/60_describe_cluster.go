package handlers

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// DescribeCluster (key 60), versions 0–2: cluster id, controller and brokers (KIP-700).
//
//	v0  brokers
//	v1  endpoint type: 1 brokers, 2 controllers (KIP-919)
//	v2  fenced brokers on demand (KIP-1073)

// Values of the endpoint type.
const (
	brokerEndpoints     int8 = 1
	controllerEndpoints int8 = 2
)

func (h *Handlers) describeCluster(_ context.Context, c call, req *kmsg.DescribeClusterRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
	kind := c.request.Conn.Listener.Kind
	if err := checkEndpointType(req, kind); err != nil {
		resp.ErrorCode, resp.ErrorMessage = kafkaerr.Code(err), kafkaerr.Message(err)
		resp.ControllerID = -1
		return resp, nil
	}
	image := h.image()
	resp.ClusterID = image.ClusterID()
	if kind == protocol.ControllerListener {
		h.describeControllers(resp, image, c.request.Conn.Listener.Name)
		return resp, nil
	}
	resp.EndpointType = brokerEndpoints
	for broker := range image.Brokers() {
		if broker.Fenced && !req.IncludeFencedBrokers {
			continue
		}
		host, port, ok := h.address(image, c, broker)
		if !ok {
			continue
		}
		b := kmsg.NewDescribeClusterResponseBroker()
		b.NodeID, b.Host, b.Port, b.Rack, b.IsFenced = broker.ID, host, port, broker.Rack, broker.Fenced
		resp.Brokers = append(resp.Brokers, b)
	}
	resp.ControllerID = h.anyAliveBroker(image)
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = clusterOperations
	}
	return resp, nil
}

// describeControllers answers with the controllers that have this listener, and the one that
// is active.
func (h *Handlers) describeControllers(resp *kmsg.DescribeClusterResponse, image *metadata.Image, listener string) {
	resp.EndpointType = controllerEndpoints
	for c := range image.Controllers() {
		for _, l := range c.Listeners {
			if l.Name == listener {
				b := kmsg.NewDescribeClusterResponseBroker()
				b.NodeID, b.Host, b.Port = c.ID, l.Host, l.Port
				resp.Brokers = append(resp.Brokers, b)
			}
		}
	}
	resp.ControllerID = h.quorum().Leader
}

// checkEndpointType refuses what this listener does not answer; v0 has no name for it.
func checkEndpointType(req *kmsg.DescribeClusterRequest, listener protocol.Listener) error {
	answered, other, whose := brokerEndpoints, controllerEndpoints, "broker"
	if listener == protocol.ControllerListener {
		answered, other, whose = controllerEndpoints, brokerEndpoints, "controller"
	}
	kind := kafkaerr.UnsupportedEndpointType
	switch req.EndpointType {
	case answered:
		return nil
	case other:
		kind = kafkaerr.MismatchedEndpointType
	}
	if req.Version == 0 {
		kind = kafkaerr.InvalidRequest
	}
	return kafkaerr.New(kind, fmt.Sprintf("this is a %s's listener, endpoint type %d is not answered here", whose, req.EndpointType))
}
