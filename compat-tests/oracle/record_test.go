package oracle

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/klamm-mq/klamm/conform"
	"github.com/klamm-mq/klamm/conform/scenarios"
	"github.com/klamm-mq/klamm/conform/transcripts"
)

// TestRecord has two fresh Kafkas answer every scenario. The transcripts are the same to
// the byte, or a scenario depends on chance; they are written to the directory RECORD, if
// that is set, in place of those that are there.
func TestRecord(t *testing.T) {
	first := record(t)
	for name, text := range record(t) {
		if !bytes.Equal(first[name], text) {
			t.Errorf("%s is not the same when it is recorded again:\n%s", name, firstDifference(first[name], text))
		}
		delete(first, name)
	}
	for name := range first {
		t.Errorf("%s was recorded only once", name)
	}
}

// record returns the files that transcripts are written to, by name.
func record(t *testing.T) map[string][]byte {
	t.Helper()
	kafka := startKafka(t)
	defer kafka.Kill()
	outcomes := ask(t, connect(t, kafka.Addr), scenarios.All())
	for _, o := range outcomes {
		if o.Err != nil {
			t.Error(o.Err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	dir := t.TempDir()
	write(t, transcripts.Write, dir, outcomes)
	if to := os.Getenv("RECORD"); to != "" {
		write(t, transcripts.Write, to, outcomes)
	}
	return read(t, dir)
}

func write(t *testing.T, by func(string, []conform.Outcome) error, dir string, outcomes []conform.Outcome) {
	t.Helper()
	old, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := by(dir, outcomes); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	names, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if files[filepath.Base(name)], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// firstDifference is where two texts part, with the lines before it.
func firstDifference(a, b []byte) string {
	as, bs := bytes.Split(a, []byte("\n")), bytes.Split(b, []byte("\n"))
	for i := range min(len(as), len(bs)) {
		if !bytes.Equal(as[i], bs[i]) {
			before := bytes.Join(as[max(0, i-5):i], []byte("\n"))
			return string(before) + "\n- " + string(as[i]) + "\n+ " + string(bs[i])
		}
	}
	return "one is longer"
}
