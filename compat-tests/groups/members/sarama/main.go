// Command sarama is a member of a group that reads with sarama (see package groups).
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/IBM/sarama"

	"github.com/klamm-mq/klamm/compat-tests/groups/members"
)

// handler prints, and marks each record as done; sarama commits what is marked.
type handler struct{ topic string }

func (h handler) Setup(s sarama.ConsumerGroupSession) error {
	fmt.Println("assigned", strings.ReplaceAll(strings.Trim(fmt.Sprint(s.Claims()[h.topic]), "[]"), " ", ","))
	return nil
}

func (handler) Cleanup(sarama.ConsumerGroupSession) error {
	fmt.Println("assigned")
	return nil
}

func (handler) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case r, open := <-claim.Messages():
			if !open {
				return nil
			}
			fmt.Println("record", r.Partition, r.Offset, string(r.Value))
			s.MarkMessage(r, "")
		case <-s.Context().Done():
			return nil
		}
	}
}

func main() {
	o := members.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	sarama.Logger = log.New(os.Stderr, "sarama ", 0)
	config := sarama.NewConfig()
	config.ClientID = o.Name
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Interval = 200 * time.Millisecond
	config.Consumer.Group.Session.Timeout = o.SessionTimeout
	config.Consumer.Group.Heartbeat.Interval = time.Second
	config.Consumer.Group.InstanceId = o.Instance
	group, err := sarama.NewConsumerGroup([]string{o.Bootstrap}, o.Group, config)
	members.Check(err)
	for ctx.Err() == nil {
		if err := group.Consume(ctx, []string{o.Topic}, handler{o.Topic}); err != nil {
			fmt.Println("consume", err)
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
	members.Check(group.Close())
}
