package scenarios

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func configResources() []conform.Scenario {
	return []conform.Scenario{
		{Name: "configresources/list", Key: 74, Run: listConfigResources},
		{Name: "configresources/own", Key: 74, Needs: []int16{44}, Run: listOwnResources},
		// Kafka answers 71 and 72, but does not advertise them without a plugin.
		// Alone: a broker forgets whom it has told what when a subscription changes.
		{Name: "telemetry/subscriptions", Key: 74, Run: telemetrySubscriptions, Alone: true},
		{Name: "telemetry/push", Key: 74, Run: telemetryPush, Alone: true},
	}
}

func resourcesOf(version int16, kinds ...int8) *kmsg.ListConfigResourcesRequest {
	req := kmsg.NewPtrListConfigResourcesRequest()
	req.Version, req.ResourceTypes = version, kinds
	return req
}

// listConfigResources asks for resources of types that every cluster has the same of.
func listConfigResources(r *conform.R) {
	r.Ignore("ConfigResources.Name") // ids of nodes
	r.Send("brokers", resourcesOf(1, int8(brokerResource)))
	r.Send("loggers", resourcesOf(1, int8(loggerResource)))
	r.Send("brokers twice", resourcesOf(1, int8(brokerResource), int8(brokerResource)))
	r.Send("brokers and loggers", resourcesOf(1, int8(brokerResource), int8(loggerResource)))
	for _, kind := range []int8{0, 1, 3, 64, 127, -1, -128} {
		r.Send(label(1, "type %d", kind), resourcesOf(1, kind))
		r.Send(label(1, "brokers and type %d", kind), resourcesOf(1, int8(brokerResource), kind))
	}
	tagged := resourcesOf(1, int8(brokerResource))
	unknownTags(&tagged.UnknownTags)
	r.Send("unknown tags", tagged)
}

// listOwnResources notes which resources of the run's are listed.
func listOwnResources(r *conform.R) {
	r.CreateTopic("t", 1)
	g, m := r.Name("g"), r.Name("m")
	r.Quiet(change(groupResource, g, operation{set, "consumer.session.timeout.ms", of("50000")}))
	r.Quiet(change(metricsResource, m, operation{set, "interval.ms", of("1000")}, operation{set, "match", of("client_id=conform-nobody")}))
	r.Until("metrics resource", func() kmsg.Request { return resourcesOf(1, 16) }, func(resp kmsg.Response) bool {
		return len(ownResources(r, resp)) > 0
	})
	r.Until("group resource", func() kmsg.Request { return resourcesOf(1, 32) }, func(resp kmsg.Response) bool {
		return len(ownResources(r, resp)) > 0
	})
	for _, c := range []struct {
		title string
		req   *kmsg.ListConfigResourcesRequest
	}{
		{"v0", resourcesOf(0)},
		{"v1 all", resourcesOf(1)},
		{"v1 topics", resourcesOf(1, 2)},
		{"v1 metrics", resourcesOf(1, 16)},
		{"v1 groups", resourcesOf(1, 32)},
		{"v1 topics and groups", resourcesOf(1, 2, 32)},
		{"v1 brokers", resourcesOf(1, 4)},
	} {
		r.Note(c.title, "%v", ownResources(r, r.Quiet(c.req)))
	}
	r.Quiet(change(groupResource, g, operation{remove, "consumer.session.timeout.ms", nil}))
	r.Quiet(change(metricsResource, m, operation{remove, "interval.ms", nil}, operation{remove, "match", nil}))
}

func ownResources(r *conform.R, resp kmsg.Response) (names []string) {
	for _, res := range resp.(*kmsg.ListConfigResourcesResponse).ConfigResources {
		if name, own := strings.CutPrefix(res.Name, r.Name("")); own {
			names = append(names, label(int16(res.Type), "%s", name))
		}
	}
	slices.Sort(names)
	return names
}

// telemetrySubscriptions asks as a client without an id, then with the one it was given.
func telemetrySubscriptions(r *conform.R) {
	r.Ignore("SubscriptionID")
	ask := func(id [16]byte) *kmsg.GetTelemetrySubscriptionsRequest {
		req := kmsg.NewPtrGetTelemetrySubscriptionsRequest()
		req.ClientInstanceID = id
		return req
	}
	id := [16]byte{}
	if resp, ok := r.Send("without an id", ask(id)).(*kmsg.GetTelemetrySubscriptionsResponse); ok {
		id = resp.ClientInstanceID
	}
	r.Send("at once again", ask(id))
	r.Send("an id of its own", ask(r.TopicID("client")))
	tagged := ask(r.TopicID("other client"))
	unknownTags(&tagged.UnknownTags)
	r.Send("unknown tags", tagged)
}

// telemetryPush pushes without a subscription.
func telemetryPush(r *conform.R) {
	for _, c := range []struct {
		title       string
		id          [16]byte
		codec       int8
		terminating bool
		metrics     []byte
	}{
		{"zero id", [16]byte{}, 0, false, nil},
		{"reserved id", [16]byte{15: 1}, 0, false, nil},
		{"unknown client", r.TopicID("a"), 0, false, nil},
		{"unknown client, terminating", r.TopicID("b"), 0, true, nil},
		{"unknown codec", r.TopicID("c"), 9, false, nil},
		{"metrics that are none", r.TopicID("d"), 0, false, []byte("x")},
		{"codec -1", r.TopicID("e"), -1, false, nil},
	} {
		req := kmsg.NewPtrPushTelemetryRequest()
		req.ClientInstanceID, req.CompressionType, req.Terminating, req.Metrics = c.id, c.codec, c.terminating, c.metrics
		req.SubscriptionID = 12345
		r.Send(c.title, req)
	}
}
