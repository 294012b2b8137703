package dumplog

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/harness"
	"github.com/klamm-mq/klamm/conform"
	"github.com/klamm-mq/klamm/conform/scenarios"
)

// filesAtOnce fit into one command line.
const filesAtOnce = 200

// Every scenario of package conform, with all the strange batches that brokers accept:
// what is then on the disk, Kafka's tool reads without a complaint, coordinators' logs
// included. Some of those batches skip offsets.
func TestKafkaReadsWhatScenariosLeave(t *testing.T) {
	b := harness.Start(t, scenarios.Settings()...)
	target, err := conform.Connect(t.Context(), b.Addr)
	if err != nil {
		t.Fatal(err)
	}
	outcomes, err := conform.Run(t.Context(), target, scenarios.All(), conform.Options{Parallel: 8, Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range outcomes {
		if o.Err != nil {
			t.Error(o.Err)
		}
	}
	if code := b.Stop(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, b.Stderr())
	}
	logs := partitions(t, b.Dir, ".log")
	if len(logs) < 100 {
		t.Fatalf("only %d segments", len(logs))
	}
	records := 0
	for _, files := range chunks(logs) {
		records += strings.Count(readable(t, files, "--deep-iteration"), "| offset: ")
	}
	t.Logf("%d segments, %d records", len(logs), records)
	for _, files := range chunks(partitions(t, b.Dir, ".index")) {
		readable(t, files, "--index-sanity-check")
		readable(t, files)
	}
	for _, files := range chunks(partitions(t, b.Dir, ".timeindex")) {
		readable(t, files)
	}
	for _, files := range chunks(partitions(t, b.Dir, ".snapshot")) {
		readable(t, files)
	}
	for _, files := range chunks(slices.DeleteFunc(logs, func(name string) bool { return !strings.Contains(name, "__consumer_offsets-") })) {
		readable(t, files, "--offsets-decoder")
	}
}

// partitions are the files of partitions, of any topic.
func partitions(t *testing.T, root, suffix string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "data", "*-*", "*"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(files, func(name string) bool { return strings.HasPrefix(filepath.Base(filepath.Dir(name)), "__cluster") })
}

func chunks(files []string) [][]string { return slices.Collect(slices.Chunk(files, filesAtOnce)) }
