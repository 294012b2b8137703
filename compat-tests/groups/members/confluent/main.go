//go:build cgo

// Command confluent is a member of a group that reads with confluent-kafka-go (see package
// groups).
package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/klamm-mq/klamm/compat-tests/groups/members"
)

// rebalanced prints the partitions each time they change.
func rebalanced(_ *kafka.Consumer, event kafka.Event) error {
	switch e := event.(type) {
	case kafka.AssignedPartitions:
		var list []string
		for _, p := range e.Partitions {
			list = append(list, fmt.Sprint(p.Partition))
		}
		fmt.Println("assigned", strings.Join(list, ","))
	case kafka.RevokedPartitions:
		fmt.Println("assigned")
	}
	return nil
}

func main() {
	o := members.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config := kafka.ConfigMap{
		"bootstrap.servers": o.Bootstrap, "client.id": o.Name, "group.id": o.Group, "auto.offset.reset": "earliest", "enable.auto.commit": false,
		"session.timeout.ms": int(o.SessionTimeout.Milliseconds()), "heartbeat.interval.ms": 1000,
	}
	if o.Instance != "" {
		config["group.instance.id"] = o.Instance
	}
	consumer, err := kafka.NewConsumer(&config)
	members.Check(err)
	members.Check(consumer.Subscribe(o.Topic, rebalanced))
	for ctx.Err() == nil {
		m, err := consumer.ReadMessage(200 * time.Millisecond)
		var failed kafka.Error
		switch {
		case err == nil:
			fmt.Println("record", m.TopicPartition.Partition, int64(m.TopicPartition.Offset), string(m.Value))
			if _, err := consumer.CommitMessage(m); err != nil {
				fmt.Println("commit", err)
			}
		case !errors.As(err, &failed) || !failed.IsTimeout():
			fmt.Println("error", err)
		}
	}
	members.Check(consumer.Close())
}
