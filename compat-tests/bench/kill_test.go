package bench

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// clusterKill kills brokers of a cluster with SIGKILL, one after the other, while franz-go
// and Kafka's producer write to 1,000 partitions with three replicas: first such that only
// lead partitions, then the one that is the active controller as well.
//
// The gap of a kill is the longest time for which a producer that goes on all the while has
// no acknowledgement from one of the partitions that the broker has led. A broker stays down
// until every partition has another leader and two seconds more.
func clusterKill(b *testing.B, t *table) {
	kills := []int{number(b, "KILLS", 20), number(b, "KAFKA_KILLS", 3)}
	start := []func() cluster{
		func() cluster { return startKlamm(b, "klamm-fsync") },
		func() cluster { return startKafka(b) },
	}
	var subjects []subject
	found := map[string][]spread{}
	for i := range start {
		k := newKilling(b, start[i]())
		subjects = append(subjects, k.subject)
		for _, victim := range []string{leaderOnly, leaderAndController} {
			gaps := k.kill(victim, kills[i])
			for client, s := range gaps {
				found[victim+client] = append(found[victim+client], s)
			}
		}
		k.end()
	}
	for _, v := range []struct {
		victim string
		limit  float64
	}{{leaderOnly, 1}, {leaderAndController, 1.5}} {
		for _, client := range []string{"franz-go", "Java"} {
			t.add(target{fmt.Sprintf("gap in s, %s killed, %s", v.victim, client), v.limit, atMost}, subjects, found[v.victim+client])
		}
	}
	b.Log("\n" + t.String())
}

const (
	leaderOnly          = "leader"
	leaderAndController = "leader that is controller"
)

// killing is a cluster under steady load, whose brokers are killed.
type killing struct {
	cluster
	b       *testing.B
	admin   *kadm.Client
	clients map[string]steady
	next    int // node, of those that lead only
}

func newKilling(b *testing.B, c cluster) *killing {
	b.Helper()
	manyPartitions(b, c.subject)
	k := &killing{cluster: c, b: b, admin: kadm.NewClient(dial(b, c.addr)), clients: map[string]steady{
		"franz-go": startFranzSteady(b, c.addr, manyTopic, manyCount),
		"Java":     startJavaSteady(b, c.addr, manyTopic, manyCount),
	}}
	pause(warmUp)
	return k
}

const (
	warmUp  = 10 * time.Second // of producers' virtual machines, and of brokers'
	downFor = 2 * time.Second  // after the partitions have other leaders
	// betweenKills is longer than the five seconds within which franz-go does not ask
	// again: it has just asked, about what the last kill changed.
	betweenKills = 6 * time.Second
)

func pause(d time.Duration) { <-time.After(d) }

// kill gives the gap, in seconds, that each client saw at each of so many kills. Each is told
// of at once: a benchmark's log keeps ten lines only, and the table needs most of them.
func (k *killing) kill(victim string, times int) map[string]spread {
	gaps := map[string]spread{}
	for i := range times {
		line := fmt.Sprintf("%s, %s, kill %d:", k.name, victim, i+1)
		found := k.killOnce(k.victim(victim))
		for _, client := range slices.Sorted(maps.Keys(found)) {
			gap := found[client].Seconds()
			gaps[client] = append(gaps[client], gap)
			line += fmt.Sprintf(" %s %.2f s", client, gap)
		}
		fmt.Fprintln(os.Stderr, line)
	}
	return gaps
}

func (k *killing) victim(kind string) int32 {
	controller, _ := k.quorum()
	if kind == leaderAndController {
		return controller
	}
	for {
		k.next = k.next%len(k.nodes) + 1
		if int32(k.next) != controller {
			return int32(k.next)
		}
	}
}

// quorum tells who is the active controller, in which epoch.
func (k *killing) quorum() (leader, epoch int32) {
	k.b.Helper()
	return quorum(k.b, k.addr)
}

func (k *killing) killOnce(id int32) map[string]time.Duration {
	affected := map[int32]bool{}
	k.await("has led by broker "+fmt.Sprint(id)+" what it led", func(list []kadm.PartitionDetail) bool {
		clear(affected)
		for _, p := range list {
			affected[p.Partition] = p.Leader == id
		}
		return all(list, inPlace)
	})
	victim := k.nodes[id-1]
	killed := time.Now()
	victim.Kill()
	k.await("has other leaders", func(list []kadm.PartitionDetail) bool {
		return all(list, func(p kadm.PartitionDetail) bool { return p.Leader >= 0 && p.Leader != id })
	})
	pause(downFor)
	back := time.Now()
	victim.Start()
	k.pids[id-1] = victim.Pid()
	k.restore()
	gaps := map[string]time.Duration{}
	for client, s := range k.clients {
		waits, failed := s.waits(killed)
		if len(failed) > 0 {
			k.b.Errorf("%s: %d records failed, the first: %s", client, len(failed), failed[0])
		}
		gap := longestGap(waits, affected, killed, back)
		if gap == 0 {
			k.b.Errorf("%s: no record had to wait when broker %d was killed", client, id)
		}
		gaps[client] = gap
	}
	return gaps
}

// longestGap is how long the partitions had no acknowledgement, at most, of records that
// were under way when their leader was killed, or sent before it was back.
func longestGap(waits []wait, affected map[int32]bool, killed, back time.Time) (longest time.Duration) {
	for _, w := range waits {
		if !affected[w.partition] || w.sent.After(back) {
			continue
		}
		begin := w.sent
		if begin.Before(killed) {
			begin = killed
		}
		longest = max(longest, w.acked.Sub(begin))
	}
	return longest
}

// inPlace says that a partition is led by its first replica, and all are in sync.
func inPlace(p kadm.PartitionDetail) bool {
	return len(p.ISR) == len(p.Replicas) && p.Leader == p.Replicas[0]
}

// restore waits until all replicas are in sync, and gives leaderships back.
func (k *killing) restore() {
	k.await("has all replicas in sync", func(list []kadm.PartitionDetail) bool {
		return all(list, func(p kadm.PartitionDetail) bool { return len(p.ISR) == len(p.Replicas) })
	})
	set := kadm.TopicsSet{}
	for p := range int32(manyCount) {
		set.Add(manyTopic, p)
	}
	if _, err := k.admin.ElectLeaders(k.b.Context(), kadm.ElectPreferredReplica, set); err != nil {
		k.b.Fatal(err)
	}
	k.await("is led by first replicas", func(list []kadm.PartitionDetail) bool { return all(list, inPlace) })
	pause(betweenKills)
}

func (k *killing) await(want string, is func([]kadm.PartitionDetail) bool) {
	k.b.Helper()
	awaitPartitions(k.b, k.admin, manyTopic, want, is)
}

// end stops clients and brokers, so that the next cluster has the machine.
func (k *killing) end() {
	k.admin.Close()
	for _, s := range k.clients {
		s.stop()
	}
	for _, n := range k.nodes {
		n.Kill()
	}
}

// quorum asks who leads the metadata log.
func quorum(b *testing.B, addr string) (leader, epoch int32) {
	b.Helper()
	c := dial(b, addr)
	defer c.Close()
	p := kmsg.NewDescribeQuorumRequestTopicPartition()
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic, t.Partitions = "__cluster_metadata", append(t.Partitions, p)
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(b.Context(), c)
	if err != nil {
		b.Fatal(err)
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		b.Fatalf("no quorum is described: %+v", resp)
	}
	found := resp.Topics[0].Partitions[0]
	return found.LeaderID, found.LeaderEpoch
}
