package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// Use has the next start run another binary, and returns the one before.
func (b *Broker) Use(binary string) (before string) {
	before, b.bin = b.bin, binary
	return before
}

// Set changes settings of the next start: of several for one key the last one counts.
func (b *Broker) Set(settings ...string) {
	for _, s := range settings {
		b.args = append(b.args, "--set", s)
	}
}

// BinaryAt builds klamm as it was at a commit.
func BinaryAt(t testing.TB, commit string) string {
	t.Helper()
	src := t.TempDir()
	tree, unpack := exec.Command("git", "archive", commit), exec.Command("tar", "-x", "-C", src)
	tree.Dir = moduleRoot()
	packed, err := tree.Output()
	if err != nil {
		t.Fatalf("the tree of commit %s: %v", commit, err)
	}
	unpack.Stdin = bytes.NewReader(packed)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("unpack commit %s: %v\n%s", commit, err, out)
	}
	return build(t, src)
}

// NextRelease builds what the release after this one may be: one that has a level more of
// the feature klamm.metadata, at which every record of the metadata log has a new version.
// It also returns that level.
func NextRelease(t testing.TB) (binary string, level int16) {
	t.Helper()
	versions := filepath.Join(moduleRoot(), "cluster", "metadata", "versions.go")
	text, err := os.ReadFile(versions)
	if err != nil {
		t.Fatal(err)
	}
	next, level := nextLevel(t, text)
	dir := t.TempDir()
	replaced, overlay := filepath.Join(dir, "versions.go"), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {versions: replaced}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{replaced: next, overlay: list} {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return build(t, moduleRoot(), "-overlay="+overlay), level
}

var (
	highestLevel = regexp.MustCompile(`(MaxMetadataLevel\s+int16 = )(\d+)`)
	levelsOfKind = regexp.MustCompile(`(kind\w+:\s+\{"\w+", \[\]int16\{[\d, ]+)\}`)
)

// nextLevel is the table of versions with a level more, and that level.
func nextLevel(t testing.TB, table []byte) ([]byte, int16) {
	t.Helper()
	found := highestLevel.FindSubmatch(table)
	if found == nil || !levelsOfKind.Match(table) {
		t.Fatal("cluster/metadata/versions.go is not as the next release is made from it")
	}
	level, err := strconv.ParseInt(string(found[2]), 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	level++
	table = highestLevel.ReplaceAll(table, fmt.Appendf(nil, "${1}%d", level))
	return levelsOfKind.ReplaceAll(table, fmt.Appendf(nil, "${1}, %d}", level)), int16(level)
}

func build(t testing.TB, root string, flags ...string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "klamm")
	cmd := exec.Command("go", append(append([]string{"build", "-trimpath"}, flags...), "-o", binary, "./cmd/klamm")...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build klamm in %s: %v\n%s", root, err, out)
	}
	return binary
}
