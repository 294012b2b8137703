package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each library that go.mod asks for itself stands in docs/dependencies.md with its reason,
// and the page names none that is not asked for.
func TestDependenciesHaveReasons(t *testing.T) {
	root := "../.."
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z0-9.]+\.[a-z]+/\S+) \|`).FindAllStringSubmatch(string(page), -1) {
		named[row[1]] = true
	}
	wanted := map[string]bool{}
	for _, line := range strings.Split(string(mod), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 2 && strings.HasPrefix(fields[1], "v") && strings.Contains(fields[0], "/") {
			wanted[fields[0]] = true
		}
	}
	for module := range wanted {
		if !named[module] {
			t.Errorf("docs/dependencies.md gives no reason for %s", module)
		}
	}
	for module := range named {
		if !wanted[module] {
			t.Errorf("docs/dependencies.md names %s, which go.mod does not ask for", module)
		}
	}
}
