package confined

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// repository is the folder of the broker's module.
func repository() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// instruction is a line of a Dockerfile.
type instruction struct{ word, rest string }

// instructions reads deploy/Dockerfile, without comments, its continued lines joined.
func instructions(t testing.TB) (all []instruction) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository(), "deploy", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(strings.ReplaceAll(string(text), "\\\n", ""), "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		all = append(all, instruction{word, strings.TrimSpace(rest)})
	}
	return all
}

// words reads ["a", "b"], which may stand behind options.
func words(t testing.TB, text string) (list []string) {
	t.Helper()
	at := strings.Index(text, "[")
	if at < 0 {
		t.Fatalf("no list of words in %q", text)
	}
	if err := json.Unmarshal([]byte(text[at:]), &list); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return list
}
