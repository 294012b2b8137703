package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// AlterConfigs (key 33), versions 0–2: gives resources a new configuration, whole. It is
// deprecated, since who does not know a key removes it. It knows no loggers. A request that names a resource
// twice is never answered by Kafka; here both get INVALID_REQUEST, as in
// IncrementalAlterConfigs.
//
//	v2  flexible
func (h *Handlers) alterConfigs(ctx context.Context, c call, req *kmsg.AlterConfigsRequest) (kmsg.Response, error) {
	list := make([]alteredResource, 0, len(req.Resources))
	for i := range req.Resources {
		r := &req.Resources[i]
		resource := alteredResource{configResource: configResource{r.ResourceType, r.ResourceName}, whole: true}
		for _, s := range r.Configs {
			resource.settings = append(resource.settings, setting{s.Name, kmsg.IncrementalAlterConfigOpSet, s.Value})
		}
		list = append(list, resource)
	}
	pick := func(left []int) kmsg.Request {
		forwarded := *req
		forwarded.Resources = placesOf(req.Resources, left)
		return &forwarded
	}
	read := func(decided kmsg.Response, at int) configAnswer {
		r := &decided.(*kmsg.AlterConfigsResponse).Resources[at]
		return configAnswer{r.ErrorCode, r.ErrorMessage}
	}
	resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
	for i, a := range h.alterResources(ctx, c, list, req.ValidateOnly, pick, read) {
		answer := kmsg.NewAlterConfigsResponseResource()
		answer.ResourceType, answer.ResourceName = list[i].kind, list[i].name
		answer.ErrorCode, answer.ErrorMessage = a.code, a.message
		resp.Resources = append(resp.Resources, answer)
	}
	return resp, nil
}
