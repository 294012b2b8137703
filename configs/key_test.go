package configs

import (
	"math"
	"slices"
	"testing"
	"time"
)

// formatDouble agrees with Java's Double.toString.
func TestFormatDouble(t *testing.T) {
	tests := map[float64]string{
		0: "0.0", 1: "1.0", 0.5: "0.5", -2.25: "-2.25", 0.001: "0.001", 0.0001: "1.0E-4", 1e-10: "1.0E-10",
		1.5e-5: "1.5E-5", 9999999: "9999999.0", 1e7: "1.0E7", 12345678: "1.2345678E7",
		math.MaxFloat64: "1.7976931348623157E308", math.Inf(1): "Infinity", math.Inf(-1): "-Infinity",
	}
	for f, want := range tests {
		if got := formatDouble(f); got != want {
			t.Errorf("formatDouble(%g) = %s, want %s", f, got, want)
		}
	}
}

func TestSplitList(t *testing.T) {
	tests := []struct {
		text string
		want []string
	}{
		{"", []string{}},
		{"a", []string{"a"}},
		{"a,b", []string{"a", "b"}},
		{"a ,\t b", []string{"a", "b"}},
		{"a,,b", []string{"a", "", "b"}},
		{"a,", []string{"a", ""}},
		{",", []string{"", ""}},
	}
	for _, test := range tests {
		if got := splitList(test.text); !slices.Equal(got, test.want) {
			t.Errorf("splitList(%q) = %q, want %q", test.text, got, test.want)
		}
	}
}

// Kafka removes what a set names twice, and accepts the rest.
func TestRepetitionsInASetAreDropped(t *testing.T) {
	for text, want := range map[string][]string{
		"delete,delete": {"delete"}, "delete,compact, delete": {"delete", "compact"}, "compact": {"compact"}, "": {},
	} {
		got, err := TopicKey("cleanup.policy").Parse(text)
		if err != nil || !slices.Equal(got.([]string), want) {
			t.Errorf("%q is %q, want %q (%v)", text, got, want, err)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"log.dirs", "log.dir", "num.partitions", "message.max.bytes"}
	tests := map[string]string{
		"log.dris": "log.dirs", "logdirs": "log.dirs", "num.partition": "num.partitions", "num.patritions": "num.partitions",
		"max.message.bytes": "", "x": "", "message.max.byte": "message.max.bytes",
	}
	for name, want := range tests {
		if got := nearest(name, known); got != want {
			t.Errorf("nearest(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "abc", 0}, {"", "abc", 3}, {"abc", "acb", 1}, {"abc", "ab", 1}, {"abcd", "axcd", 1}, {"kitten", "sitting", 3}}
	for _, test := range tests {
		if got := distance(test.a, test.b); got != test.want {
			t.Errorf("distance(%q, %q) = %d, want %d", test.a, test.b, got, test.want)
		}
		if got := distance(test.b, test.a); got != test.want {
			t.Errorf("distance(%q, %q) = %d, want %d", test.b, test.a, got, test.want)
		}
	}
}

func TestMillisecondsSaturate(t *testing.T) {
	v := values{"a": int64(math.MaxInt64), "b": int64(math.MinInt64), "c": int32(-1), "d": int64(1500)}
	for name, want := range map[string]time.Duration{"a": math.MaxInt64, "c": -time.Millisecond, "d": 1500 * time.Millisecond} {
		if got := v.ms(name); got != want {
			t.Errorf("ms(%s) = %v, want %v", name, got, want)
		}
	}
	if got := v.ms("b"); got >= 0 {
		t.Errorf("the most negative time is %v", got)
	}
}

// The values of secrets are hidden wherever a Key says so or a name sounds like one.
func TestSecretsAreHidden(t *testing.T) {
	for _, name := range []string{"ssl.keystore.password", "listener.name.x.plain.sasl.jaas.config", "password.encoder.secret", "sasl.oauthbearer.client.credentials.client.secret", "My.Password"} {
		if got := Shown(name, "hunter2"); got != hidden {
			t.Errorf("%s shows %q", name, got)
		}
	}
	if got := Shown("log.dirs", "/a"); got != "/a" {
		t.Errorf("log.dirs shows %q", got)
	}
	if !(&Key{Type: Password}).Sensitive() || (&Key{Type: String}).Sensitive() {
		t.Error("Sensitive")
	}
}

// No text of a file makes Load panic, and each is accepted or refused with a reason.
func FuzzLoad(f *testing.F) {
	f.Add("a.properties", "log.dirs=/a,\\\n /b\nbroker.rack=\\u00e9\n")
	f.Add("a.yaml", "log: {dirs: [/a, /b]}\nmax.connections: 5\n")
	f.Add("a.toml", "num.partitions = 3\n[log]\ndirs = \"/a\"\n")
	f.Add("a.properties", "listeners=A://[::1]:1,B://x:2\nlistener.security.protocol.map=A:PLAINTEXT,B:SSL\ncontroller.quorum.voters=1@a:1")
	f.Fuzz(func(t *testing.T, name, text string) {
		b, _, err := Load(Sources{Files: []string{name}, ReadFile: func(string) ([]byte, error) { return []byte(text), nil }})
		if (b == nil) == (err == nil) {
			t.Errorf("broker %v and error %v", b, err)
		}
		if err != nil && err.Error() == "" {
			t.Error("refused without a reason")
		}
		if b != nil {
			b.Effective()
			EffectiveTopic(nil, b)
			if _, err := ParseTopic(nil, b); err != nil {
				t.Errorf("accepted, but no topic can be opened: %v", err)
			}
		}
	})
}
