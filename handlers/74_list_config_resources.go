package handlers

import (
	"context"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// ListConfigResources (key 74), versions 0 and 1: names what DescribeConfigs can be asked
// for. Topics and brokers are listed as they exist, groups and subscriptions to clients'
// metrics as far as they have configuration.
//
//	v0  subscriptions alone (KIP-1000)
//	v1  all types, or those that are asked for (KIP-1142)
func (h *Handlers) listConfigResources(_ context.Context, c call, req *kmsg.ListConfigResourcesRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.ListConfigResourcesResponse)
	listable := []int8{int8(kmsg.ConfigResourceTypeTopic), int8(kmsg.ConfigResourceTypeBroker), int8(kmsg.ConfigResourceTypeBrokerLogger), int8(clientMetricsResource), int8(groupResource)}
	if req.Version == 0 {
		listable = []int8{int8(clientMetricsResource)}
	}
	wanted := req.ResourceTypes
	if req.Version == 0 || len(wanted) == 0 {
		wanted = listable
	}
	for _, kind := range wanted {
		if !slices.Contains(listable, kind) {
			resp.ErrorCode = kafkaerr.UnsupportedVersion.Code
			return resp, nil
		}
	}
	add := func(kind kmsg.ConfigResourceType, name string) {
		if slices.Contains(wanted, int8(kind)) {
			r := kmsg.NewListConfigResourcesResponseConfigResource()
			r.Type, r.Name = int8(kind), name
			resp.ConfigResources = append(resp.ConfigResources, r)
		}
	}
	image := h.image()
	for r := range image.Configs() {
		if r.Type == metadata.GroupResource || r.Type == metadata.ClientMetricsResource {
			add(kmsg.ConfigResourceType(r.Type), r.Name)
		}
	}
	for b := range image.Brokers() {
		if _, _, served := h.address(image, c, b); served && !b.Fenced {
			add(kmsg.ConfigResourceTypeBrokerLogger, strconv.Itoa(int(b.ID)))
			add(kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(b.ID)))
		}
	}
	for t := range image.Topics() {
		add(kmsg.ConfigResourceTypeTopic, t.Name)
	}
	return resp, nil
}
