package compaction

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/compat-tests/harness"
	"github.com/klamm-mq/klamm/compat-tests/java"
)

// settings let the cleaner look often and remember as few keys as Kafka allows, and keep
// retention out of the comparison.
var settings = []string{
	"log.cleaner.backoff.ms=100", "log.cleaner.threads=1", "log.cleaner.dedupe.buffer.size=1048577", "log.retention.check.interval.ms=86400000",
}

func startKafka(t *testing.T) (c *Client, dir string) {
	t.Helper()
	b := java.StartBroker(t, harness.FreePort(t), harness.FreePort(t), append(settings, "log.initial.task.delay.ms=86400000")...)
	return Dial(t, b.Addr), b.Dir()
}

func recording(h History) string { return filepath.Join("testdata", h.Name+".txt") }

// begin is the time of the first record.
func begin() time.Time { return time.Now().Add(-time.Hour) }

func TestRecord(t *testing.T) {
	one, oneDir := startKafka(t)
	two, twoDir := startKafka(t)
	for _, h := range Histories() {
		t.Run(h.Name, func(t *testing.T) {
			text, other := Play(one.of(t), oneDir, h, begin()).All(), Play(two.of(t), twoDir, h, begin()).All()
			if text != other {
				t.Fatalf("two Kafkas differ: %s", FirstDifference(text, other))
			}
			if err := os.WriteFile(recording(h), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}
