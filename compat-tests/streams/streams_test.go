package streams

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/klamm-mq/klamm/compat-tests/java"
)

const (
	application = "word-count"
	repartition = application + "-words-repartition"
	changelog   = application + "-words-changelog"
)

// Sessions of the application's consumers: as long as by default where each word must be
// counted once, although the machine may be slow, and short where an instance is killed.
const (
	long  = 45 * time.Second
	short = 6 * time.Second
)

// app starts an instance of the application, with a state of its own.
func (w *world) app(name string, session time.Duration) *java.Process {
	w.t.Helper()
	_, file, _, _ := runtime.Caller(0)
	return java.Run(w.t, name, filepath.Join(filepath.Dir(file), "WordCount.java"),
		w.cluster.Address(), w.t.TempDir(), strconv.FormatInt(session.Milliseconds(), 10))
}

// Each word is counted once, whoever counts: one instance, two of them, one that has to
// restore everything from the changelog, which is compacted meanwhile. Nothing is lost when an instance is killed, and
// nothing when the broker is.
func TestWordCount(t *testing.T) {
	w := newWorld(t)
	a := w.app("a", long)
	w.write(1000)
	w.await("one instance has counted", w.exact)
	w.await("the changelog is compacted", w.compacted(w.ends()))

	b := w.app("b", long)
	b.Await("^state RUNNING")
	a.Await("^state REBALANCING")
	w.write(1000)
	w.await("two have", w.exact)
	w.await("what both have written is compacted", w.compacted(w.ends()))
	a.Stop()
	w.write(1000)
	w.await("the other has, with what it has restored", w.exact)
	b.Stop()
	w.judgeStore(a, b)
	w.await("everything is committed", w.committed)
	w.judgeTopics()

	c := w.app("c", short)
	w.write(1000)
	w.await("a new one counts", w.counting)
	w.cluster.Kill()
	w.cluster.Start()
	w.await("the changelog is compacted further", w.compacted(w.ends()))
	w.write(1000)
	w.await("counting goes on after the broker was killed", w.complete)
	c.Kill()
	w.write(1000)
	w.app("d", short)
	w.await("an instance takes over from one that was killed", w.complete)
}

// judgeStore compares the store with what was written: each instance shows its part.
func (w *world) judgeStore(apps ...*java.Process) {
	w.t.Helper()
	last := apps[len(apps)-1] // the others had closed before
	stored := map[string]int64{}
	for _, line := range last.Lines() {
		var word string
		var n int64
		if scanned, _ := fmt.Sscanf(line, "count %s %d", &word, &n); scanned == 2 {
			stored[word] = n
		}
	}
	if want := w.wanted(); !maps.Equal(stored, want) {
		w.t.Errorf("in the store is %v, written was %v", stored, want)
	}
}

// judgeTopics looks at the topics that the application has made for itself.
func (w *world) judgeTopics() {
	w.t.Helper()
	for topic, want := range map[string]map[string]string{
		changelog:   {"cleanup.policy": "compact"},
		repartition: {"cleanup.policy": "delete", "retention.ms": "-1"},
	} {
		described, err := w.admin.DescribeTopicConfigs(w.t.Context(), topic)
		if err != nil {
			w.t.Fatal(err)
		}
		got := map[string]string{}
		for _, c := range described[0].Configs {
			got[c.Key] = c.MaybeValue()
		}
		for key, value := range want {
			if got[key] != value {
				w.t.Errorf("%s has %s=%s, want %s", topic, key, got[key], value)
			}
		}
	}
	starts, err := w.admin.ListStartOffsets(w.t.Context(), repartition)
	if err != nil {
		w.t.Fatal(err)
	}
	purged := false
	starts.Each(func(o kadm.ListedOffset) { purged = purged || o.Offset > 0 })
	if !purged {
		w.t.Errorf("%s was never purged: %v", repartition, starts)
	}
}

// committed tells whether the application has committed the ends of what it reads.
func (w *world) committed(ctx context.Context) error {
	lag, err := w.admin.Lag(ctx, application)
	if err != nil {
		return err
	}
	group := lag[application]
	if err := group.Error(); err != nil {
		return err
	}
	if total := group.Lag.Total(); total != 0 {
		return fmt.Errorf("the lag is %d", total)
	}
	return nil
}
