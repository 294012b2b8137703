package exchange

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/compat-tests/compaction"
	"github.com/klamm-mq/klamm/compat-tests/harness"
)

// exchanged are the histories whose files change places.
var exchanged = []string{"tombstones-go", "producers", "whole-segments-go", "codec-4"}

// What one has compacted the other serves, batch for batch, and goes on compacting from
// where it was: in the end both have left the same.
func TestCompactedSegmentsMoveBetweenKlammAndKafka(t *testing.T) {
	both := parties(t, "log.cleaner.backoff.ms=200")
	var histories []compaction.History
	for _, h := range compaction.Histories() {
		for _, name := range exchanged {
			if h.AnyEpoch = true; h.Name == name {
				histories = append(histories, h)
			}
		}
	}
	written := map[string]*[2]*compaction.Writer{}
	begin := time.Now().Add(-time.Hour)
	for _, h := range histories {
		w := &[2]*compaction.Writer{}
		for i, p := range both {
			w[i] = compaction.Play(compaction.Dial(t, p.addr), p.dir, h, begin)
		}
		written[h.Name] = w
	}
	for _, p := range both {
		p.stop()
	}
	for _, h := range histories {
		swap(t, both[0].dir, both[1].dir, h.Name+"-0")
	}
	for _, p := range both {
		p.start()
	}
	for _, h := range histories {
		t.Run(h.Name, func(t *testing.T) {
			w := written[h.Name]
			for i := range both {
				reader := both[1-i]
				before := w[i].Last()
				c := compaction.Dial(t, reader.addr)
				c.AwaitLeaders(h.Name, 1)
				w[i].Move(c, reader.dir)
				w[i].Note()
				if got := w[i].Last(); got != before {
					t.Errorf("%s reads what %s has compacted: %s", reader.name, both[i].name, compaction.FirstDifference(before, got))
				}
				w[i].Move(c, reader.dir) // what comes is to be compared alone
				goOnCompacting(w[i])
			}
			want := w[0].All() // Kafka's, who goes on where Klamm was
			if got := w[1].Text(want); got != want {
				t.Errorf("compacted further, Klamm has left something else than Kafka: %s", compaction.FirstDifference(want, got))
			}
		})
	}
}

// goOnCompacting supersedes a part of what was left, and deletes another.
func goOnCompacting(w *compaction.Writer) {
	for i, codec := range compaction.Codecs {
		w.Append(codec, compaction.KV("a", fmt.Sprint("again-", i)), compaction.KV(fmt.Sprint("k", i), "again"), compaction.Tombstone(fmt.Sprint("key-", i)))
		w.As(800_000, codec, compaction.KV(fmt.Sprint("own", i), "again"), compaction.KV("new", fmt.Sprint(i)))
	}
	w.Compact()
	w.Append(0, compaction.KV("new", "last"))
	w.Compact()
}

// swap has two brokers exchange the files of a partition, with what they know of how far it
// is clean.
func swap(t *testing.T, one, two, partition string) {
	t.Helper()
	aside := t.TempDir()
	if err := os.CopyFS(filepath.Join(aside, partition), os.DirFS(filepath.Join(one, partition))); err != nil {
		t.Fatal(err)
	}
	topic := strings.TrimSuffix(partition, "-0")
	cleanOne, cleanTwo := cleanUpTo(t, one, topic), cleanUpTo(t, two, topic)
	move(t, two, one, partition)
	move(t, aside, two, partition)
	noteClean(t, one, topic, cleanTwo)
	noteClean(t, two, topic, cleanOne)
}

func cleanUpTo(t *testing.T, dir, topic string) int64 {
	t.Helper()
	clean, err := harness.CleanUpTo(dir, topic, 0)
	if err != nil || clean < 0 {
		t.Fatalf("%s is clean up to %d in %s: %v", topic, clean, dir, err)
	}
	return clean
}

// noteClean adds a line to the cleaner's checkpoint of a directory.
func noteClean(t *testing.T, dir, topic string, clean int64) {
	t.Helper()
	name := filepath.Join(dir, "cleaner-offset-checkpoint")
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	entries := append(lines[2:], fmt.Sprintf("%s 0 %d", topic, clean))
	for i := range entries {
		entries[i] = strings.TrimSpace(entries[i]) // Klamm's checksum is white space
	}
	text := fmt.Sprintf("%s\n%d\n%s\n", lines[0], len(entries), strings.Join(entries, "\n"))
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
