package simtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/broker/brokertest"
	"github.com/klamm-mq/klamm/broker/simtest/check"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// Cluster is one run: a broker or several, their clients, and what befell them. Its methods that do
// not return errors end the scenario when they cannot do what they say.
type Cluster struct {
	t       *testing.T
	opts    Options
	seed    uint64
	begin   time.Time
	machine *brokertest.Machine // the first
	broker  *Broker             // on it
	brokers []*Broker           // all of them
	history *check.History

	over    context.Context // ends with the scenario, or with the first violation
	end     context.CancelFunc
	tasks   sync.WaitGroup
	clients []*kgo.Client

	mu         sync.Mutex // guards what is below; a leaf
	rand       *rand.Rand
	trace      []string
	violations []string
	faults     int
	producers  int
	topics     map[string]topic
	groups     []*Group
}

// topic is what a client was told of a topic that it created.
type topic struct {
	id         uuid.UUID
	partitions int32
	deleted    bool // or being deleted
	compacted  bool
}

func newCluster(t *testing.T, o Options, seed uint64) *Cluster {
	c := &Cluster{
		t: t, opts: o, seed: seed, begin: time.Now(), history: check.NewHistory(),
		rand: rand.New(rand.NewPCG(seed, 0)), topics: map[string]topic{},
	}
	c.over, c.end = context.WithTimeout(t.Context(), o.Limit)
	c.machine = brokertest.NewMachine(t)
	c.machine.Seed(seed)
	c.broker = newBroker(c, c.machine, 1)
	c.brokers = []*Broker{c.broker}
	if c.several() {
		c.addBrokers()
	}
	for _, b := range c.brokers {
		b.machine.Settings = append(b.machine.Settings, o.Settings...)
	}
	return c
}

// stopped is what a scenario's goroutine panics with when it cannot go on.
type stopped struct{}

// play runs the scenario and then ends all that is left of it.
func (c *Cluster) play(scenario func(*Cluster)) {
	func() {
		defer func() {
			if p := recover(); p != nil && p != (stopped{}) {
				panic(p)
			}
		}()
		c.startAll()
		scenario(c)
	}()
	c.end()
	for _, b := range c.brokers {
		b.bury()
	}
	for _, client := range c.clients {
		client.Close()
	}
	c.tasks.Wait()
}

func (c *Cluster) report() *Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &Report{Seed: c.seed, Violations: c.violations, Trace: c.trace, Faults: c.faults, Acked: c.history.NumAcked()}
	for _, v := range c.history.Violations() {
		r.Violations = append(r.Violations, v.String())
	}
	return r
}

// Broker is the cluster's broker.
func (c *Cluster) Broker() *Broker { return c.broker }

// violated notes a broken invariant that clients do not see, and ends the run.
func (c *Cluster) violated(invariant, format string, args ...any) {
	text := invariant + ": " + fmt.Sprintf(format, args...)
	c.tracef("%s", text)
	c.mu.Lock()
	c.violations = append(c.violations, text)
	c.mu.Unlock()
	c.end()
}

// require ends the scenario with a violation of Liveness if err is one. What fails after
// the end of the run failed by that.
func (c *Cluster) require(doing string, err error) {
	if err == nil {
		return
	}
	c.checkTime()
	if c.over.Err() == nil {
		c.violated("Liveness", "%s: %v", doing, err)
	}
	panic(stopped{})
}

// checkTime makes it a violation if the run took too long.
func (c *Cluster) checkTime() {
	if time.Since(c.begin) >= c.opts.Limit {
		c.violated("Liveness", "not done after %v", c.opts.Limit)
	}
}

// tracef adds a line to schedule and history.
func (c *Cluster) tracef(format string, args ...any) {
	line := fmt.Sprintf("%10.3fs  ", time.Since(c.begin).Seconds()) + fmt.Sprintf(format, args...)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trace = append(c.trace, line)
}

// draw gives a number from 0 to n-1 that follows from the seed.
func (c *Cluster) draw(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rand.IntN(n)
}

