package streams

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/compat-tests/groups"
	"github.com/klamm-mq/klamm/compat-tests/harness"
)

const (
	patience   = 2 * time.Minute
	partitions = 3
	words      = 40 // different ones
	inALine    = 3
)

// world is a broker with lines that are written and counts that are read.
type world struct {
	t       *testing.T
	cluster groups.Cluster
	client  *kgo.Client
	admin   *kadm.Client
	lines   int

	mu     sync.Mutex
	want   map[string]int64
	counts map[string]int64 // the newest of each word
	wrong  []string         // counts that do not follow the one before
}

func newWorld(t *testing.T) *world {
	t.Helper()
	settings := append(harness.Cleaning(), "group.initial.rebalance.delay.ms=0")
	w := &world{t: t, cluster: groups.StartCluster(t, settings...), want: map[string]int64{}, counts: map[string]int64{}}
	var err error
	w.client, err = kgo.NewClient(kgo.SeedBrokers(w.cluster.Address()), kgo.DefaultProduceTopic("lines"), kgo.ConsumeTopics("counts"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AlwaysRetryEOF(), kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.client.Close)
	w.admin = kadm.NewClient(w.client)
	if _, err := w.admin.CreateTopics(t.Context(), partitions, 1, nil, "lines", "counts"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			w.client.PollFetches(ctx).EachRecord(w.count)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return w
}

// write writes lines, and waits until they are acknowledged.
func (w *world) write(lines int) {
	w.t.Helper()
	var records []*kgo.Record
	for range lines {
		var text []string
		for i := range inALine {
			word := fmt.Sprintf("word-%d", (w.lines*inALine+i)*7%words)
			text = append(text, word)
			w.mu.Lock()
			w.want[word]++
			w.mu.Unlock()
		}
		w.lines++
		records = append(records, kgo.KeyStringRecord(fmt.Sprint(w.lines), strings.Join(text, " ")))
	}
	if err := w.client.ProduceSync(w.t.Context(), records...).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) wanted() map[string]int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.want)
}

// count is given each record of the topic of counts.
func (w *world) count(r *kgo.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	word, n := string(r.Key), int64(binary.BigEndian.Uint64(r.Value))
	if before := w.counts[word]; n != before+1 {
		w.wrong = append(w.wrong, fmt.Sprintf("%s is %d after %d", word, n, before))
	}
	w.counts[word] = n
}

// exact tells whether each word was counted as often as it was written, without a step
// that is missing or done twice.
func (w *world) exact(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) > 0 {
		w.t.Fatalf("counts are wrong: %q", w.wrong[:min(len(w.wrong), 10)])
	}
	if !maps.Equal(w.counts, w.want) {
		return fmt.Errorf("counted is %v, written was %v", w.counts, w.want)
	}
	return nil
}

// counting tells whether there are new counts since all were exact.
func (w *world) counting(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var counted, written int64
	for word := range w.want {
		counted, written = counted+w.counts[word], written+w.want[word]
	}
	if counted <= written-1000*inALine {
		return errors.New("nothing new is counted")
	}
	return nil
}

// compacted tells whether the changelog is, up to where its segments end that there were
// before; as long as it is not, more lines are written.
func (w *world) compacted(before map[int32]int64) func(context.Context) error {
	return func(context.Context) error {
		for p, end := range before {
			clean, err := harness.CleanUpTo(w.cluster.LogDir(), changelog, int(p))
			if err != nil {
				return err
			}
			if clean < end {
				w.write(10)
				return fmt.Errorf("partition %d is clean up to %d, its end was %d", p, clean, end)
			}
		}
		return nil
	}
}

// ends are those of the changelog's partitions.
func (w *world) ends() map[int32]int64 {
	w.t.Helper()
	listed, err := w.admin.ListEndOffsets(w.t.Context(), changelog)
	if err != nil {
		w.t.Fatal(err)
	}
	ends := map[int32]int64{}
	listed.Each(func(o kadm.ListedOffset) { ends[o.Partition] = o.Offset })
	return ends
}

// complete tells whether each word was counted at least as often as it was written, and
// all that was read is committed.
func (w *world) complete(ctx context.Context) error {
	if err := w.committed(ctx); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for word, n := range w.want {
		if w.counts[word] < n {
			return fmt.Errorf("%s is counted %d times, written %d times", word, w.counts[word], n)
		}
	}
	return nil
}

// await looks until there is no error.
func (w *world) await(what string, look func(context.Context) error) {
	w.t.Helper()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		err := look(ctx)
		if err == nil {
			w.t.Logf("%s, after %s", what, time.Since(begin).Round(time.Millisecond))
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			w.t.Fatalf("not within %s: %s: %v", patience, what, err)
		}
	}
}
