package controller

import (
	"github.com/klamm-mq/klamm/configs"
)

// TopicConfigsOf gives the topic configuration of a cluster whose controller has this
// configuration: its values are the defaults of topics.
func TopicConfigsOf(broker *configs.Broker) (TopicConfigs, error) {
	defaults, err := configs.ParseTopic(nil, broker)
	if err != nil {
		return nil, err
	}
	return topicConfigs{broker, defaults}, nil
}

type topicConfigs struct {
	broker   *configs.Broker
	defaults configs.Topic
}

func (t topicConfigs) With(all, own map[string]string) TopicConfigs {
	broker, problems := t.broker.With(configs.Dynamic{All: all, Own: own})
	if len(problems) > 0 { // the broker that accepted them had another file
		return t
	}
	defaults, err := configs.ParseTopic(nil, broker)
	if err != nil {
		return t
	}
	return topicConfigs{broker, defaults}
}

func (t topicConfigs) CheckGroup(overrides map[string]string) error {
	return configs.CheckGroup(overrides, t.broker)
}

func (t topicConfigs) Validate(overrides map[string]string) error {
	_, err := configs.ParseTopic(overrides, t.broker)
	return err
}

func (t topicConfigs) Effective(overrides map[string]string) []ConfigEntry {
	entries := configs.EffectiveTopic(overrides, t.broker)
	answer := make([]ConfigEntry, 0, len(entries))
	for _, e := range entries {
		answer = append(answer, ConfigEntry{
			Name: e.Key.Name, Value: e.Value, Source: int8(e.Source), Sensitive: e.Key.Sensitive(),
		})
	}
	return answer
}

// Elections parses two keys alone: it is asked for each partition of a failed broker.
func (t topicConfigs) Elections(overrides map[string]string) ElectionConfig {
	c := ElectionConfig{MinISR: t.defaults.MinInSyncCount, UncleanElection: t.defaults.UncleanElection}
	if n, ok := parsed[int32](overrides, "min.insync.replicas"); ok {
		c.MinISR = n
	}
	if unclean, ok := parsed[bool](overrides, "unclean.leader.election.enable"); ok {
		c.UncleanElection = unclean
	}
	return c
}

// parsed gives the value of a key that is set.
func parsed[T any](overrides map[string]string, name string) (T, bool) {
	var zero T
	text, set := overrides[name]
	if !set {
		return zero, false
	}
	value, err := configs.TopicKey(name).Parse(text)
	if err != nil { // ParseTopic accepted it when it was set
		return zero, false
	}
	v, ok := value.(T)
	return v, ok
}
