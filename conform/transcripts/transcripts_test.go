package transcripts

import (
	"bytes"
	"embed"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/klamm-mq/klamm/conform"
)

// A recording that is read and written again is the same file: nothing in it is lost.
func TestRecordingsAreReadWhole(t *testing.T) {
	t.Run("single", func(t *testing.T) { readWhole(t, files, dir, Load, Write) })
	t.Run("cluster", func(t *testing.T) { readWhole(t, clusterFiles, clusterDir, LoadCluster, WriteCluster) })
}

type writer func(to string, outcomes []conform.Outcome) error

func readWhole(t *testing.T, files embed.FS, dir string, load func() (map[string]conform.Transcript, error), write writer) {
	all, err := load()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := fs.ReadDir(files, dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		want, err := files.ReadFile(dir + "/" + entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Ext(entry.Name()) == ".txt" && !bytes.Equal(rewritten(t, want, all, write), want) {
			t.Errorf("%s is not what is written of it", entry.Name())
		}
	}
}

// rewritten is a recording as it is written once more.
func rewritten(t *testing.T, recording []byte, all map[string]conform.Transcript, write writer) []byte {
	t.Helper()
	var outcomes []conform.Outcome
	for line := range bytes.Lines(recording) {
		if name, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("scenario ")); ok {
			transcript := all[string(name)]
			outcomes = append(outcomes, conform.Outcome{
				Scenario:   &conform.Scenario{Name: transcript.Scenario, Key: transcript.Key},
				Transcript: transcript,
			})
		}
	}
	to := t.TempDir()
	if err := write(to, outcomes); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(to, "*.txt"))
	if err != nil || len(names) != 1 {
		t.Fatalf("%v, %v", names, err)
	}
	text, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestExplanationsAreReadable(t *testing.T) {
	for _, read := range []func() (conform.Explanations, error){Explanations, ClusterExplanations} {
		all, err := read()
		if err != nil || len(all.Rows()) == 0 {
			t.Errorf("%d rows, %v", len(all.Rows()), err)
		}
	}
}
