package broker_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/broker"
	"github.com/klamm-mq/klamm/configs"
)

// A broker inside a program or a test, on a port that the system chooses.
func Example() {
	dir, err := os.MkdirTemp("", "klamm-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cfg, _, err := configs.Load(configs.Sources{Set: []string{
		"listeners=PLAINTEXT://127.0.0.1:0", "admin.listener=", "log.dirs=" + dir,
	}})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	b, err := broker.Start(ctx, cfg, broker.DefaultEnv())
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := b.Stop(ctx); err != nil {
			log.Fatal(err)
		}
	}()

	client, err := kgo.NewClient(
		kgo.SeedBrokers(b.Addr("PLAINTEXT").String()),
		kgo.AllowAutoTopicCreation(),
		kgo.ConsumeTopics("greetings"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: "greetings", Value: []byte("hello")}).FirstErr(); err != nil {
		log.Fatal(err)
	}
	client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
		fmt.Printf("%s-%d at offset %d: %s\n", r.Topic, r.Partition, r.Offset, r.Value)
	})
	// Output: greetings-0 at offset 0: hello
}
