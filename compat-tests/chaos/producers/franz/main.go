// Command franz is a producer with franz-go (see package chaos).
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	bootstrap, topic, name := flag.String("bootstrap", "", ""), flag.String("topic", "", ""), flag.String("name", "", "")
	partitions, pace := flag.Int("partitions", 1, ""), flag.Int("pace-ms", 10, "")
	acks := flag.String("acks", "all", "all, or 1 without idempotence")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	opts := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(*bootstrap, ",")...), kgo.ClientID(*name), kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}
	if *acks == "1" {
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	tick := time.NewTicker(time.Duration(*pace) * time.Millisecond)
	for i := 0; ctx.Err() == nil; i++ {
		r := &kgo.Record{Topic: *topic, Partition: int32(i % *partitions), Value: []byte(*name + "-" + strconv.Itoa(i))}
		client.Produce(context.Background(), r, func(r *kgo.Record, err error) {
			if err != nil {
				fmt.Println("failed", i, err)
				return
			}
			fmt.Println("acked", i, r.Partition, r.Offset)
		})
		<-tick.C
	}
	if err := client.Flush(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	client.Close()
}
