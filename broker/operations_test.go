package broker_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What docs/operations.md quotes of the log is in the code, and the metrics that it and the
// table of alerts name are those of docs/metrics.md: an operator looks for them.
func TestOperationsQuoteWhatThereIs(t *testing.T) {
	operations, metrics := readFile(t, "../docs/operations.md"), readFile(t, "../docs/metrics.md")
	code := sources(t)
	operations = regexp.MustCompile("(?s)```.*?```").ReplaceAllString(operations, "")
	for _, span := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(operations, -1) {
		quoted := strings.Join(strings.Fields(span[1]), " ")
		if !isLogLine(quoted) {
			continue
		}
		for part := range strings.SplitSeq(quoted, "…") {
			if part = strings.TrimSpace(part); len(part) > 3 && !strings.Contains(code, part) {
				t.Errorf("nothing logs %q", part)
			}
		}
	}
	alerts, listed, _ := strings.Cut(metrics, "## The broker")
	for _, name := range regexp.MustCompile("(?:kafka|klamm)_[a-z_]+[a-z]").FindAllString(operations+alerts, -1) {
		if !strings.Contains(listed, "`"+name+"`") && !strings.Contains(listed, "`"+name+"{") {
			t.Errorf("there is no metric %s", name)
		}
	}
}

// isLogLine knows a code span that has words and is neither command nor setting.
func isLogLine(span string) bool {
	for _, prefix := range []string{"klamm cluster", "klamm check-config", "klamm config ", "klamm log ", "klamm quota ", "make ", "kafka-", "systemctl", "sum(", "rate("} {
		if strings.HasPrefix(span, prefix) {
			return false
		}
	}
	return strings.Contains(span, " ") && !strings.ContainsAny(span, "=<[") && !regexp.MustCompile(`[0-9A-Z]{2}`).MatchString(span)
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sources is the code of all packages, without tests.
func sources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "compat-tests" || d.Name() == "klamm-data" || d.Name() == ".git"):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			all.WriteString(readFile(t, path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// Texts that are written over several lines.
	return regexp.MustCompile("\" ?\\+\\s*\"").ReplaceAllString(all.String(), "")
}
