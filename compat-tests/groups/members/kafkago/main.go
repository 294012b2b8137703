// Command kafkago is a member of a group that reads with segmentio's kafka-go (see
// package groups).
package main

import (
	"context"
	"fmt"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/klamm-mq/klamm/compat-tests/groups/members"
)

// The Reader tells nobody but its log what it is assigned.
var subscribed = regexp.MustCompile(`partition:([0-9]+)`)

func logged(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	switch {
	case strings.Contains(text, "subscribed to topics and partitions"):
		var list []string
		for _, m := range subscribed.FindAllStringSubmatch(text, -1) {
			list = append(list, m[1])
		}
		fmt.Println("assigned", strings.Join(list, ","))
	case strings.Contains(text, "stopped heartbeat"):
		fmt.Println("assigned")
	default:
		fmt.Println("log", text)
	}
}

func main() {
	o := members.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{o.Bootstrap}, GroupID: o.Group, Topic: o.Topic, StartOffset: kafka.FirstOffset,
		SessionTimeout: o.SessionTimeout, HeartbeatInterval: time.Second, MaxWait: 500 * time.Millisecond,
		Dialer:      &kafka.Dialer{ClientID: o.Name, Timeout: 10 * time.Second, DualStack: true},
		Logger:      kafka.LoggerFunc(logged),
		ErrorLogger: kafka.LoggerFunc(func(format string, args ...any) { fmt.Println("error", fmt.Sprintf(format, args...)) }),
	})
	for ctx.Err() == nil {
		r, err := reader.FetchMessage(ctx)
		if err != nil {
			fmt.Println("fetch", err)
			continue
		}
		fmt.Println("record", r.Partition, r.Offset, string(r.Value))
		if err := reader.CommitMessages(context.Background(), r); err != nil {
			fmt.Println("commit", err)
		}
	}
	members.Check(reader.Close())
}
