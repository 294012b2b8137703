package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/compat-tests/groups"
)

const (
	partitions = 6
	members    = 2                     // of each group
	pace       = 10 * time.Millisecond // between two records of a producer
	session    = 10 * time.Second      // timeout of members: a busy machine holds up heartbeats
	settle     = 3 * time.Second       // until all that a client had before a fault is printed
	bound      = time.Minute           // until every client goes on after a fault
	startBound = 3 * time.Minute       // until every client has begun: some are compiled first
	drain      = 2 * time.Minute       // until the readers have everything, and producers have ended
	maxFaults  = 10                    // that a failure prints of a topic
)

// loadOptions say what a load runs against.
type loadOptions struct {
	bootstrap   string // addresses with commas between them
	kinds       []kind
	replication int16
	topic       map[string]string // settings beside many small segments
	// dial is how the judge connects; nil: as the clients do.
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// producer are more arguments for producers.
	producer []string
	// watched has each topic read by followers as well, and written by somebody whose
	// records are refused.
	watched bool
}

// load is the clients and what is known of them.
type load struct {
	loadOptions
	t         *testing.T
	admin     *kadm.Client
	client    *kgo.Client
	topics    []string
	histories []*history // of each topic
	followers []*follower
	producers []*process
	members   []*process // of groups, and followers that are processes
	slowest   slowest
	refused   atomic.Int64 // records that should be refused, and were
}

// slowest is the client that took longest to go on after a fault.
type slowest struct {
	name string
	took time.Duration
}

func (s slowest) String() string {
	return fmt.Sprintf("%s/%s", s.took.Round(10*time.Millisecond), s.name)
}

// startLoad makes a topic for each library, starts all clients and waits until they work.
func startLoad(t *testing.T, o loadOptions) *load {
	t.Helper()
	l := &load{loadOptions: o, t: t}
	l.client = l.newClient(kgo.AlwaysRetryEOF(), kgo.MetadataMinAge(100*time.Millisecond))
	t.Cleanup(l.client.Close)
	l.admin = kadm.NewClient(l.client)
	t.Cleanup(l.tell)
	for i, k := range l.kinds {
		l.startTopic(i, k)
	}
	l.goOn("first acknowledgements and records", time.Time{}, startBound)
	if i := slices.IndexFunc(l.kinds, func(k kind) bool { return k.name == "librdkafka" }); l.watched && i >= 0 {
		l.followWithKcat(l.topics[i], l.histories[i]) // it ends where a topic is not known yet
	}
	return l
}

// newClient is one of the judge's own.
func (l *load) newClient(opts ...kgo.Opt) *kgo.Client {
	l.t.Helper()
	opts = append(opts, kgo.SeedBrokers(strings.Split(l.bootstrap, ",")...))
	if l.dial != nil {
		opts = append(opts, kgo.Dialer(l.dial))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		l.t.Fatal(err)
	}
	return client
}

func (l *load) startTopic(i int, k kind) {
	l.t.Helper()
	topic, small := "from-"+k.name, "1048576" // many rolls
	settings := map[string]*string{"segment.bytes": &small}
	if l.watched {
		most := strconv.Itoa(largestBatch)
		settings["max.message.bytes"] = &most
	}
	for key, value := range l.topic {
		settings[key] = &value
	}
	l.create(topic, settings)
	h := newHistory(k.name, k.idempotent)
	l.topics, l.histories = append(l.topics, topic), append(l.histories, h)
	args := append(producerArgs(l.bootstrap, topic, k.name), l.loadOptions.producer...)
	l.producers = append(l.producers, start(l.t, k.name+"-producer", k.producer(l.t, args), h.told))
	if l.watched {
		l.follow(topic, h)
		l.writeWhatIsRefused(topic)
	}
	reader := l.readerOf(i)
	for m := range members {
		l.startMember(reader, topic, fmt.Sprintf("%s-member-%d", reader.name, m), h)
	}
}

// create makes a topic. A machine that is busy with starting clients may answer late, and the
// next attempt finds what the one before has made.
func (l *load) create(topic string, settings map[string]*string) {
	l.t.Helper()
	pause := time.NewTicker(time.Second)
	defer pause.Stop()
	for deadline := time.Now().Add(startBound); ; <-pause.C {
		_, err := l.admin.CreateTopic(l.t.Context(), partitions, l.replication, settings, topic)
		switch {
		case err == nil, errors.Is(err, kerr.TopicAlreadyExists):
			return
		case time.Now().After(deadline):
			l.t.Fatalf("create %s: %v", topic, err)
		}
	}
}

// readerOf is the library whose group reads a topic.
func (l *load) readerOf(topic int) kind { return l.kinds[(topic+1)%len(l.kinds)] }