// pause gives a time up to longest.
func (c *Cluster) pause(longest time.Duration) time.Duration {
	return time.Duration(c.draw(int(longest) + 1))
}

// sleep waits, and tells whether the run goes on.
func (c *Cluster) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.over.Done():
		return false
	}
}

// Sleep lets time pass.
func (c *Cluster) Sleep(d time.Duration) {
	if !c.sleep(d) {
		c.checkTime()
		panic(stopped{})
	}
}

// Go runs fn beside the scenario.
func (c *Cluster) Go(fn func()) {
	c.tasks.Go(func() {
		defer func() {
			if p := recover(); p != nil && p != (stopped{}) {
				panic(p)
			}
		}()
		fn()
	})
}

// After does something when that time has passed from now.
func (c *Cluster) After(d time.Duration, fn func()) {
	c.Go(func() {
		if c.sleep(d) {
			fn()
		}
	})
}

// RunUntil lets time pass until all channels are closed.
func (c *Cluster) RunUntil(done ...<-chan struct{}) {
	for _, ch := range done {
		select {
		case <-ch:
		case <-c.over.Done():
			c.checkTime()
			panic(stopped{})
		}
	}
}

// client makes a client that is closed at the end of the run.
func (c *Cluster) client(opts ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(c.addresses()...), kgo.Dialer(c.dial),
		kgo.MetadataMinAge(100 * time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
		kgo.RequestTimeoutOverhead(5 * time.Second),
		kgo.UnknownTopicRetries(-1),
		kgo.AlwaysRetryEOF(), // a broker that dies upon the first request of a connection is no lack of SASL
	}, opts...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients = append(c.clients, client)
	return client
}

// patience is how long an operation of the scenario itself may take, faults included.
const patience = 10 * time.Minute

// CreateTopic creates a topic with that many partitions and with settings, each
// key=value, and goes on when a client was told that it exists.
func (c *Cluster) CreateTopic(name string, partitions int32, settings ...string) {
	configs := map[string]*string{}
	for _, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		configs[key] = &value
	}
	client := c.client()
	defer client.Close()
	admin := kadm.NewClient(client)
	ctx, cancel := context.WithTimeout(c.over, patience)
	defer cancel()
	for {
		made, err := admin.CreateTopic(ctx, partitions, int16(min(len(c.brokers), 3)), configs, name)
		if err == nil || isTopicExists(err) { // an earlier answer may have been lost
			c.created(ctx, admin, name, partitions, made)
			return
		}
		if ctx.Err() != nil {
			c.require("create topic "+name, err)
		}
		c.sleep(100 * time.Millisecond)
	}
}

// created notes a topic that exists for certain.
func (c *Cluster) created(ctx context.Context, admin *kadm.Client, name string, partitions int32, made kadm.CreateTopicResponse) {
	id := uuid.UUID(made.ID)
	for id == (uuid.UUID{}) && ctx.Err() == nil {
		if details, err := admin.ListTopics(ctx, name); err == nil {
			id = uuid.UUID(details[name].ID)
		}
	}
	c.tracef("topic %s is %s", name, id)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.topics[name] = topic{id: id, partitions: partitions, compacted: c.topics[name].compacted}
}

// DeleteTopic deletes a topic and goes on when a client was told that it is gone.
func (c *Cluster) DeleteTopic(name string) {
	c.mu.Lock()
	t := c.topics[name]
	t.deleted = true
	c.topics[name] = t
	c.mu.Unlock()
	client := c.client()
	defer client.Close()
	ctx, cancel := context.WithTimeout(c.over, patience)
	defer cancel()
	for {
		_, err := kadm.NewClient(client).DeleteTopic(ctx, name)
		if err == nil || isUnknownTopic(err) {
			break
		}
		if ctx.Err() != nil {
			c.require("delete topic "+name, err)
		}
		c.sleep(100 * time.Millisecond)
	}
	c.tracef("topic %s is gone", name)
	c.history.Deleted(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.topics, name)
}
