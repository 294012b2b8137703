package exchange

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// move copies the files of a partition into the directory of another broker's partition,
// in place of those that are there, except for partition.metadata, which names the topic's
// id on that broker. What the broker has noted of the empty log is forgotten.
func move(t *testing.T, from, to, partition string) {
	t.Helper()
	remove(t, filepath.Join(to, partition))
	files, err := os.ReadDir(filepath.Join(from, partition))
	if err != nil {
		t.Fatal(err)
	}
	segments := 0
	for _, f := range files {
		if f.Name() == "partition.metadata" {
			continue
		}
		content, err := os.ReadFile(filepath.Join(from, partition, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, partition, f.Name()), content, 0o644); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(f.Name(), ".log") {
			segments++
		}
	}
	if segments < 1 {
		t.Fatalf("%s has no segments in %s", partition, from)
	}
	forget(t, to, partition)
}

func remove(t *testing.T, dir string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name() != "partition.metadata" {
			if err := os.Remove(filepath.Join(dir, f.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// forget removes a partition from the checkpoint files of a directory, which have a line
// for the version, one for the number of entries, and one for each entry.
func forget(t *testing.T, dir, partition string) {
	t.Helper()
	dash := strings.LastIndex(partition, "-")
	topic, number := partition[:dash], partition[dash+1:]
	id := idOf(t, filepath.Join(dir, partition, "partition.metadata"))
	files, err := filepath.Glob(filepath.Join(dir, "*-checkpoint"))
	if err != nil || len(files) == 0 {
		t.Fatalf("checkpoints of %s: %v, %v", dir, files, err)
	}
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(content)), "\n")
		if len(lines) < 2 { // written once, and empty
			continue
		}
		entries := slices.DeleteFunc(lines[2:], func(line string) bool {
			return strings.HasPrefix(line, topic+" "+number+" ") || strings.HasPrefix(line, id+" "+number+" ")
		})
		text := fmt.Sprintf("%s\n%d\n", lines[0], len(entries))
		for _, e := range entries {
			text += e + "\n"
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// idOf is the topic's id in a partition.metadata.
func idOf(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		if id, ok := strings.CutPrefix(line, "topic_id: "); ok {
			return strings.TrimSpace(id)
		}
	}
	t.Fatalf("%s names no topic:\n%s", name, content)
	return ""
}
