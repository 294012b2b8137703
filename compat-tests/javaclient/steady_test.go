package javaclient

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/compat-tests/groups"
	"github.com/klamm-mq/klamm/compat-tests/java"
)

// The Java producer with its defaults, which is idempotent: what it has written is there
// once and in order, although the broker is killed twice.
func TestProducerOutlivesTheBroker(t *testing.T) {
	const count, pace = 12000, 2000
	cluster := groups.StartCluster(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Address()), kgo.ConsumeTopics("numbers"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), 3, 1, nil, "numbers"); err != nil {
		t.Fatal(err)
	}
	p := java.Run(t, "producer", source("Steady.java"), cluster.Address(), "numbers", strconv.Itoa(count), strconv.Itoa(pace))
	for _, at := range []int{2000, 7000} {
		p.Await(fmt.Sprintf("^acked %d$", at))
		cluster.Kill()
		cluster.Start()
	}
	p.Await(fmt.Sprintf("^done, acked %d, failed 0$", count))

	read := 0
	last := map[int]int{} // by key: a record's order counts among those of its key
	for read < count {
		fetches := client.PollFetches(t.Context())
		if err := fetches.Err0(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			key, n := number(t, r.Key), number(t, r.Value)
			if want, any := last[key]; any && n != want+50 || !any && n != key {
				t.Errorf("partition %d offset %d: %d after %d", r.Partition, r.Offset, n, want)
			}
			last[key] = n
			read++
		})
	}
	if read != count {
		t.Errorf("%d records are there, %d were written", read, count)
	}
}

func number(t *testing.T, text []byte) int {
	t.Helper()
	n, err := strconv.Atoi(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
