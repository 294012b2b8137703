package configs

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// described is a line of testdata/kafka-describeconfigs.tsv: how Kafka 4.4 answers
// DescribeConfigs for a key that nobody has set.
type described struct {
	resource, name, typ, value string
	readOnly, sensitive        bool
	synonyms                   []string
	documented                 bool
}

func describedKeys(t *testing.T, resource string) (keys []described) {
	t.Helper()
	text, err := os.ReadFile("testdata/kafka-describeconfigs.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if strings.HasPrefix(line, "#") || f[0] != resource {
			continue
		}
		if len(f) != 8 {
			t.Fatalf("%d fields in %q", len(f), line)
		}
		k := described{f[0], f[1], f[2], f[3], f[4] == "read-only", f[5] == "sensitive", nil, f[7] == "documented"}
		if f[6] != "" {
			k.synonyms = strings.Split(f[6], ",")
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		t.Fatalf("no keys of a %s were recorded", resource)
	}
	return keys
}

// differsFrom says in which column a key of ours differs from Kafka's answer.
func (k *Key) differsFrom(d described) string {
	value := k.Default
	switch {
	case k.Name == "streams.assignor.name":
		value = "sticky" // the first of group.streams.assignors
	case k.Unset:
		value = "null"
	}
	switch {
	case k.Type.String() != d.typ:
		return "type " + k.Type.String()
	case value != d.value && d.value != "host":
		return "default " + value
	case k.Sensitive() != d.sensitive:
		return "sensitivity"
	case (k.Doc != "") != d.documented:
		return "documentation"
	}
	return ""
}

// An answer's table has every key that is not internal, and no other.
func checkListed(t *testing.T, keys []Key, kafka []described) {
	t.Helper()
	var ours, theirs []string
	for i := range keys {
		if !keys[i].Internal && !keys[i].Ours {
			ours = append(ours, keys[i].Name)
		}
	}
	for _, d := range kafka {
		theirs = append(theirs, d.name)
	}
	if !slices.Equal(ours, theirs) {
		t.Errorf("listed are\n%v, by Kafka\n%v", ours, theirs)
	}
}

// Topics and groups are described as Kafka describes them, key by key.
func TestTopicAndGroupKeysAreDescribedAsByKafka(t *testing.T) {
	for resource, keys := range map[string][]Key{"topic": TopicKeys(), "group": GroupKeys()} {
		kafka := describedKeys(t, resource)
		checkListed(t, keys, kafka)
		for _, d := range kafka {
			key := find(keys, d.name)
			if key == nil {
				continue
			}
			if what := key.differsFrom(d); what != "" {
				t.Errorf("%s key %s: %s, by Kafka %+v", resource, d.name, what, d)
			}
			if d.readOnly {
				t.Errorf("%s key %s can not be changed", resource, d.name)
			}
			for _, name := range d.synonyms {
				if !key.named(name) {
					t.Errorf("%s key %s: no synonym %s", resource, d.name, name)
				}
			}
		}
	}
}

// named reports whether name is the key's own or a synonym's.
func (k *Key) named(name string) bool {
	return k.Name == name || slices.ContainsFunc(k.Synonyms, func(s Synonym) bool { return s.Name == name })
}

// Broker keys that are served are described as Kafka describes them, except for defaults
// that are our own; every other one is at least known by name.
func TestBrokerKeysAreDescribedAsByKafka(t *testing.T) {
	own := []string{
		"broker.heartbeat.interval.ms", "broker.session.timeout.ms",
		"controller.quorum.election.timeout.ms", "controller.quorum.fetch.timeout.ms", "log.flush.offset.checkpoint.interval.ms",
	}
	for _, d := range describedKeys(t, "broker") {
		key := BrokerKey(d.name)
		if key == nil {
			if what, _ := classify(d.name, "x"); what == unknown {
				t.Errorf("%s is unknown", d.name)
			}
			continue
		}
		what := key.differsFrom(d)
		if (what != "") != slices.Contains(own, d.name) {
			t.Errorf("broker key %s: %q, by Kafka %+v", d.name, what, d)
		}
		if key.Internal {
			t.Errorf("broker key %s is internal, and Kafka describes it", d.name)
		}
	}
}

// Kafka hides the broker keys that are internal here.
func TestInternalBrokerKeysAreNotDescribed(t *testing.T) {
	kafka := describedKeys(t, "broker")
	for _, key := range BrokerKeys() {
		listed := slices.ContainsFunc(kafka, func(d described) bool { return d.name == key.Name })
		if !key.Ours && listed == key.Internal {
			t.Errorf("%s: internal %t, described by Kafka %t", key.Name, key.Internal, listed)
		}
	}
}

// What Kafka's brokers do not let anybody change while they run does not change here, and what
// they do, if it means anything here, does, but for some keys.
func TestBrokerKeysAreDynamicAsInKafka(t *testing.T) {
	still := []string{"listener.security.protocol.map", "listeners", "num.replica.fetchers"} // row dynamic-keys of docs/divergence.md
	for _, d := range describedKeys(t, "broker") {
		switch dynamic := IsDynamic(d.name); {
		case d.readOnly && dynamic:
			t.Errorf("%s can be changed, and not in Kafka", d.name)
		case d.readOnly || BrokerKey(d.name) == nil:
		case dynamic == slices.Contains(still, d.name):
			t.Errorf("%s can be changed: %t", d.name, dynamic)
		}
	}
}
