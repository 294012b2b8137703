package configs

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/configuration.md has a row for each key of replication and of the quorum, with its
// default, and what it says to be without effect is.
func TestKeysAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	page, without, found := strings.Cut(string(text), "## Without effect")
	if !found {
		t.Fatal("no list of keys without effect")
	}
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z._]+)` \\| ([^|]*) ?\\|").FindAllStringSubmatch(page, -1) {
		name, def := row[1], strings.TrimSpace(row[2])
		documented = append(documented, name)
		key := BrokerKey(name)
		switch {
		case key == nil:
			t.Errorf("%s is not served", name)
		case key.Unset && def != "–", !key.Unset && def != key.Default:
			t.Errorf("%s: default %q", name, def)
		}
	}
	for _, key := range append(replicationKeys(), quorumKeys()...) {
		if !slices.Contains(documented, key.Name) {
			t.Errorf("%s has no row", key.Name)
		}
	}
	for _, name := range regexp.MustCompile("`([a-z.]+\\.[a-z]+)`").FindAllStringSubmatch(without, -1) {
		if name[1] != "divergence.md" && !listed(pointless, name[1]) && !listed(removed, name[1]) && !listed(later, name[1]) {
			t.Errorf("%s does not lead to a warning", name[1])
		}
	}
}
