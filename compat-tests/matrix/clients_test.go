package matrix

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// What a client cannot do is told where people look for it.
func TestReadmeTellsWhatClientsShow(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), Table()) {
		t.Errorf("compat-tests/README.md lacks this table:\n%s", Table())
	}
	if list := strings.Join(capabilityNames(), ", "); !strings.Contains(strings.ReplaceAll(string(readme), "\n", " "), list) {
		t.Errorf("compat-tests/README.md lacks this list: %s", list)
	}
}

func TestClientsArePinned(t *testing.T) {
	var pins strings.Builder
	for _, file := range []string{"../go.mod", "../groups/members/python/requirements.txt", "../groups/members/node/package.json", "../java/pom.xml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pins.Write(text)
	}
	for _, c := range Clients() {
		if !strings.Contains(pins.String(), c.Pin) || !strings.Contains(c.Pin, c.Version) {
			t.Errorf("%s %s: nothing pins %q", c.Name, c.Version, c.Pin)
		}
	}
}

// A reason for something that nobody asks for would be a capability that is not shown any
// more.
func TestReasonsAreForCapabilities(t *testing.T) {
	all := capabilityNames()
	for _, c := range Clients() {
		for name := range c.Cannot {
			if !slices.Contains(all, name) {
				t.Errorf("%s cannot do %q, which is no capability", c.Name, name)
			}
		}
	}
}
