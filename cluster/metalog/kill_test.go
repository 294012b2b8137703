package metalog

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"go.uber.org/goleak"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// proposerEnv makes this test binary a process that proposes until it is killed, in the
// directory that it names.
const proposerEnv = "KLAMM_TEST_PROPOSER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(proposerEnv); dir != "" {
		err := proposeForEver(dir)
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// onBadger are the options of a cluster of one as in service, but with snapshots soon.
func onBadger(dir string) Options {
	return Options{
		NodeID: 1, DirectoryID: uuid.UUID{15: 1}, Dir: dir, BootstrapSelf: true,
		Bootstrap: []metadata.Record{bootstrapRecord()},
		tune: func(c *raft.Config) {
			c.TrailingLogs, c.SnapshotThreshold, c.SnapshotInterval = 20, 50, 20*time.Millisecond
		},
	}
}

// proposeForEver creates topics and prints the name of each that was acknowledged.
func proposeForEver(dir string) error {
	l, err := Open(onBadger(dir))
	if err != nil {
		return err
	}
	now := <-l.Leadership()
	if _, err := l.Barrier(context.Background(), now.Term); err != nil {
		return err
	}
	for i := 0; ; i++ {
		name := fmt.Sprintf("t-%d-%d", now.Term, i)
		if err := create(l, now.Term, name); err != nil {
			return err
		}
		if _, err := fmt.Println(name); err != nil {
			return err
		}
	}
}

// A process that proposes on Badger is killed again and again at random moments. What it
// was told is there afterwards, in the next process and in the last.
func TestKilledProposer(t *testing.T) {
	dir := t.TempDir()
	acked := map[string]bool{}
	for range 8 {
		proposer(t, dir, 1+rand.IntN(400), acked)
	}
	l, err := Open(onBadger(dir))
	if err != nil {
		t.Fatal(err)
	}
	mustLead(t, l)
	for name := range acked {
		if l.Image().Topic(name) == nil {
			t.Errorf("%s was acknowledged and is gone", name)
		}
	}
	if got := l.Image().NumTopics(); got < len(acked) || got > len(acked)+8 {
		t.Errorf("%d topics, %d were acknowledged", got, len(acked))
	}
	mustClose(t, l)
}

// proposer runs a process until it has had n acknowledgements, and kills it.
func proposer(t *testing.T, dir string, n int, acked map[string]bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), proposerEnv+"="+dir)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for count := 0; lines.Scan(); count++ {
		acked[lines.Text()] = true
		if count == n {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	err = cmd.Wait()
	if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.Exited() {
		t.Fatalf("the process ended by itself: %v\n%s", err, stderr.String())
	}
}

// The same log on Badger through clean stops, with entries of the largest size.
func TestBadgerInService(t *testing.T) {
	o := onBadger(t.TempDir())
	o.tune = nil
	value := strings.Repeat("x", MaxEntryBytes-200)
	for life := range 3 {
		l, term := lead(t, o)
		for i := range 5 {
			_, err := l.Propose(context.Background(), term, []metadata.Record{metadata.ConfigRecord{
				Resource: metadata.Resource{Type: metadata.TopicResource, Name: fmt.Sprint("t", i)},
				Key:      fmt.Sprint("k", life), Value: &value,
			}})
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := l.raft.Snapshot().Error(); err != nil && life == 1 {
			t.Fatal(err)
		}
		mustClose(t, l)
	}
	l, _ := lead(t, o)
	defer mustClose(t, l)
	for r, values := range l.Image().Configs() {
		if len(values) != 3 || values["k0"] != value {
			t.Errorf("%v has %d values", r, len(values))
		}
	}
}
