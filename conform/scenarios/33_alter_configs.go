package scenarios

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func alterConfigs() []conform.Scenario {
	return []conform.Scenario{
		{Name: "alterconfigs/topic", Key: 33, Needs: []int16{32}, Run: alterTopicConfigs},
		{Name: "alterconfigs/refused", Key: 33, Run: alterConfigsRefused},
		{Name: "alterconfigs/broker", Key: 33, Run: alterBrokerConfigs},
		{Name: "alterconfigs/broker-machinery", Key: 33, Run: func(r *conform.R) {
			for _, v := range conform.Versions(33) {
				req := alter(v, brokerResource, nodeName(r), "num.io.threads", "8")
				req.ValidateOnly = true
				r.Send(label(v, "threads"), req)
			}
		}},
	}
}

// alter is an AlterConfigs of one resource; configs are names and values in turn.
func alter(version int16, kind kmsg.ConfigResourceType, name string, configs ...string) *kmsg.AlterConfigsRequest {
	req := kmsg.NewPtrAlterConfigsRequest()
	req.Version = version
	res := kmsg.NewAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kind, name
	for i := 0; i+1 < len(configs); i += 2 {
		c := kmsg.NewAlterConfigsRequestResourceConfig()
		c.Name, c.Value = configs[i], of(configs[i+1])
		res.Configs = append(res.Configs, c)
	}
	req.Resources = append(req.Resources, res)
	return req
}

// awaitConfig waits until a resource's key has a value, as DescribeConfigs tells.
func awaitConfig(r *conform.R, kind kmsg.ConfigResourceType, name, key, value string) {
	ask := func() kmsg.Request { return configsOf(resource(kind, name, key)) }
	r.Until(fmt.Sprintf("%s = %s", key, value), ask, func(resp kmsg.Response) bool {
		for _, res := range resp.(*kmsg.DescribeConfigsResponse).Resources {
			for _, c := range res.Configs {
				if c.Name == key && c.Value != nil && *c.Value == value {
					return true
				}
			}
		}
		return false
	})
}

// alterTopicConfigs replaces the whole map of a topic's own keys, again and again.
func alterTopicConfigs(r *conform.R) {
	r.CreateTopic("t", 1)
	t := r.Name("t")
	shown := configsOf(resource(topicResource, t, "retention.ms", "segment.ms", "flush.ms"))
	for _, v := range conform.Versions(33) {
		n := fmt.Sprint(1000 + v)
		only := alter(v, topicResource, t, "segment.ms", "77")
		only.ValidateOnly = true
		r.Send(label(v, "only validated"), only)
		r.Send(label(v, "two keys"), alter(v, topicResource, t, "retention.ms", n, "segment.ms", n))
		awaitConfig(r, topicResource, t, "retention.ms", n)
		r.Send(label(v, "after two keys"), shown)
		r.Send(label(v, "another key takes the place of both"), alter(v, topicResource, t, "flush.ms", n))
		awaitConfig(r, topicResource, t, "flush.ms", n)
		r.Send(label(v, "after another key"), shown)
		r.Send(label(v, "a good and a bad one"), alter(v, topicResource, t, "flush.ms", "5", "segment.ms", "x"))
		r.Send(label(v, "none"), alter(v, topicResource, t))
		awaitConfig(r, topicResource, t, "flush.ms", "9223372036854775807")
		r.Send(label(v, "after none"), shown)
	}
}

func alterConfigsRefused(r *conform.R) {
	r.CreateTopic("t", 1)
	t := r.Name("t")
	for _, v := range conform.Versions(33) {
		for _, c := range []struct {
			title string
			req   *kmsg.AlterConfigsRequest
		}{
			{"unknown topic", alter(v, topicResource, r.Name("nope"), "flush.ms", "5")},
			{"empty name", alter(v, topicResource, "", "flush.ms", "5")},
			{"bad name", alter(v, topicResource, "a b", "flush.ms", "5")},
			{"unknown key", alter(v, topicResource, t, "no.such", "5")},
			{"bad value", alter(v, topicResource, t, "flush.ms", "x")},
			{"low value", alter(v, topicResource, t, "flush.ms", "-1")},
			{"key twice", alter(v, topicResource, t, "flush.ms", "5", "flush.ms", "6")},
			{"empty key", alter(v, topicResource, t, "", "5")},
			{"unknown resource type", alter(v, unknownResource, "x", "flush.ms", "5")},
			{"resource type 5", alter(v, 5, "x", "flush.ms", "5")},
			{"loggers", alter(v, loggerResource, nodeName(r), "root", "INFO")},
			{"loggers, without a level", alter(v, loggerResource, nodeName(r))},
		} {
			c.req.ValidateOnly = true
			r.Send(label(v, "%s", c.title), c.req)
		}
		null := alter(v, topicResource, t, "flush.ms", "5")
		null.Resources[0].Configs[0].Value, null.ValidateOnly = nil, true
		r.Send(label(v, "null value"), null)
		none := alter(v, topicResource, t)
		none.Resources = nil
		r.Send(label(v, "no resources"), none)
	}
}

// alterBrokerConfigs only asks whether it would do: the whole map would be replaced.
func alterBrokerConfigs(r *conform.R) {
	for _, v := range conform.Versions(33) {
		for _, c := range []struct{ title, name, key, value string }{
			{"dynamic", nodeName(r), "max.connections.per.ip", "1000000"},
			{"dynamic, bad value", nodeName(r), "num.io.threads", "0"},
			{"read-only", nodeName(r), "node.id", nodeName(r)},
			{"unknown", nodeName(r), "no.such", "x"},
			{"cluster's, dynamic", "", "log.retention.ms", "604800000"},
			{"cluster's, of one broker", "", "listeners", "PLAINTEXT://:1"},
			{"another broker", fmt.Sprint(r.Node(0) + 1000), "num.io.threads", "8"},
			{"not a number", "x", "num.io.threads", "8"},
		} {
			req := alter(v, brokerResource, c.name, c.key, c.value)
			req.ValidateOnly = true
			r.Send(label(v, "%s", c.title), req)
		}
	}
}