// startMember adds a member to the group that has the reader's name.
func (l *load) startMember(reader kind, topic, name string, h *history) {
	l.t.Helper()
	m := groups.Member{
		Bootstrap: l.bootstrap, Topic: topic, Group: reader.name, Name: name, SessionTimeoutMs: int(session.Milliseconds()),
	}
	l.members = append(l.members, start(l.t, name, reader.member.Command(l.t, m), func(line string) (known, progress bool) {
		e, ok := reader.member.Read(line)
		if !ok || e.Assigned {
			return false, false
		}
		h.saw(place{e.Partition[0], e.Offset}, e.Value)
		return true, true
	}))
}

// follow reads a topic with franz-go, in this process. An offset that has come out of range
// is an error for it, not a reason to begin elsewhere.
func (l *load) follow(topic string, h *history) {
	l.t.Helper()
	f := h.newFollower("franz-go, assigned,")
	l.followers = append(l.followers, f)
	from := map[int32]kgo.Offset{}
	for p := range int32(partitions) {
		from[p] = kgo.NewOffset().At(0)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(l.bootstrap, ",")...), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		for ctx.Err() == nil {
			fetches := client.PollFetches(ctx)
			fetches.EachError(func(_ string, _ int32, err error) {
				if loss := (*kgo.ErrDataLoss)(nil); errors.As(err, &loss) || errors.Is(err, kerr.OffsetOutOfRange) {
					f.failed(err)
				}
			})
			fetches.EachRecord(func(r *kgo.Record) { f.saw(place{r.Partition, r.Offset}, string(r.Value)) })
		}
	}()
	l.t.Cleanup(func() {
		stop()
		<-over
		client.Close()
	})
}

// followWithKcat reads a topic with librdkafka.
func (l *load) followWithKcat(topic string, h *history) {
	l.t.Helper()
	f := h.newFollower("kcat, assigned,")
	l.followers = append(l.followers, f)
	reader := groups.KcatAssigned(l.bootstrap, topic)
	l.members = append(l.members, start(l.t, "kcat-follower", reader.Command(l.t, groups.Member{}), func(line string) (known, progress bool) {
		e, ok := reader.Read(line)
		if !ok {
			return false, false
		}
		f.saw(place{e.Partition[0], e.Offset}, e.Value)
		return true, true
	}))
}

// electPreferred has every replica lead that should, in all topics.
func (l *load) electPreferred() {
	l.t.Helper()
	if _, err := l.admin.ElectLeaders(l.t.Context(), kadm.ElectPreferredReplica, nil); err != nil {
		l.t.Fatalf("elect preferred leaders: %v", err)
	}
}

func (l *load) processes() []*process { return slices.Concat(l.producers, l.members) }

// tell prints, after a failure, what the clients have said last.
func (l *load) tell() {
	if !l.t.Failed() {
		return
	}
	for _, p := range l.processes() {
		l.t.Logf("%d events, %s", p.events.Load(), p.story())
	}
}

// wait lets time pass, in which no client may end.
func (l *load) wait(d time.Duration) {
	l.t.Helper()
	over := time.NewTimer(d)
	defer over.Stop()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-over.C:
			return
		case <-look.C:
			l.allLive()
		}
	}
}

func (l *load) allLive() {
	l.t.Helper()
	for _, p := range l.processes() {
		if p.gone() {
			l.t.Fatalf("%s has ended by itself: %s", p.name, p.cmd.ProcessState)
		}
	}
}

// goOn waits until each client has made progress from now on. Since is when the fault was
// over, the zero time before the first one.
func (l *load) goOn(what string, since time.Time, within time.Duration) {
	l.t.Helper()
	begin := time.Now()
	waiting := map[*process]int64{} // with its events before
	for _, p := range l.processes() {
		waiting[p] = p.events.Load()
	}
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for len(waiting) > 0 {
		<-look.C
		l.allLive()
		for p, before := range waiting {
			switch {
			case p.events.Load() > before:
				delete(waiting, p)
				if took := time.Since(since); !since.IsZero() && took > l.slowest.took {
					l.slowest = slowest{p.name, took}
				}
			case time.Since(begin) > within:
				l.t.Fatalf("%s: %s is stuck for %s", what, p.name, within)
			}
		}
	}
	l.t.Logf("%s: %s", what, time.Since(begin).Round(time.Millisecond))
}

// stopProducers has them wait for what is under way.
func (l *load) stopProducers() {
	l.t.Helper()
	late := time.NewTimer(drain)
	defer late.Stop()
	for _, p := range l.producers {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	}
	for _, p := range l.producers {
		select {
		case <-p.exited:
		case <-late.C:
			l.t.Fatalf("%s has not sent what it had within %s", p.name, drain)
		}
	}
}

func (l *load) total(of func(h *history) int) (n int) {
	for _, h := range l.histories {
		h.mu.Lock()
		n += of(h)
		h.mu.Unlock()
	}
	return n
}

// counts are what the evidence says of the clients.
func (l *load) counts() string {
	return fmt.Sprintf("acked=%d given-up=%d refused=%d read-again=%d slowest=%s",
		l.total(func(h *history) int { return len(h.acked) }), l.total(func(h *history) int { return h.failed }), l.refused.Load(),
		l.total(func(h *history) int { return h.again }), l.slowest)
}
