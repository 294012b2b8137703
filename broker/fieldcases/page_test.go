package fieldcases

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The page of cases names tests that exist, and all of this package's.
func TestPageOfCases(t *testing.T) {
	const root = "../.."
	page, err := os.ReadFile(filepath.Join(root, "docs", "fieldcases.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`([a-z/-]+): ((?:Test|Benchmark|Example)[A-Za-z0-9_]*)`").FindAllStringSubmatch(string(page), -1) {
		dir, name := m[1], m[2]
		named[dir+": "+name] = true
		if !strings.Contains(tests(t, filepath.Join(root, dir)), "\nfunc "+name+"(") {
			t.Errorf("%s has no %s", dir, name)
		}
	}
	for _, m := range regexp.MustCompile(`\nfunc (Test[A-Za-z0-9]+)\(t `).FindAllStringSubmatch(tests(t, "."), -1) {
		switch name := m[1]; name {
		case "TestPageOfCases", "TestFramesThatAreNone", "TestFetchThatWaitsWhileItsTopicIsDeleted": // nobody's case
		default:
			if !named["broker/fieldcases: "+name] {
				t.Errorf("the page does not name %s", name)
			}
		}
	}
}

// tests is the text of a directory's test files.
func tests(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
