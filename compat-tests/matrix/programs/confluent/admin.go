//go:build cgo

package main

import (
	"context"
	"fmt"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/klamm-mq/klamm/compat-tests/matrix/programs"
)

func administer(ctx context.Context, bootstrap string, c programs.Command, out programs.Out) error {
	admin, err := kafka.NewAdminClient(&kafka.ConfigMap{"bootstrap.servers": bootstrap})
	if err != nil {
		return err
	}
	defer admin.Close()
	switch c.Do {
	case "create-topic", "delete-topic", "create-partitions":
		return changeTopic(ctx, admin, c)
	case "delete-records", "alter-configs", "delete-group":
		return change(ctx, admin, c)
	case "list-groups", "describe-group", "group-offsets":
		result, err := askGroups(ctx, admin, c)
		if err != nil {
			return err
		}
		return out.Result(result)
	default:
		result, err := askTopics(ctx, admin, c)
		if err != nil {
			return err
		}
		return out.Result(result)
	}
}

// failed is an error of the library that is one.
func failed(e kafka.Error) error {
	if e.Code() == kafka.ErrNoError {
		return nil
	}
	return e
}

func changeTopic(ctx context.Context, admin *kafka.AdminClient, c programs.Command) error {
	var results []kafka.TopicResult
	var err error
	switch c.Do {
	case "create-topic":
		results, err = admin.CreateTopics(ctx, []kafka.TopicSpecification{
			{Topic: c.Topic, NumPartitions: c.Partitions, ReplicationFactor: 1, Config: c.Configs},
		})
	case "delete-topic":
		results, err = admin.DeleteTopics(ctx, []string{c.Topic})
	default: // create-partitions
		results, err = admin.CreatePartitions(ctx, []kafka.PartitionsSpecification{{Topic: c.Topic, IncreaseTo: c.Partitions}})
	}
	if err != nil {
		return err
	}
	return failed(results[0].Error)
}

func change(ctx context.Context, admin *kafka.AdminClient, c programs.Command) error {
	switch c.Do {
	case "delete-records":
		results, err := admin.DeleteRecords(ctx, []kafka.TopicPartition{{Topic: &c.Topic, Partition: 0, Offset: kafka.Offset(c.Offset)}})
		if err != nil {
			return err
		}
		return results.DeleteRecordsResults[0].TopicPartition.Error
	case "alter-configs":
		resource := kafka.ConfigResource{Type: kafka.ResourceTopic, Name: c.Topic}
		for key, value := range c.Configs {
			resource.Config = append(resource.Config, kafka.ConfigEntry{Name: key, Value: value, IncrementalOperation: kafka.AlterConfigOpTypeSet})
		}
		results, err := admin.IncrementalAlterConfigs(ctx, []kafka.ConfigResource{resource})
		if err != nil {
			return err
		}
		return failed(results[0].Error)
	default: // delete-group
		results, err := admin.DeleteConsumerGroups(ctx, []string{c.Group})
		if err != nil {
			return err
		}
		return failed(results.ConsumerGroupResults[0].Error)
	}
}

func askTopics(ctx context.Context, admin *kafka.AdminClient, c programs.Command) (any, error) {
	switch c.Do {
	case "list-topics":
		metadata, err := admin.GetMetadata(nil, true, timeoutMs)
		if err != nil {
			return nil, err
		}
		var names []string
		for name := range metadata.Topics {
			names = append(names, name)
		}
		return names, nil
	case "describe-topic":
		topics, err := admin.DescribeTopics(ctx, kafka.NewTopicCollectionOfTopicNames([]string{c.Topic}))
		if err != nil {
			return nil, err
		}
		return len(topics.TopicDescriptions[0].Partitions), failed(topics.TopicDescriptions[0].Error)
	case "describe-configs":
		results, err := admin.DescribeConfigs(ctx, []kafka.ConfigResource{{Type: kafka.ResourceTopic, Name: c.Topic}})
		if err != nil {
			return nil, err
		}
		configs := map[string]string{}
		for key, entry := range results[0].Config {
			configs[key] = entry.Value
		}
		return configs, failed(results[0].Error)
	default:
		return nil, fmt.Errorf("no command %q", c.Do)
	}
}

func askGroups(ctx context.Context, admin *kafka.AdminClient, c programs.Command) (any, error) {
	switch c.Do {
	case "list-groups":
		groups, err := admin.ListConsumerGroups(ctx)
		if err != nil {
			return nil, err
		}
		var names []string
		for _, g := range groups.Valid {
			names = append(names, g.GroupID)
		}
		return names, nil
	case "describe-group":
		groups, err := admin.DescribeConsumerGroups(ctx, []string{c.Group})
		if err != nil {
			return nil, err
		}
		return groups.ConsumerGroupDescriptions[0].State.String(), failed(groups.ConsumerGroupDescriptions[0].Error)
	default: // group-offsets
		answer, err := admin.ListConsumerGroupOffsets(ctx, []kafka.ConsumerGroupTopicPartitions{{Group: c.Group}})
		if err != nil {
			return nil, err
		}
		offsets := map[int32]int64{}
		for _, p := range answer.ConsumerGroupsTopicPartitions[0].Partitions {
			offsets[p.Partition] = int64(p.Offset)
		}
		return offsets, nil
	}
}
