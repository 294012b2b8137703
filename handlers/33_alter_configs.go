package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// AlterConfigs (key 33), versions 0–2: gives resources a new configuration, whole. It is
// deprecated, since who does not know a key removes it. A request that names a resource
// twice is never answered by Kafka; here both get INVALID_REQUEST, as in
// IncrementalAlterConfigs.
//
//	v2  flexible
func (h *Handlers) alterConfigs(ctx context.Context, c call, req *kmsg.AlterConfigsRequest) (kmsg.Response, error) {
	list := make([]alteredResource, 0, len(req.Resources))
	for i := range req.Resources {
		r := &req.Resources[i]
		resource := alteredResource{configResource: configResource{r.ResourceType, r.ResourceName}}
		for _, s := range r.Configs {
			resource.settings = append(resource.settings, setting{s.Name, replaces, s.Value})
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
			r := &decided.(*kmsg.AlterConfigsResponse).Resources[at]
			answers[i] = configAnswer{r.ErrorCode, r.ErrorMessage}
		}
	}
	resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
	for i, a := range answers {
		answer := kmsg.NewAlterConfigsResponseResource()
		answer.ResourceType, answer.ResourceName = list[i].kind, list[i].name
		answer.ErrorCode, answer.ErrorMessage = a.code, a.message
		resp.Resources = append(resp.Resources, answer)
	}
	return resp, nil
}
