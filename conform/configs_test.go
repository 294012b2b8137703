package conform

import (
	"strings"
	"testing"
)

func linesOf(t *testing.T, text string) (lines []Line) {
	t.Helper()
	for line := range strings.Lines(text) {
		l, err := parseLine(strings.TrimSuffix(line, "\n"))
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	return lines
}

const twoResources = `ThrottleMillis=0 Resources=#2
Resources[0] Name=a Configs=#3
Resources[0].Configs[0] Name=x Value=1 Source=5 Type=INT
Resources[0].Configs[1] Name=y Value=2 Source=1 Type=INT ConfigSynonyms=#1
Resources[0].Configs[1].ConfigSynonyms[0] Name=y Value=2
Resources[0].Configs[2] Name=z Value=3 Source=5 Type=INT
Resources[1] Name=b Configs=null
`

func TestOnlyTheNamedKeysAreLeft(t *testing.T) {
	r := &R{}
	r.OnlyConfigs("y", "z")
	got := linesText(r.filterConfigs(linesOf(t, twoResources)))
	want := `ThrottleMillis=0 Resources=#2
Resources[0] Name=a Configs=#2
Resources[0].Configs[0] Name=y Value=2 Source=1 Type=INT ConfigSynonyms=#1
Resources[0].Configs[0].ConfigSynonyms[0] Name=y Value=2
Resources[0].Configs[1] Name=z Value=3 Source=5 Type=INT
Resources[1] Name=b Configs=null
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	r.OnlyConfigs()
	if got := linesText(r.filterConfigs(linesOf(t, twoResources))); got != twoResources {
		t.Errorf("without names\n%s", got)
	}
}

func TestValuesOfTheHostAreLeftOut(t *testing.T) {
	r := &R{}
	r.HostConfigs("y")
	r.HostConfigs("z")
	got := linesText(r.filterConfigs(linesOf(t, twoResources)))
	want := `ThrottleMillis=0 Resources=#2
Resources[0] Name=a Configs=#3
Resources[0].Configs[0] Name=x Value=1 Source=5 Type=INT
Resources[0].Configs[1] Name=y Type=INT
Resources[0].Configs[2] Name=z Type=INT
Resources[1] Name=b Configs=null
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
