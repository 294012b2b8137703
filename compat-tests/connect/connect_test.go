package connect

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/compat-tests/groups"
	"github.com/klamm-mq/klamm/compat-tests/harness"
)

// files are what goes in and what has come out.
type files struct {
	t       *testing.T
	in, out string
	lines   int
}

// write appends lines to the file that goes in.
func (f *files) write(n int) {
	f.t.Helper()
	file, err := os.OpenFile(f.in, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for range n {
		f.lines++
		if _, err := fmt.Fprintf(file, "line %d of the file\n", f.lines); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *files) read() (in, out []byte, err error) {
	if in, err = os.ReadFile(f.in); err != nil {
		return nil, nil, err
	}
	out, err = os.ReadFile(f.out)
	return in, out, err
}

// equal tells whether both have the same bytes.
func (f *files) equal(context.Context) error {
	in, out, err := f.read()
	if err == nil && !bytes.Equal(in, out) {
		err = fmt.Errorf("%d bytes came out of %d", len(out), len(in))
	}
	return err
}

// complete tells whether every line has come out at least once, the last one last.
func (f *files) complete(context.Context) error {
	in, out, err := f.read()
	if err != nil {
		return err
	}
	found := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		found[line] = true
	}
	var missing []string
	for line := range strings.Lines(string(in)) {
		if !found[line] {
			missing = append(missing, line)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%d lines have not come out, among them %q", len(missing), missing[:min(len(missing), 10)])
	}
	return nil
}

// A file comes out as it went in, also when its tasks move from one worker to another.
// Nothing is lost when the broker or the worker is killed.
func TestFileToFile(t *testing.T) {
	broker := groups.StartCluster(t, append(harness.Cleaning(), "group.initial.rebalance.delay.ms=0")...)
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Address()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	dir := t.TempDir()
	f := &files{t: t, in: filepath.Join(dir, "in"), out: filepath.Join(dir, "out")}

	a := startWorker(t, "a", broker.Address())
	f.write(2000)
	// A connector that has read as many lines as its batch holds keeps the rest until there
	// are more.
	source := map[string]string{"connector.class": "FileStreamSource", "file": f.in, "topic": "lines", "batch.size": "100000"}
	a.connector("source", source)
	a.connector("sink", map[string]string{
		"connector.class": "FileStreamSink", "file": f.out, "topics": "lines",
		"consumer.override.auto.offset.reset": "earliest", "consumer.override.session.timeout.ms": "10000",
	})
	await(t, "the file is through", f.equal)
	await(t, "what the worker keeps is compacted", func(context.Context) error {
		f.write(10)
		a.connector("source", source)
		return compacted(broker.LogDir())
	})
	b := startWorker(t, "b", broker.Address())
	await(t, "a second worker is in the group", func(ctx context.Context) error { return members(ctx, admin, 2) })
	a.Stop()
	b.running("source")
	b.running("sink")
	f.write(1000)
	await(t, "more of the file is through, by the other worker", f.equal)

	broker.Kill()
	broker.Start()
	f.write(1000)
	await(t, "more is through after the broker was killed", f.complete)
	b.Kill()
	f.write(1000)
	c := startWorker(t, "c", broker.Address())
	await(t, "more is through after the worker was killed", f.complete)
	c.running("source")
	c.running("sink")
	judgeTopics(t, admin)
	await(t, "everything is committed", func(ctx context.Context) error { return committed(ctx, admin) })
	c.request(http.MethodDelete, "/connectors/sink", nil, nil)
	c.Stop()
}

// members expects so many workers in their group.
func members(ctx context.Context, admin *kadm.Client, want int) error {
	described, err := admin.DescribeGroups(ctx, cluster)
	if err != nil {
		return err
	}
	if g := described[cluster]; g.State != "Stable" || g.ProtocolType != "connect" || len(g.Members) != want {
		return fmt.Errorf("the group is %s, %s, with %d members", g.State, g.ProtocolType, len(g.Members))
	}
	return nil
}

// committed expects the offsets of the sink at the end of the topic.
func committed(ctx context.Context, admin *kadm.Client) error {
	lag, err := admin.Lag(ctx, "connect-sink")
	if err != nil {
		return err
	}
	g := lag["connect-sink"]
	if err := g.Error(); err != nil {
		return err
	}
	if total := g.Lag.Total(); total != 0 || len(g.Lag) == 0 {
		return fmt.Errorf("the lag is %d, of %d topics", total, len(g.Lag))
	}
	return nil
}

// compacted expects the topics that the workers keep their configuration and offsets in to
// be compacted so far that little is left of what there was at first.
func compacted(dir string) error {
	const enough = 10 // records
	for topic, partitions := range map[string]int{"connect-configs": 1, "connect-offsets": 5} {
		farthest := int64(-1)
		for p := range partitions {
			clean, err := harness.CleanUpTo(dir, topic, p)
			if err != nil {
				return err
			}
			farthest = max(farthest, clean)
		}
		if farthest < enough {
			return fmt.Errorf("%s is clean up to %d", topic, farthest)
		}
	}
	return nil
}

// judgeTopics looks at what the workers have made for themselves.
func judgeTopics(t *testing.T, admin *kadm.Client) {
	t.Helper()
	for topic, partitions := range map[string]int{"connect-configs": 1, "connect-offsets": 5, "connect-status": 5} {
		topics, err := admin.ListTopics(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(topics[topic].Partitions); got != partitions {
			t.Errorf("%s has %d partitions, want %d", topic, got, partitions)
		}
		described, err := admin.DescribeTopicConfigs(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range described[0].Configs {
			if c.Key == "cleanup.policy" && c.MaybeValue() != "compact" {
				t.Errorf("%s has cleanup.policy=%s", topic, c.MaybeValue())
			}
		}
	}
}
