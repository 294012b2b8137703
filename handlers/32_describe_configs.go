package handlers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/configs"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// DescribeConfigs (key 32), versions 1–4: the configuration of topics, brokers, loggers,
// groups and subscriptions to clients' metrics, with where each value comes from. A broker
// answers for itself alone (ConfigHelper).
//
//	v1  synonyms (KIP-226)
//	v3  type and documentation
//	v4  flexible
func (h *Handlers) describeConfigs(_ context.Context, _ call, req *kmsg.DescribeConfigsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
	unknown := slices.ContainsFunc(req.Resources, func(r kmsg.DescribeConfigsRequestResource) bool { return !describable(r.ResourceType) })
	for i := range req.Resources {
		r := &req.Resources[i]
		answer := kmsg.NewDescribeConfigsResponseResource()
		answer.ResourceType, answer.ResourceName = r.ResourceType, r.ResourceName
		answer.Configs = []kmsg.DescribeConfigsResponseResourceConfig{}
		var list []configs.Described
		err := kafkaerr.New(kafkaerr.InvalidRequest, "the request names a resource of a type that has no configuration")
		if !unknown { // one such resource is an error of the whole request
			list, err = h.describe(r)
		}
		answer.ErrorCode, answer.ErrorMessage = kafkaerr.Code(err), describeMessage(err)
		for j := range list {
			if len(r.ConfigNames) == 0 || slices.Contains(r.ConfigNames, list[j].Name) {
				answer.Configs = append(answer.Configs, describedConfig(&list[j], req))
			}
		}
		resp.Resources = append(resp.Resources, answer)
	}
	return resp, nil
}

func describable(kind kmsg.ConfigResourceType) bool {
	switch kind {
	case kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger, clientMetricsResource, groupResource:
		return true
	default:
		return false
	}
}

// describeMessage is empty, not null, where there is nothing to say; so it is in Kafka.
func describeMessage(err error) *string {
	if err == nil || errors.Is(err, kafkaerr.UnknownTopicOrPartition) {
		return new(string)
	}
	return kafkaerr.Message(err)
}

func (h *Handlers) describe(r *kmsg.DescribeConfigsRequestResource) ([]configs.Described, error) {
	image, cfg := h.image(), h.configs()
	own := image.Config(metadataResource(r.ResourceType, r.ResourceName))
	switch r.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		if err := metadata.ValidateTopicName(r.ResourceName); err != nil {
			return nil, err
		}
		if image.Topic(r.ResourceName) == nil {
			return nil, kafkaerr.UnknownTopicOrPartition
		}
		return configs.DescribeTopic(own, cfg, image.Durability().String()), nil
	case kmsg.ConfigResourceTypeBroker:
		if r.ResourceName == "" {
			return cfg.DescribeDefaults(), nil
		}
		if err := h.checkOwnName(r.ResourceName); err != nil {
			return nil, err
		}
		return cfg.Describe(), nil
	case kmsg.ConfigResourceTypeBrokerLogger:
		if err := h.checkOwnName(r.ResourceName); err != nil {
			return nil, err
		}
		return h.describeLoggers(), nil
	default: // of groups and client metrics, whether or not they exist
	}
	if r.ResourceName == "" {
		return nil, kafkaerr.New(kafkaerr.InvalidRequest, fmt.Sprintf("a resource of type %d must have a name", r.ResourceType))
	}
	if r.ResourceType == groupResource {
		return configs.DescribeGroup(own, cfg), nil
	}
	return configs.DescribeClientMetrics(own), nil
}

func (h *Handlers) describeLoggers() (list []configs.Described) {
	levels := h.loggers.Levels()
	for _, name := range slices.Sorted(maps.Keys(levels)) {
		level := levels[name]
		list = append(list, configs.Described{Name: name, Value: &level, Source: configs.SourceLogger})
	}
	return list
}

// describedConfig has synonyms and documentation only where the client asks for them.
func describedConfig(d *configs.Described, req *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	c.Name, c.Value, c.Source = d.Name, d.Value, kmsg.ConfigSource(d.Source)
	c.ReadOnly, c.IsSensitive, c.ConfigType = d.ReadOnly, d.Sensitive, kmsg.ConfigType(d.Type)
	c.ConfigSynonyms = []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{}
	if d.Source == configs.SourceLogger {
		c.Documentation = new(string)
	}
	if req.IncludeDocumentation && d.Doc != "" {
		c.Documentation = &d.Doc
	}
	if !req.IncludeSynonyms {
		return c
	}
	for _, s := range d.Synonyms {
		synonym := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
		synonym.Name, synonym.Source = s.Name, kmsg.ConfigSource(s.Source)
		if !d.Sensitive {
			synonym.Value = &s.Value
		}
		c.ConfigSynonyms = append(c.ConfigSynonyms, synonym)
	}
	return c
}
