package chaos

import (
	"strings"
	"testing"
)

const dumpOfTwo = `{"kind":"file","name":"00000000000000000000.log"}
{"kind":"batch","pos":0,"base_offset":0,"last_offset":1,"leader_epoch":1,"crc":"aa"}
{"kind":"record","offset":0,"value":"p-0"}
{"kind":"record","offset":1,"value":"p-1"}
{"kind":"batch","pos":99,"base_offset":2,"last_offset":2,"leader_epoch":3,"crc":"bb"}
{"kind":"record","offset":2,"value":"p-2"}
`

func TestReplicasAreCompared(t *testing.T) {
	for name, c := range map[string]struct {
		change func(text string, s served) string
		want   string // "" is none
	}{
		"equal":                    {func(text string, _ served) string { return text }, ""},
		"other bytes":              {func(text string, _ served) string { return strings.Replace(text, "aa", "ab", 1) }, "replicas differ: batch 0"},
		"other epoch":              {func(text string, _ served) string { return strings.Replace(text, `epoch":3`, `epoch":2`, 1) }, "replicas differ: batch 1"},
		"a batch is missing":       {func(text string, _ served) string { return text[:strings.Index(text, `{"kind":"batch","pos":99`)] }, "replicas differ: batch 1"},
		"another value":            {func(text string, _ served) string { return strings.Replace(text, "p-2", "p-3", 1) }, "files differ: \"p-2\""},
		"served, and in no file":   {func(text string, s served) string { s[place{0, 3}] = "p-3"; return text }, "files differ: \"p-3\""},
		"in the file, not served":  {func(text string, s served) string { delete(s, place{0, 2}); return text }, "files differ: 2 records"},
		"of another partition":     {func(text string, s served) string { s[place{1, 0}] = "p-7"; return text }, ""},
		"neither served nor there": {func(text string, s served) string { s[place{0, 2}] = "p-9"; return text }, "files differ: \"p-9\""},
	} {
		t.Run(name, func(t *testing.T) {
			s := served{{0, 0}: "p-0", {0, 1}: "p-1", {0, 2}: "p-2"}
			first, err := readDump(strings.NewReader(dumpOfTwo))
			if err != nil {
				t.Fatal(err)
			}
			second, err := readDump(strings.NewReader(c.change(dumpOfTwo, s)))
			if err != nil {
				t.Fatal(err)
			}
			found := strings.Join(append(compareReplicas("t-0", map[int]replica{1: first, 2: second}), compareServed(0, second, s)...), "\n")
			if c.want == "" && found != "" || !strings.Contains(found, c.want) {
				t.Errorf("found %q, want %q", found, c.want)
			}
		})
	}
}
