package compaction

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/harness"
)

func startKlamm(t *testing.T) (c *Client, dir string) {
	t.Helper()
	b := harness.Start(t, settings...)
	return Dial(t, b.Addr), filepath.Join(b.Dir, "data")
}

func TestRecorded(t *testing.T) {
	c, dir := startKlamm(t)
	for _, h := range Histories() {
		t.Run(h.Name, func(t *testing.T) {
			want, err := os.ReadFile(recording(h))
			if err != nil {
				t.Fatal(err)
			}
			if got := Play(c.of(t), dir, h, begin()).Text(string(want)); got != string(want) {
				t.Errorf("what is left differs from Kafka's: %s", FirstDifference(string(want), got))
			}
		})
	}
}

func TestBesideKafka(t *testing.T) {
	klamm, klammDir := startKlamm(t)
	kafka, kafkaDir := startKafka(t)
	histories := Histories()
	first, seeds := number(t, "SEED", 1), number(t, "SEEDS", 10)
	histories = append(histories, FullMap())
	for seed := first; seed < first+seeds; seed++ {
		histories = append(histories, Random(seed))
	}
	for _, h := range histories {
		t.Run(h.Name, func(t *testing.T) {
			at := begin()
			want := Play(kafka.of(t), kafkaDir, h, at).All()
			if got := Play(klamm.of(t), klammDir, h, at).Text(want); got != want {
				t.Errorf("what is left differs from Kafka's: %s", FirstDifference(want, got))
			}
		})
	}
}

func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
