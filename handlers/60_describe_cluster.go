package handlers

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

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
	if err := checkEndpointType(req); err != nil {
		resp.ErrorCode, resp.ErrorMessage = kafkaerr.Code(err), kafkaerr.Message(err)
		resp.ControllerID = -1
		return resp, nil
	}
	image := h.image()
	resp.EndpointType = brokerEndpoints
	resp.ClusterID = image.ClusterID()
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

// checkEndpointType refuses what this listener does not answer; v0 has no name for it.
func checkEndpointType(req *kmsg.DescribeClusterRequest) error {
	kind := kafkaerr.UnsupportedEndpointType
	switch req.EndpointType {
	case brokerEndpoints:
		return nil
	case controllerEndpoints:
		kind = kafkaerr.MismatchedEndpointType
	}
	if req.Version == 0 {
		kind = kafkaerr.InvalidRequest
	}
	return kafkaerr.New(kind, fmt.Sprintf("this is a broker's listener, endpoint type %d is not answered here", req.EndpointType))
}
