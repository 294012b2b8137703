package handlers

import (
	"context"
	"regexp"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// ApiVersions (key 18), versions 0–5: which keys and versions this broker serves, and
// its features.
//
//	v0  keys with their ranges
//	v1  throttle time
//	v3  flexible; the client's name and version; features (KIP-584)
//	v4  features whose range begins at 0 (KAFKA-17492)
//	v5  cluster and node id that the client expects here (KIP-1242)
//
// A version above ours gets a v0 answer with UNSUPPORTED_VERSION that names only this
// key, so that the client can ask again (KIP-511). The response header is always v0.

// clientSoftware is what a client may call itself (Kafka's ApiVersionsRequest).
var clientSoftware = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

func (h *Handlers) apiVersions(_ context.Context, c call, req *kmsg.ApiVersionsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
	if err := h.checkAPIVersions(req); err != nil {
		resp.ErrorCode = kafkaerr.Code(err)
		return resp, nil
	}
	if req.Version >= 3 {
		c.request.Conn.SetClientSoftware(req.ClientSoftwareName, req.ClientSoftwareVersion)
	}
	for api := range protocol.Served() {
		if !api.Advertised() || api.Listeners&c.request.Conn.Listener.Kind == 0 {
			continue
		}
		key := kmsg.NewApiVersionsResponseApiKey()
		key.ApiKey, key.MinVersion, key.MaxVersion = api.Key, api.AdvertisedMin, api.MaxVersion
		resp.ApiKeys = append(resp.ApiKeys, key)
	}
	if req.Version >= 3 {
		h.addFeatures(req.Version, resp)
	}
	return resp, nil
}

// checkAPIVersions follows Kafka's order: names first, then identity.
func (h *Handlers) checkAPIVersions(req *kmsg.ApiVersionsRequest) error {
	if req.Version >= 3 && (!clientSoftware.MatchString(req.ClientSoftwareName) || !clientSoftware.MatchString(req.ClientSoftwareVersion)) {
		return kafkaerr.InvalidRequest
	}
	if req.Version < 5 {
		return nil
	}
	if (req.ClusterID == nil) != (req.NodeID == -1) {
		return kafkaerr.InvalidRequest
	}
	if req.ClusterID != nil && (*req.ClusterID != h.image().ClusterID() || req.NodeID != h.nodeID) {
		return kafkaerr.RebootstrapRequired
	}
	return nil
}

// addFeatures lists the features that this broker has and the levels in force.
func (h *Handlers) addFeatures(version int16, resp *kmsg.ApiVersionsResponse) {
	image := h.image()
	for _, f := range h.features {
		if f.Min == 0 && version < 4 {
			continue // older clients fail to parse such a feature
		}
		supported := kmsg.NewApiVersionsResponseSupportedFeature()
		supported.Name, supported.MinVersion, supported.MaxVersion = f.Name, f.Min, f.Max
		resp.SupportedFeatures = append(resp.SupportedFeatures, supported)
	}
	for _, f := range image.Features() {
		if f.Level == 0 {
			continue
		}
		finalized := kmsg.NewApiVersionsResponseFinalizedFeature()
		finalized.Name, finalized.MinVersionLevel, finalized.MaxVersionLevel = f.Name, f.Level, f.Level
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, finalized)
	}
	resp.FinalizedFeaturesEpoch = int64(image.Position().Index)
}

// unsupportedAPIVersions is the answer to a version that this broker does not know.
func unsupportedAPIVersions() *kmsg.ApiVersionsResponse {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = kafkaerr.Code(kafkaerr.UnsupportedVersion)
	api, _ := protocol.Lookup(protocol.ApiVersionsKey)
	key := kmsg.NewApiVersionsResponseApiKey()
	key.ApiKey, key.MinVersion, key.MaxVersion = api.Key, api.MinVersion, api.MaxVersion
	resp.ApiKeys = append(resp.ApiKeys, key)
	return resp
}
