package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/broker"
	"github.com/klamm-mq/klamm/configs"
)

// inProcess starts a broker in this process and returns its address.
func inProcess(t *testing.T) (b *broker.Broker, addr string) {
	t.Helper()
	cfg, _, err := configs.Load(configs.Sources{Set: []string{
		"listeners=PLAINTEXT://127.0.0.1:0", "admin.listener=", "log.dirs=" + t.TempDir(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	b, err = broker.Start(t.Context(), cfg, broker.DefaultEnv())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b, b.Addr("PLAINTEXT").String()
}

// command is a klamm command that runs while the test goes on.
type command struct {
	t        *testing.T
	cancel   context.CancelFunc
	in       *io.PipeWriter
	out, err bytes.Buffer // valid after exit
	code     chan int
}

func start(t *testing.T, args ...string) *command {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	in, w := io.Pipe()
	c := &command{t: t, cancel: cancel, in: w, code: make(chan int, 1)}
	go func() { c.code <- run(ctx, args, streams{in, &c.out, &c.err}) }()
	t.Cleanup(func() { _ = w.Close() })
	return c
}

func (c *command) write(lines string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, lines); err != nil {
		c.t.Fatal(err)
	}
}

// exits waits for the end of the command.
func (c *command) exits(code int, stdout, stderr string) {
	c.t.Helper()
	select {
	case got := <-c.code:
		if got != code || c.out.String() != stdout || !strings.Contains(c.err.String(), stderr) {
			c.t.Errorf("exit code %d, printed %q and %q; want %d, %q and %q", got, &c.out, &c.err, code, stdout, stderr)
		}
	case <-time.After(time.Minute):
		c.t.Fatal("the command does not end")
	}
}

// A partition whose only replica is damaged has no leader. It is described all the same, and so
// are the others.
func TestDescribeWithoutALeader(t *testing.T) {
	dir := t.TempDir()
	cfg, _, err := configs.Load(configs.Sources{Set: []string{"listeners=PLAINTEXT://127.0.0.1:0", "admin.listener=", "log.dirs=" + dir}})
	if err != nil {
		t.Fatal(err)
	}
	begin := func() (*broker.Broker, string) {
		b, err := broker.Start(t.Context(), cfg, broker.DefaultEnv())
		if err != nil {
			t.Fatal(err)
		}
		return b, b.Addr("PLAINTEXT").String()
	}
	b, addr := begin()
	for _, topic := range []string{"damaged", "whole"} {
		c := start(t, "produce", topic, "-b", addr)
		c.write("one\n")
		_ = c.in.Close()
		c.exits(0, "", "")
	}
	if err := b.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "damaged-0", "00000000000000000000.log")
	if err := os.Truncate(name, 10); err != nil {
		t.Fatal(err)
	}
	b, addr = begin()
	defer func() { _ = b.Stop(context.Background()) }()
	start(t, "topic", "describe", "damaged", "whole", "-b", addr).exits(0, `TOPIC    PARTITION  LEADER  EPOCH  REPLICAS  IN SYNC  START  END
damaged  0          none    2      1                  ?      ?
whole    0          1       1      1         1        0      1
`, "")
}

// waitForRecords waits until a topic holds n records.
func waitForRecords(t *testing.T, addr, topic string, n int64) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.MetadataMinAge(minMetadataAge))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for {
		ends, err := kadm.NewClient(client).ListEndOffsets(t.Context(), topic)
		if end, ok := ends.Lookup(topic, 0); err == nil && ok && end.Err == nil && end.Offset >= n {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s does not get %d records: %v", topic, n, err)
		}
	}
}

// Whoever types records and gives up learns what has become of them.
func TestProduceInterruptedWhileItReads(t *testing.T) {
	_, addr := inProcess(t)
	c := start(t, "produce", "t", "-b", addr)
	c.write("one\ntwo\n")
	waitForRecords(t, addr, "t", 2)
	c.cancel()
	// The records are there, but the acknowledgement may still have been on its way.
	c.exits(exitFailed, "", "klamm: interrupted (")
}

func TestProduceThroughAnOutage(t *testing.T) {
	b, addr := inProcess(t)
	c := start(t, "produce", "t", "-b", addr, "--timeout", "500ms")
	c.write("one\n")
	waitForRecords(t, addr, "t", 1)
	if err := b.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.write("two\n")
	c.exits(exitFailed, "", "klamm: nothing was acknowledged for 500ms, 1 records are waiting (1 records were acknowledged)\n")
}

// An interrupt is the usual end of a consume that waits for more.
func TestConsumeInterrupted(t *testing.T) {
	_, addr := inProcess(t)
	p := start(t, "produce", "t", "-b", addr)
	p.write("one\ntwo\n")
	p.in.Close()
	p.exits(0, "", "")
	out, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"consume", "t", "-b", addr, "--from", "start"}, streams{nil, w, io.Discard})
	}()
	var first, second string
	if _, err := fmt.Fscanln(out, &first); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscanln(out, &second); err != nil || first+second != "onetwo" {
		t.Fatalf("%q %q %v", first, second, err)
	}
	cancel()
	if got := <-code; got != 0 {
		t.Errorf("exit code %d", got)
	}
}

func TestConsumeToAnEndThatDoesNotCome(t *testing.T) {
	b, addr := inProcess(t)
	p := start(t, "produce", "t", "-b", addr)
	p.write(strings.Repeat("x", 100_000) + "\n")
	p.in.Close()
	p.exits(0, "", "")
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().At(1)}}))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := b.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := &reader{client: client, plan: readPlan{ends: map[int32]int64{0: 2}}, timeout: 200 * time.Millisecond, flush: func() error { return nil }}
	err = r.readAll(t.Context(), func(*kgo.Record) error { return nil })
	if want := "nothing came for 200ms, although 1 partition(s) are not at their end"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
