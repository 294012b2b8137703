package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/IBM/sarama"

	"github.com/klamm-mq/klamm/compat-tests/matrix/programs"
)

func administer(bootstrap string, c programs.Command, out programs.Out) error {
	admin, err := sarama.NewClusterAdmin([]string{bootstrap}, sarama.NewConfig())
	if err != nil {
		return err
	}
	defer func() { _ = admin.Close() }() // what it was to do has its own error
	switch c.Do {
	case "create-topic":
		configs := map[string]*string{}
		for key, value := range c.Configs {
			configs[key] = &value
		}
		return admin.CreateTopic(c.Topic, &sarama.TopicDetail{NumPartitions: int32(c.Partitions), ReplicationFactor: 1, ConfigEntries: configs}, false)
	case "delete-topic":
		return admin.DeleteTopic(c.Topic)
	case "create-partitions":
		return admin.CreatePartitions(c.Topic, int32(c.Partitions), nil, false)
	case "delete-records":
		return admin.DeleteRecords(c.Topic, map[int32]int64{0: c.Offset})
	case "alter-configs":
		entries := map[string]sarama.IncrementalAlterConfigsEntry{}
		for key, value := range c.Configs {
			entries[key] = sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value}
		}
		return admin.IncrementalAlterConfig(sarama.TopicResource, c.Topic, entries, false)
	case "delete-group":
		return admin.DeleteConsumerGroup(c.Group)
	}
	result, err := ask(admin, c)
	if err != nil {
		return err
	}
	return out.Result(result)
}

// ask is what changes nothing.
func ask(admin sarama.ClusterAdmin, c programs.Command) (any, error) {
	switch c.Do {
	case "list-topics":
		topics, err := admin.ListTopics()
		return slices.Collect(maps.Keys(topics)), err
	case "describe-topic":
		topics, err := admin.DescribeTopics([]string{c.Topic})
		if err != nil {
			return nil, err
		}
		return len(topics[0].Partitions), nil
	case "describe-configs":
		answers, err := admin.DescribeConfigs([]*sarama.ConfigResource{{Type: sarama.TopicResource, Name: c.Topic}}, sarama.DescribeConfigsOptions{})
		if err != nil {
			return nil, err
		}
		configs := map[string]string{}
		for _, e := range answers[0].Configs {
			configs[e.Name] = e.Value
		}
		return configs, nil
	case "list-groups":
		groups, err := admin.ListConsumerGroups()
		return slices.Collect(maps.Keys(groups)), err
	case "describe-group":
		groups, err := admin.DescribeConsumerGroups([]string{c.Group})
		if err != nil {
			return nil, err
		}
		return groups[0].State, nil
	case "group-offsets":
		answer, err := admin.ListConsumerGroupOffsets(c.Group, nil)
		if err != nil {
			return nil, err
		}
		offsets := map[int32]int64{}
		for partition, block := range answer.Blocks[c.Topic] {
			offsets[partition] = block.Offset
		}
		return offsets, nil
	default:
		return nil, fmt.Errorf("no command %q", c.Do)
	}
}
