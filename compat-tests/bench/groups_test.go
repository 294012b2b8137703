package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	members         = 100
	groupPartitions = 2 * members
	committers      = 50
	commitsInAll    = 50_000
)

// BenchmarkGroupsBesideKafka: a hundred members that join at once until each has its share,
// and commits of offsets, on Klamm and on Kafka 4.4 in one run.
func BenchmarkGroupsBesideKafka(b *testing.B) {
	list := subjects(b)
	for _, s := range list {
		c := dial(b, s.addr)
		if _, err := kadm.NewClient(c).CreateTopic(b.Context(), groupPartitions, 1, nil, "shared"); err != nil {
			b.Fatal(err)
		}
		c.Close()
		commitAll(b, s, "warm", commitsInAll/5)
	}
	for _, s := range list {
		b.Run("join/"+s.name, func(b *testing.B) {
			begin, n := time.Now(), 0
			for b.Loop() {
				joinAll(b, s, fmt.Sprint("join-", b.N, "-", n))
				n++
			}
			b.ReportMetric(time.Since(begin).Seconds()/float64(b.N), "s/100-members")
		})
	}
	for _, s := range list {
		b.Run("commit/"+s.name, func(b *testing.B) {
			begin, before := time.Now(), cpu(b, s.pids...)
			for b.Loop() {
				commitAll(b, s, "commits", commitsInAll)
			}
			commits := float64(commitsInAll) * float64(b.N)
			b.ReportMetric(commits/time.Since(begin).Seconds(), "commits/s")
			b.ReportMetric((cpu(b, s.pids...)-before).Seconds()*1e6/commits, "broker-cpu-us/commit")
		})
	}
}

// joinAll starts all members and returns when every partition is assigned and every member
// has one.
func joinAll(b *testing.B, s subject, group string) {
	b.Helper()
	var mu sync.Mutex
	holds := make([]int, members)
	done := make(chan struct{})
	changed := func(i, by int) {
		mu.Lock()
		defer mu.Unlock()
		holds[i] += by
		all, each := 0, true
		for _, n := range holds {
			all += n
			each = each && n > 0
		}
		if all == groupPartitions && each {
			select {
			case <-done:
			default:
				close(done)
			}
		}
	}
	var clients []*kgo.Client
	for i := range members {
		count := func(by int) func(context.Context, *kgo.Client, map[string][]int32) {
			return func(_ context.Context, _ *kgo.Client, parts map[string][]int32) { changed(i, by*len(parts["shared"])) }
		}
		clients = append(clients, dial(b, s.addr, kgo.ConsumerGroup(group), kgo.ConsumeTopics("shared"), kgo.DisableAutoCommit(),
			kgo.Balancers(kgo.RangeBalancer()), kgo.OnPartitionsAssigned(count(1)), kgo.OnPartitionsRevoked(count(-1)), kgo.OnPartitionsLost(count(-1))))
	}
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		b.Fatalf("%s: members hold %v after two minutes", s.name, holds)
	}
	var leaving sync.WaitGroup
	for _, c := range clients {
		leaving.Go(c.Close)
	}
	leaving.Wait()
}

// commitAll commits from outside of groups, one offset a request, over many connections.
func commitAll(b *testing.B, s subject, group string, n int) {
	b.Helper()
	var wg sync.WaitGroup
	for i := range committers {
		wg.Go(func() {
			c := dial(b, s.addr)
			defer c.Close()
			admin := kadm.NewClient(c)
			for k := range n / committers {
				var offsets kadm.Offsets
				offsets.Add(kadm.Offset{Topic: "shared", Partition: int32(i), At: int64(k), LeaderEpoch: -1})
				if err := admin.CommitAllOffsets(b.Context(), fmt.Sprint(group, "-", i), offsets); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
