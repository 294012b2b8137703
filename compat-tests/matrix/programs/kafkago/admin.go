package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"

	"github.com/klamm-mq/klamm/compat-tests/matrix/programs"
)

func administer(ctx context.Context, bootstrap string, c programs.Command, out programs.Out) error {
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(bootstrap), Transport: transport}
	switch c.Do {
	case "create-topic", "delete-topic", "create-partitions", "alter-configs", "delete-group":
		return change(ctx, client, c)
	default:
		result, err := ask(ctx, client, c)
		if err != nil {
			return err
		}
		return out.Result(result)
	}
}

func change(ctx context.Context, client *kafka.Client, c programs.Command) error {
	switch c.Do {
	case "create-topic":
		topic := kafka.TopicConfig{Topic: c.Topic, NumPartitions: c.Partitions, ReplicationFactor: 1}
		for key, value := range c.Configs {
			topic.ConfigEntries = append(topic.ConfigEntries, kafka.ConfigEntry{ConfigName: key, ConfigValue: value})
		}
		answer, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{topic}})
		if err != nil {
			return err
		}
		return answer.Errors[c.Topic]
	case "delete-topic":
		answer, err := client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{c.Topic}})
		if err != nil {
			return err
		}
		return answer.Errors[c.Topic]
	case "create-partitions":
		answer, err := client.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{
			Topics: []kafka.TopicPartitionsConfig{{Name: c.Topic, Count: int32(c.Partitions)}},
		})
		if err != nil {
			return err
		}
		return answer.Errors[c.Topic]
	case "delete-group":
		answer, err := client.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{c.Group}})
		if err != nil {
			return err
		}
		return answer.Errors[c.Group]
	default: // alter-configs
		return alter(ctx, client, c)
	}
}

func alter(ctx context.Context, client *kafka.Client, c programs.Command) error {
	resource := kafka.IncrementalAlterConfigsRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: c.Topic}
	for key, value := range c.Configs {
		resource.Configs = append(resource.Configs, kafka.IncrementalAlterConfigsRequestConfig{Name: key, Value: value, ConfigOperation: kafka.ConfigOperationSet})
	}
	answer, err := client.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{resource},
	})
	if err != nil {
		return err
	}
	return answer.Resources[0].Error
}

// ask is what changes nothing.
func ask(ctx context.Context, client *kafka.Client, c programs.Command) (any, error) {
	switch c.Do {
	case "list-topics":
		answer, err := client.Metadata(ctx, &kafka.MetadataRequest{})
		if err != nil {
			return nil, err
		}
		var names []string
		for _, t := range answer.Topics {
			names = append(names, t.Name)
		}
		return names, nil
	case "describe-topic":
		answer, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{c.Topic}})
		if err != nil {
			return nil, err
		}
		return len(answer.Topics[0].Partitions), answer.Topics[0].Error
	case "describe-configs":
		answer, err := client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
			Resources: []kafka.DescribeConfigRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: c.Topic}},
		})
		if err != nil {
			return nil, err
		}
		configs := map[string]string{}
		for _, e := range answer.Resources[0].ConfigEntries {
			configs[e.ConfigName] = e.ConfigValue
		}
		return configs, answer.Resources[0].Error
	case "list-groups":
		answer, err := client.ListGroups(ctx, &kafka.ListGroupsRequest{})
		if err != nil {
			return nil, err
		}
		var names []string
		for _, g := range answer.Groups {
			names = append(names, g.GroupID)
		}
		return names, answer.Error
	case "describe-group":
		answer, err := client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{c.Group}})
		if err != nil {
			return nil, err
		}
		return answer.Groups[0].GroupState, answer.Groups[0].Error
	case "group-offsets":
		return offsets(ctx, client, c)
	default:
		return nil, fmt.Errorf("no command %q", c.Do)
	}
}

func offsets(ctx context.Context, client *kafka.Client, c programs.Command) (map[int]int64, error) {
	var partitions []int
	for p := range c.Partitions {
		partitions = append(partitions, p)
	}
	answer, err := client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: c.Group, Topics: map[string][]int{c.Topic: partitions}})
	if err != nil {
		return nil, err
	}
	found := map[int]int64{}
	for _, p := range answer.Topics[c.Topic] {
		found[p.Partition] = p.CommittedOffset
		err = errors.Join(err, p.Error)
	}
	return found, errors.Join(err, answer.Error)
}
