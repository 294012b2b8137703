package configs

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// kafkaKey is a line of testdata/kafka-*.tsv: what Kafka 4.4.0's LogConfig and
// AbstractKafkaConfig list of themselves. Synonyms are name*factor.
type kafkaKey struct {
	name, typ, def, importance, internal, valid, synonyms string
}

func kafkaKeys(t *testing.T, file string) []kafkaKey {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var keys []kafkaKey
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 7 {
			t.Fatalf("%s: %d fields in %q", file, len(f), line)
		}
		keys = append(keys, kafkaKey{f[0], f[1], f[2], f[3], f[4], f[5], f[6]})
	}
	return keys
}

func (k *Key) asKafka() kafkaKey {
	own := kafkaKey{name: k.Name, typ: k.Type.String(), importance: string(k.Importance)}
	own.def = "null"
	if !k.Unset {
		own.def = fmt.Sprintf("%q", k.Default)
	}
	if k.Internal {
		own.internal = "internal"
	}
	if k.Valid != nil {
		own.valid = k.Valid.String()
	}
	var synonyms []string
	for _, s := range k.Synonyms {
		synonyms = append(synonyms, fmt.Sprintf("%s*%d", s.Name, max(1, s.Unit)))
	}
	own.synonyms = strings.Join(synonyms, ",")
	return own
}

// The table of topic keys is Kafka's in every column, and has durability beside.
func TestTopicKeysAreKafkas(t *testing.T) {
	compare(t, TopicKeys(), kafkaKeys(t, "testdata/kafka-topic-keys.tsv"), nil)
}

// So is the table of group keys.
func TestGroupKeysAreKafkas(t *testing.T) {
	compare(t, GroupKeys(), kafkaKeys(t, "testdata/kafka-group-keys.tsv"), nil)
}

// The served broker keys are Kafka's except where a reason says so.
func TestBrokerKeysAreKafkas(t *testing.T) {
	const (
		range_   = "Kafka checks it later, or not at all"
		form     = "the form is checked here, not only its absence"
		zeroConf = "starts without configuration"
		failover = "failover in less than a second"
	)
	compare(t, BrokerKeys(), kafkaKeys(t, "testdata/kafka-broker-keys.tsv"), map[string]string{
		"broker.heartbeat.interval.ms":                  failover,
		"broker.session.timeout.ms":                     failover,
		"controller.listener.names":                     zeroConf,
		"controller.quorum.bootstrap.servers":           form,
		"controller.quorum.election.timeout.ms":         failover,
		"controller.quorum.fetch.timeout.ms":            failover,
		"controller.quorum.voters":                      form,
		"default.replication.factor":                    range_,
		"inter.broker.listener.name":                    range_,
		"listeners":                                     zeroConf,
		"log.dir":                                       zeroConf,
		"log.flush.offset.checkpoint.interval.ms":       "the recovery point moves every 30 s",
		"max.connections.per.ip.overrides":              form,
		"node.id":                                       zeroConf,
		"offsets.topic.compression.codec":               range_,
		"process.roles":                                 zeroConf,
		"replica.high.watermark.checkpoint.interval.ms": range_,
		"replica.lag.time.max.ms":                       range_,
		"replica.selector.class":                        form,
		"request.timeout.ms":                            range_,
		"socket.receive.buffer.bytes":                   range_,
		"socket.send.buffer.bytes":                      range_,
	})
}

func compare(t *testing.T, keys []Key, kafka []kafkaKey, departures map[string]string) {
	t.Helper()
	theirs := map[string]kafkaKey{}
	for _, k := range kafka {
		theirs[k.name] = k
	}
	for i := range keys {
		own, their := keys[i].asKafka(), theirs[keys[i].Name]
		_, departs := departures[own.name]
		switch {
		case keys[i].Ours && their != kafkaKey{}:
			t.Errorf("%s is marked as ours, and Kafka has it", own.name)
		case keys[i].Ours:
		case own != their && !departs:
			t.Errorf("%s differs\n  ours  %+v\n  Kafka %+v", own.name, own, their)
		case own == their && departs:
			t.Errorf("%s does not depart from Kafka", own.name)
		}
		if i > 0 && keys[i-1].Name >= own.name {
			t.Errorf("%s stands behind %s", own.name, keys[i-1].Name)
		}
		if keys[i].Doc == "" || !strings.HasSuffix(keys[i].Doc, ".") {
			t.Errorf("%s: doc %q", own.name, keys[i].Doc)
		}
	}
}

// No group key of Kafka is missing.
func TestEveryGroupKeyOfKafkaIsServed(t *testing.T) {
	for _, k := range kafkaKeys(t, "testdata/kafka-group-keys.tsv") {
		if GroupKey(k.name) == nil {
			t.Errorf("%s is missing", k.name)
		}
	}
}

// No topic key of Kafka is missing.
func TestEveryTopicKeyOfKafkaIsServed(t *testing.T) {
	for _, k := range kafkaKeys(t, "testdata/kafka-topic-keys.tsv") {
		if TopicKey(k.name) == nil {
			t.Errorf("%s is missing", k.name)
		}
	}
}

// Each broker key of Kafka is served, refused, or named among those that are ignored:
// none is called unknown.
func TestEveryBrokerKeyOfKafkaIsClassified(t *testing.T) {
	for _, k := range kafkaKeys(t, "testdata/kafka-broker-keys.tsv") {
		if what, _ := classify(k.name, "x"); what == unknown {
			t.Errorf("%s is unknown", k.name)
		}
		if k.typ == "PASSWORD" && !isSecret(k.name) {
			t.Errorf("%s would be shown", k.name)
		}
	}
}

// The lists of names do not overlap, and hold nothing that Kafka does not have.
func TestNameListsAreDisjoint(t *testing.T) {
	kafka := map[string]bool{}
	for _, k := range kafkaKeys(t, "testdata/kafka-broker-keys.tsv") {
		kafka[k.name] = true
	}
	seen := map[string]bool{}
	for list, names := range map[string]string{"pointless": pointless, "later": later, "removed": removed} {
		for _, name := range strings.Fields(names) {
			if seen[name] || BrokerKey(name) != nil {
				t.Errorf("%s stands in two lists", name)
			}
			seen[name] = true
			if kafka[name] != (list != "removed") {
				t.Errorf("%s is in the wrong list: %s", name, list)
			}
			for _, r := range refusals() {
				if r.matches(name) {
					t.Errorf("%s is refused and in the list %s", name, list)
				}
			}
		}
	}
}

// Every default is a valid value, written as Kafka writes it.
func TestDefaultsParse(t *testing.T) {
	for _, table := range [][]Key{TopicKeys(), BrokerKeys(), GroupKeys()} {
		for i := range table {
			key := &table[i]
			if key.Unset {
				continue
			}
			value, err := key.Parse(key.Default)
			if err != nil {
				t.Errorf("%s: default %q %v", key.Name, key.Default, err)
			} else if format(value) != key.Default {
				t.Errorf("%s: default %q is written %q", key.Name, key.Default, format(value))
			}
		}
	}
}

// A topic key and its synonyms have one type, except that coarser times are INT.
func TestSynonymsExist(t *testing.T) {
	for _, key := range TopicKeys() {
		for _, s := range key.Synonyms {
			own := BrokerKey(s.Name)
			switch {
			case own == nil:
				t.Errorf("%s: no broker key %s", key.Name, s.Name)
			case own.Type != key.Type && s.Unit <= 1:
				t.Errorf("%s is %s, %s is %s", key.Name, key.Type, own.Name, own.Type)
			}
		}
	}
}
