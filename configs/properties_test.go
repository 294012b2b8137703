package configs

import (
	"maps"
	"strings"
	"testing"
)

// Files are read as java.util.Properties reads them; the results are its own.
func TestPropertiesAreReadAsByJava(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"":                              {},
		"a=b":                           {"a": "b"},
		"a=b\nc=d\r\ne=f\rg=h":          {"a": "b", "c": "d", "e": "f", "g": "h"},
		" \t\fa \t=\f b ":               {"a": "b "},
		"a : b\nc  d\ne":                {"a": "b", "c": "d", "e": ""},
		"a = = b\nc:=d\ne  :  : f":      {"a": "= b", "c": "=d", "e": ": f"},
		"# a=b\n  ! c=d\\\ne=f":         {"e": "f"},
		"a=b#c!d":                       {"a": "b#c!d"},
		"a=1\na=2":                      {"a": "2"},
		"a=b,\\\n   c,\\\r\n\td\r\ne=f": {"a": "b,c,d", "e": "f"},
		"a=b\\\n# c":                    {"a": "b# c"},
		"a=b\\\n\nc=d":                  {"a": "b", "c": "d"},
		"\\\n# a=b\nc=d":                {"c": "d"},
		"a=b\\\\\nc=d\\":                {"a": `b\`, "c": "d"},
		`a\=b\:c\ d=e`:                  {"a=b:c d": "e"},
		`a=\t\n\r\f\q\"\\`:              {"a": "\t\n\r\fq\"\\"},
		`a=C:\data\new`:                 {"a": "C:data\new"},
		`a=\u00e4\uD83D\uDE00x`:         {"a": "ä😀x"},
		"=5\n:6":                        {"": "6"},
		"a=${b}%d":                      {"a": "${b}%d"},
	} {
		got, err := readProperties([]byte(text))
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}

// Where Java would take everything for Latin-1, what is UTF-8 is read as that.
func TestPropertiesInUTF8AndLatin1(t *testing.T) {
	for text, want := range map[string]string{"r=Köln": "Köln", "r=K\xf6ln": "Köln", "\ufeffr=Köln": "Köln"} {
		settings, err := readFile("f.properties", []byte(text))
		if err != nil || settings["r"] != want {
			t.Errorf("%q: %q, %v", text, settings, err)
		}
	}
}

// What cannot be read is said in one line that a person can read.
func TestFilesThatCannotBeRead(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"f.properties", "a=b\\\nc\n\nd=\\u12x4", `line 4: \u needs four hexadecimal digits`},
		{"f.properties", `a=\u12`, `line 1: \u needs four hexadecimal digits`},
		{"f.properties", "\xff\xfea\x00=\x00b\x00", "is UTF-16, and must be UTF-8"},
		{"f.yaml", "- a\n- b\n", "is not a table of keys and values"},
		{"f.yaml", "a: 1\na: 2\n", "yaml: unmarshal errors: line 2: mapping key \"a\" already defined at line 1"},
		{"f.toml", "a = 1\na = 2\n", "toml: key a is already defined"},
	} {
		if _, err := readFile(c.name, []byte(c.text)); err == nil || err.Error() != c.want {
			t.Errorf("%s %q: %v, want %s", c.name, c.text, err, c.want)
		}
	}
	if settings, err := readFile("f.toml", []byte("\ufeff\"node.id\" = 3")); err != nil || settings["node.id"] != "3" {
		t.Errorf("a byte order mark: %q, %v", settings, err)
	}
}

// Names and values are shown as far as a line is readable with them.
func TestWarningsAndProblemsAreReadable(t *testing.T) {
	long := strings.Repeat("x", 1_000_000)
	_, warnings, err := Load(Sources{Set: []string{"a\x1b[2Jb=1", long + "=1", "num.partitions=" + long}})
	if len(warnings) != 2 || warnings[0] != `--set: unknown key "a\x1b[2Jb" was ignored` {
		t.Errorf("warnings %.300q", warnings)
	}
	for _, line := range []string{string(warnings[1]), err.Error()} {
		if len(line) > 400 || !strings.Contains(line, "xxx…") {
			t.Errorf("%d bytes: %.500s", len(line), line)
		}
	}
}

// The variables that Kubernetes makes of services are no settings, nor are those of Kafka's
// scripts.
func TestVariablesThatAreNoSettings(t *testing.T) {
	b, warnings, err := Load(Sources{Env: []string{
		"KAFKA_HEAP_OPTS=-Xmx1g", "KAFKA_LOG4J_LOGGERS=a=b", "KAFKA_JMX_PORT=99", "KAFKA_GC_LOG_OPTS=x", "KAFKA_CLUSTER_ID=x",
		"KAFKA_PORT=tcp://192.0.2.1:9092", "KAFKA_SERVICE_HOST=192.0.2.1", "KAFKA_SERVICE_PORT=9092", "KAFKA_SERVICE_PORT_CLIENTS=9092",
		"KLAMM_PORT_9092_TCP=tcp://192.0.2.1:9092", "KLAMM_PORT_9092_TCP_ADDR=192.0.2.1", "KLAMM_PORT_9092_TCP_PORT=9092", "KLAMM_PORT_9092_TCP_PROTO=tcp",
		"KAFKA_NUM_PARTITIONS=3", "KLAMM_NUM_PARTITIONS=4",
	}})
	if err != nil || len(warnings) > 0 || b.NewTopics.Partitions != 4 {
		t.Errorf("%v, warnings %q", err, warnings)
	}
}
