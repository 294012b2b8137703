package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/klamm-mq/klamm/compat-tests/matrix/programs"
)

func administer(ctx context.Context, bootstrap string, c programs.Command, out programs.Out) error {
	k, err := client(bootstrap)
	if err != nil {
		return err
	}
	defer k.Close()
	admin := kadm.NewClient(k)
	switch c.Do {
	case "create-topic", "delete-topic", "create-partitions", "delete-records", "alter-configs":
		return change(ctx, admin, c)
	case "delete-group":
		_, err := admin.DeleteGroup(ctx, c.Group)
		return err
	default:
		result, err := ask(ctx, admin, c)
		if err != nil {
			return err
		}
		return out.Result(result)
	}
}

// change is what changes a topic.
func change(ctx context.Context, admin *kadm.Client, c programs.Command) error {
	switch c.Do {
	case "create-topic":
		configs := map[string]*string{}
		for key, value := range c.Configs {
			configs[key] = &value
		}
		_, err := admin.CreateTopic(ctx, int32(c.Partitions), 1, configs, c.Topic)
		return err
	case "delete-topic":
		_, err := admin.DeleteTopic(ctx, c.Topic)
		return err
	case "create-partitions":
		answers, err := admin.UpdatePartitions(ctx, c.Partitions, c.Topic)
		return errors.Join(err, answers.Error())
	case "delete-records":
		answers, err := admin.DeleteRecords(ctx, kadm.OffsetsList{{Topic: c.Topic, At: c.Offset, LeaderEpoch: -1}}.Offsets())
		return errors.Join(err, answers.Error())
	default: // alter-configs
		var configs []kadm.AlterConfig
		for key, value := range c.Configs {
			configs = append(configs, kadm.AlterConfig{Op: kadm.SetConfig, Name: key, Value: &value})
		}
		answers, err := admin.AlterTopicConfigs(ctx, configs, c.Topic)
		for _, a := range answers {
			err = errors.Join(err, a.Err)
		}
		return err
	}
}

// ask is what changes nothing.
func ask(ctx context.Context, admin *kadm.Client, c programs.Command) (any, error) {
	switch c.Do {
	case "list-topics":
		topics, err := admin.ListTopics(ctx)
		return topics.Names(), err
	case "describe-topic":
		topics, err := admin.ListTopics(ctx, c.Topic)
		return len(topics[c.Topic].Partitions), err
	case "describe-configs":
		answers, err := admin.DescribeTopicConfigs(ctx, c.Topic)
		if err != nil {
			return nil, err
		}
		configs := map[string]string{}
		for _, config := range answers[0].Configs {
			configs[config.Key] = config.MaybeValue()
		}
		return configs, answers[0].Err
	case "list-groups":
		groups, err := admin.ListGroups(ctx)
		return groups.Groups(), err
	case "describe-group":
		groups, err := admin.DescribeGroups(ctx, c.Group)
		return groups[c.Group].State, errors.Join(err, groups[c.Group].Err)
	case "group-offsets":
		offsets := map[int32]int64{}
		answers, err := admin.FetchOffsets(ctx, c.Group)
		answers.Each(func(o kadm.OffsetResponse) { offsets[o.Partition] = o.At })
		return offsets, err
	default:
		return nil, fmt.Errorf("no command %q", c.Do)
	}
}
