package matrix

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/compat-tests/matrix/programs"
	"github.com/klamm-mq/klamm/compat-tests/tap"
)

const (
	partitions = 3
	patience   = time.Minute // for one command
	// shownRequests is how many of the last requests a failure shows.
	shownRequests = 40
)

// capability is one thing that a client is to show.
type capability struct {
	name string
	show func(*run)
}

// capabilities are in the order in which they are shown: later ones use what earlier ones
// have left.
func capabilities() []capability {
	return slices.Concat(producing(), consuming(), administering(), compacting())
}

// run is one client at one broker.
type run struct {
	t       *testing.T // of the capability
	client  Client
	cluster cluster
	tap     *tap.Tap
	session Session
	judge   *kgo.Client
	admin   *kadm.Client
	corpus  []programs.Record // of the topic that is read
}

// Run has a client show everything but what it cannot do. start is given the address of
// a broker.
func Run(t *testing.T, c Client, start func(t testing.TB, bootstrap string) Session) {
	t.Helper()
	broker := startCluster(t)
	p := broker.tap
	judge, err := kgo.NewClient(kgo.SeedBrokers(p.Addr), kgo.ClientID(tap.Judge), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(judge.Close)
	r := &run{client: c, cluster: broker, tap: p, session: start(t, p.Addr), judge: judge, admin: kadm.NewClient(judge)}
	r.t = t
	r.writeCorpus()
	if kafka() {
		r.awaitCoordinator()
	}
	for _, can := range capabilities() {
		if reason, cannot := c.Cannot[can.name]; cannot {
			t.Logf("cannot: %s: %s", can.name, reason)
			continue
		}
		t.Run(can.name, func(t *testing.T) {
			r.t = t
			can.show(r)
		})
	}
	t.Logf("%s has sent: %s", c.Name, versions(p.Seen(0)))
}

// awaitCoordinator has the topic of the coordinators created: on Kafka that takes longer
// than some clients wait.
func (r *run) awaitCoordinator() {
	r.t.Helper()
	r.await("groups have a coordinator", func() (bool, error) {
		_, err := r.admin.FetchOffsets(r.context(), readers)
		return err == nil, err
	})
}

// versions are the requests that were seen, each version of each once.
func versions(seen []tap.Request) string {
	slices.SortFunc(seen, func(a, b tap.Request) int { return int(a.Key-b.Key)*1000 + int(a.Version-b.Version) })
	var all []string
	for _, r := range seen {
		all = append(all, r.String())
	}
	return strings.Join(slices.Compact(all), ", ")
}

func (r *run) context() context.Context {
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	r.t.Cleanup(cancel)
	return ctx
}

// do carries out a command and returns the lines of its answer.
func (r *run) do(c programs.Command) (lines []programs.Line) {
	r.t.Helper()
	from := r.tap.Count()
	err := r.session.Do(r.context(), c, func(l programs.Line) { lines = append(lines, l) })
	if err != nil {
		c.Records = nil
		r.t.Fatalf("%+v: after %d lines: %v\nsent: %v", c, len(lines), err, shown(r.tap.Seen(from)))
	}
	return lines
}

// shown are the last requests, and which of them have no answer.
func shown(seen []tap.Request) (all []string) {
	for _, request := range seen[max(0, len(seen)-shownRequests):] {
		text := request.String()
		if !request.Answered() {
			text += " (no answer)"
		}
		all = append(all, text)
	}
	return all
}

// topic creates a topic, and waits until it has leaders.
func (r *run) topic(name string) {
	r.t.Helper()
	if _, err := r.admin.CreateTopic(r.context(), partitions, 1, nil, name); err != nil {
		r.t.Fatalf("create %s: %v", name, err)
	}
	r.await("the topic has leaders", func() (bool, error) {
		_, err := r.ends(name)
		return err == nil, err
	})
}

// ends are the partitions' ends.
func (r *run) ends(topic string) (map[int32]int64, error) {
	listed, err := r.admin.ListEndOffsets(r.context(), topic)
	if err != nil {
		return nil, err
	}
	ends := map[int32]int64{}
	listed.Each(func(o kadm.ListedOffset) { ends[o.Partition] = o.Offset })
	if len(ends) != partitions {
		return nil, fmt.Errorf("%d partitions have an end", len(ends))
	}
	return ends, listed.Error()
}

// await waits until something is true; it looks again after each request of the client.
func (r *run) await(what string, done func() (bool, error)) {
	r.t.Helper()
	limit := time.NewTimer(patience / 2)
	defer limit.Stop()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		changed := r.tap.Changed()
		ok, err := done()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-look.C:
		case <-limit.C:
			r.t.Fatalf("not within %s: %s (%v)", patience/2, what, err)
		}
	}
}

// stored reads a topic from its start to its end.
func (r *run) stored(topic string) []*kgo.Record {
	r.t.Helper()
	ends, err := r.ends(topic)
	if err != nil {
		r.t.Fatal(err)
	}
	var total int64
	for _, end := range ends {
		total += end
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(r.tap.Addr), kgo.ClientID(tap.Judge), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	var all []*kgo.Record
	for int64(len(all)) < total {
		fetches := c.PollFetches(r.context())
		if err := fetches.Err(); err != nil {
			r.t.Fatalf("read %s: after %d of %d records: %v", topic, len(all), total, err)
		}
		all = append(all, fetches.Records()...)
	}
	return all
}

// id is what requests name a topic by in newer versions.
func (r *run) id(topic string) (id [16]byte) {
	r.t.Helper()
	topics, err := r.admin.ListTopics(r.context(), topic)
	if err != nil {
		r.t.Fatal(err)
	}
	return topics[topic].ID
}

// requests are those of a kind from a number on.
func requests[R kmsg.Request](p *tap.Tap, from int) (all []R) {
	for _, seen := range p.Seen(from) {
		if body, ok := seen.Body.(R); ok {
			all = append(all, body)
		}
	}
	return all
}
