package groups

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	partitions     = 6
	sessionTimeout = 6 * time.Second // the shortest that brokers allow by default
	patience       = 90 * time.Second
	pace           = 5 * time.Millisecond // between two records of the producer
)

// life is one group from its first member to its last.
type life struct {
	t       testing.TB
	cluster Cluster
	topic   string
	group   string
	session time.Duration // timeout of members
	admin   *kadm.Client
	client  *kgo.Client

	acked, seen records
	drops       int   // records that members may have lost themselves
	late        int64 // records that members may have printed and not committed
	goesBack    bool  // members may commit older offsets themselves
	members     []*process

	mu   sync.Mutex
	wake chan struct{} // closed and replaced at each change
}

// Run plays a group's life with one client library.
func Run(t *testing.T, program Program) {
	t.Helper()
	RunMixed(t, program, program, program)
}

// RunMixed plays it with up to three libraries in one group, which must have a way to
// assign partitions in common.
func RunMixed(t *testing.T, first, second, third Program) {
	t.Helper()
	l := newLife(t, StartCluster(t))
	stopProducing := l.produce()
	stopWatching := l.watchCommits()

	a := l.start(first, "a", "")
	l.await("the first member has every partition and reads", func() bool { return l.owners(a) && a.read() > 0 })
	b := l.start(second, "b", "")
	l.await("two members share the partitions", func() bool { return l.owners(a, b) && b.read() > 0 })
	l.leave(b)
	l.await("the other takes over when one leaves", func() bool { return l.owners(a) })

	c := l.start(third, "c", "")
	l.await("a third member gets its share", func() bool { return l.owners(a, c) && c.read() > 0 })
	c.kill()
	l.await("the partitions of a killed member move", func() bool { return l.owners(a) })

	if first.Stalls == "" {
		l.killBroker(a)
	} else {
		t.Logf("the broker is not killed: %s", first.Stalls)
	}

	stopProducing()
	l.await("everything that was acknowledged has been read", func() bool { return l.allRead() })
	l.leave(a)
	l.judge(stopWatching())
	l.lastMember(second)
	t.Logf("%d records acknowledged, %d read, %d of them again", l.acked.len(), l.seen.len(), l.seen.repeats())
}

// killBroker kills the broker and starts it again, with one member in the group.
func (l *life) killBroker(a *process) {
	l.t.Helper()
	before := l.committed()
	l.cluster.Kill()
	l.cluster.Start()
	l.await("commits go on after the broker was killed", func() bool { return l.ahead(before) && l.owners(a) })
}

func newLife(t *testing.T, cluster Cluster) *life {
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Address()), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), // not every member knows every codec
		kgo.AlwaysRetryEOF(), kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	l := &life{t: t, cluster: cluster, topic: "orders", group: "billing", session: sessionTimeout, client: client, admin: kadm.NewClient(client), wake: make(chan struct{})}
	if _, err := l.admin.CreateTopic(t.Context(), partitions, 1, nil, l.topic); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			faults := missing(&l.acked, &l.seen)
			t.Logf("%d faults so far, %q …\nmembers:\n%s", len(faults), faults[:min(len(faults), maxFaults)], l)
		}
	})
	return l
}

func (l *life) String() string {
	var b strings.Builder
	for _, m := range l.members {
		fmt.Fprintln(&b, m)
	}
	return b.String()
}

// changed wakes whoever awaits something.
func (l *life) changed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.wake)
	l.wake = make(chan struct{})
}

// await waits until something is true; it looks again after each line of a member.
func (l *life) await(what string, done func() bool) {
	l.t.Helper()
	begin := time.Now()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for {
		l.mu.Lock()
		wake := l.wake
		l.mu.Unlock()
		if done() {
			l.t.Logf("%s, after %s", what, time.Since(begin).Round(time.Millisecond))
			return
		}
		select {
		case <-wake:
		case <-look.C:
		case <-limit.C:
			l.t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// allRead tells whether everything that was acknowledged has been read.
func (l *life) allRead() bool { return len(missing(&l.acked, &l.seen)) <= l.drops }

// owners tells whether these members, and only they, have each partition once, each
// having at least one.
func (l *life) owners(of ...*process) bool {
	var all []int32
	for _, m := range of {
		if m.gone() {
			l.t.Fatalf("%s has ended by itself", m.Name)
		}
		own := m.partitions()
		if len(own) == 0 {
			return false
		}
		all = append(all, own...)
	}
	slices.Sort(all)
	for i := range all {
		if all[i] != int32(i) {
			return false
		}
	}
	return len(all) == partitions
}

// produce writes to all partitions in turn until stopped; stop waits for what is still
// under way.
func (l *life) produce() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for i := 0; ; i++ {
			l.write(i)
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return sync.OnceFunc(func() {
		cancel()
		<-done
		if err := l.client.Flush(l.t.Context()); err != nil {
			l.t.Fatal(err)
		}
	})
}

func (l *life) write(i int) {
	value := fmt.Sprintf("value-%d", i)
	r := &kgo.Record{Topic: l.topic, Partition: int32(i % partitions), Value: []byte(value)}
	l.client.Produce(context.Background(), r, func(r *kgo.Record, err error) {
		if err == nil {
			l.acked.add(Event{Partition: []int32{r.Partition}, Offset: r.Offset, Value: value})
		}
	})
}

// lastMember comes after everybody has left: it reads what is new and nothing else.
func (l *life) lastMember(program Program) {
	l.t.Helper()
	old := l.acked.len()
	before := l.seen.repeats()
	d := l.start(program, "d", "")
	l.await("the last member has every partition", func() bool { return l.owners(d) })
	for i := range 10 * partitions {
		l.write(old + i)
	}
	if err := l.client.Flush(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
	l.await("the last member reads on", func() bool { return l.allRead() })
	l.leave(d)
	if again := l.seen.repeats() - before; again > 0 {
		l.t.Errorf("the last member has read %d records that the group had committed", again)
	}
}
