// Command franz is a member of a group that reads with franz-go (see package groups).
package main

import (
	"context"
	"fmt"
	"os/signal"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/compat-tests/groups/members"
)

// owned are the partitions that this member has.
type owned struct {
	mu   sync.Mutex
	have map[int32]bool
}

func (o *owned) change(topics map[string][]int32, have bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, parts := range topics {
		for _, p := range parts {
			if have {
				o.have[p] = true
			} else {
				delete(o.have, p)
			}
		}
	}
	var list []string
	for p := range o.have {
		list = append(list, fmt.Sprint(p))
	}
	sort.Strings(list)
	fmt.Println("assigned", strings.Join(list, ","))
}

func main() {
	o := members.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	have := &owned{have: map[int32]bool{}}
	opts := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(o.Bootstrap, ",")...), kgo.ClientID(o.Name), kgo.ConsumerGroup(o.Group), kgo.ConsumeTopics(o.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(o.SessionTimeout), kgo.HeartbeatInterval(time.Second),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, m map[string][]int32) { have.change(m, true) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, m map[string][]int32) { have.change(m, false) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, m map[string][]int32) { have.change(m, false) }),
	}
	if o.Instance != "" {
		opts = append(opts, kgo.InstanceID(o.Instance))
	}
	if o.Range {
		opts = append(opts, kgo.Balancers(kgo.RangeBalancer()))
	}
	client, err := kgo.NewClient(opts...)
	members.Check(err)
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		fetches.EachError(func(_ string, p int32, err error) { fmt.Println("fetch", p, err) })
		records := fetches.Records()
		for _, r := range records {
			fmt.Println("record", r.Partition, r.Offset, string(r.Value))
		}
		if err := client.CommitRecords(context.Background(), records...); err != nil {
			fmt.Println("commit", err)
		}
	}
	client.Close() // leaves the group
}
