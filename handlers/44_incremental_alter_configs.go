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
	answers, left := h.checkAlterations(list, req.ValidateOnly)
	if len(left) > 0 {
		forwarded := *req
		forwarded.Resources = nil
		for _, i := range left {
			forwarded.Resources = append(forwarded.Resources, req.Resources[i])
		}
		decided, err := h.forward(ctx, c, &forwarded)
		for at, i := range left {
			if err != nil {
				answers[i] = configAnswerOf(err)
				continue
			}
			r := &decided.(*kmsg.IncrementalAlterConfigsResponse).Resources[at]
			answers[i] = configAnswer{r.ErrorCode, r.ErrorMessage}
		}
	}
	resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	for i, a := range answers {
		answer := kmsg.NewIncrementalAlterConfigsResponseResource()
		answer.ResourceType, answer.ResourceName = list[i].kind, list[i].name
		answer.ErrorCode, answer.ErrorMessage = a.code, a.message
		resp.Resources = append(resp.Resources, answer)
	}
	return resp, nil
}
