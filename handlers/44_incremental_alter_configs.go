package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// IncrementalAlterConfigs (key 44), versions 0 and 1: changes single keys of resources, and
// the levels of this broker's loggers (KIP-339, KIP-412). A resource named twice is refused
// in every place.
//
//	v1  flexible
func (h *Handlers) incrementalAlterConfigs(ctx context.Context, c call, req *kmsg.IncrementalAlterConfigsRequest) (kmsg.Response, error) {
	list := make([]alteredResource, 0, len(req.Resources))
	for i := range req.Resources {
		r := &req.Resources[i]
		resource := alteredResource{configResource: configResource{r.ResourceType, r.ResourceName}}
		for _, s := range r.Configs {
			resource.settings = append(resource.settings, setting{s.Name, s.Op, s.Value})
		}
		list = append(list, resource)
	}
	pick := func(left []int) kmsg.Request {
		forwarded := *req
		forwarded.Resources = placesOf(req.Resources, left)
		return &forwarded
	}
	read := func(decided kmsg.Response, at int) configAnswer {
		r := &decided.(*kmsg.IncrementalAlterConfigsResponse).Resources[at]
		return configAnswer{r.ErrorCode, r.ErrorMessage}
	}
	resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	for i, a := range h.alterResources(ctx, c, list, req.ValidateOnly, pick, read) {
		answer := kmsg.NewIncrementalAlterConfigsResponseResource()
		answer.ResourceType, answer.ResourceName = list[i].kind, list[i].name
		answer.ErrorCode, answer.ErrorMessage = a.code, a.message
		resp.Resources = append(resp.Resources, answer)
	}
	return resp, nil
}
