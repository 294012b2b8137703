package conform

import (
	"strings"
	"testing"
)

func parse(t *testing.T, text string) Transcript {
	t.Helper()
	all, err := ReadTranscripts(strings.NewReader("scenario x/y\n"+text), 32)
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

func TestCompare(t *testing.T) {
	const base = `step 32 v4 answer first
  Resources=#1
  Resources[0] Name=r Configs=#2
  Resources[0].Configs[0] Name=a Value=1 Synonyms=#1
  Resources[0].Configs[0].Synonyms[0] Name=s Value=0
  Resources[0].Configs[1] Name=b Value=2 Synonyms=#0
step 32 v4 answer first
  Resources=#0
`
	edit := func(old, with string) string { return strings.Replace(base, old, with, 1) }
	cases := []struct {
		name, got string
		want      string // field, item, step
	}{
		{"equal", base, ""},
		{"a field", edit("Value=1", "Value=7"), "0 Resources.Configs.Value a"},
		{"a field of a second step with the same label", edit("Resources=#0", "Resources=#9"), "1 Resources "},
		{"a key more", edit("step 32 v4 answer first\n  Resources=#0", "  Resources[0].Configs[2] Name=aa Value=9\nstep 32 v4 answer first\n  Resources=#0"), "0 Resources.Configs.extra aa"},
		{"keys in another order with another index", strings.NewReplacer("Configs[0]", "Configs[1]", "Configs[1]", "Configs[0]").Replace(base), ""},
		{"inside a key", edit("Name=s Value=0", "Name=s Value=5"), "0 Resources.Configs.Synonyms.Value a"},
		{"a key less", strings.Replace(edit("  Resources[0].Configs[1] Name=b Value=2 Synonyms=#0\n", ""), "Configs=#2", "Configs=#1", 1), "0 Resources.Configs.missing b"},
		{"a field less", edit(" Synonyms=#1", ""), "0 Resources.Configs.Synonyms a"},
		{"another outcome", edit("step 32 v4 answer first\n  Resources=#0", "step 32 v4 closed first"), "1 outcome "},
		{"a step less", edit("step 32 v4 answer first\n  Resources=#0\n", ""), "1 missing "},
		{"a step more", base + "step 3 v1 closed more\n", "2 extra "},
	}
	for _, c := range cases {
		var got []string
		for _, d := range Compare(parse(t, base), parse(t, c.got)) {
			got = append(got, strings.Join([]string{string(rune('0' + d.Step)), d.Field, d.Item}, " "))
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s: differences %q, want %q", c.name, got, c.want)
		}
	}
}

// Two structs of the same name are two structs.
func TestCompareDoubledKeys(t *testing.T) {
	double := "step 32 v4 answer s\n  C=#2\n  Configs[0] Name=a Value=1\n  Configs[1] Name=a Value=2\n"
	if diffs := Compare(parse(t, double), parse(t, double)); len(diffs) > 0 {
		t.Errorf("equal, but %v", diffs)
	}
	if diffs := Compare(parse(t, double), parse(t, strings.Replace(double, "Value=2", "Value=3", 1))); len(diffs) != 1 {
		t.Errorf("one value differs: %v", diffs)
	}
}

// A broker that advertises less is not wrong; one that advertises another range is, or an
// API that does not exist.
func TestCompareAdvertisedAPIs(t *testing.T) {
	const base = "step 18 v0 answer s\n  ErrorCode=0 ApiKeys=#2\n  ApiKeys[0] ApiKey=0 MinVersion=0\n  ApiKeys[1] ApiKey=1 MinVersion=4\n"
	for got, want := range map[string]string{
		"step 18 v0 answer s\n  ErrorCode=0 ApiKeys=#1\n  ApiKeys[0] ApiKey=1 MinVersion=4\n":  "",
		"step 18 v0 answer s\n  ErrorCode=0 ApiKeys=#1\n  ApiKeys[0] ApiKey=1 MinVersion=0\n":  "ApiKeys.MinVersion",
		"step 18 v0 answer s\n  ErrorCode=0 ApiKeys=#1\n  ApiKeys[0] ApiKey=99 MinVersion=0\n": "ApiKeys.extra",
	} {
		var fields []string
		for _, d := range Compare(parse(t, base), parse(t, got)) {
			fields = append(fields, d.Field)
		}
		if strings.Join(fields, " ") != want {
			t.Errorf("%s\ndiffers in %v, want %s", got, fields, want)
		}
	}
}
