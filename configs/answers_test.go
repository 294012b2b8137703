package configs

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// answer is how Kafka 4.4 takes some values of some keys.
type answer struct {
	keys           []string
	taken, refused []string
}

// kafkaAnswers reads what testdata/ConfigAnswers.java has printed.
func kafkaAnswers(t *testing.T) (list []answer) {
	t.Helper()
	text, err := os.ReadFile("testdata/kafka-answers.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 3 {
			t.Fatalf("%d fields in %q", len(f), line)
		}
		list = append(list, answer{strings.Fields(f[0]), quotedTexts(t, f[1]), quotedTexts(t, f[2])})
	}
	return list
}

func quotedTexts(t *testing.T, text string) (list []string) {
	t.Helper()
	for text != "" {
		quoted, err := strconv.QuotedPrefix(text)
		if err != nil {
			t.Fatalf("%v in %q", err, text)
		}
		value, _ := strconv.Unquote(quoted)
		list = append(list, value)
		text = strings.TrimPrefix(text[len(quoted):], " ")
	}
	return list
}

// stricter are values that Kafka takes and that are refused here, each with the reason.
func stricter() map[string]struct{ reason, values string } {
	type strict = struct{ reason, values string }
	const (
		never    = "nothing would ever be in time, or it would be so at once"
		noNumber = "it is no number"
	)
	return map[string]strict{
		"broker.heartbeat.interval.ms":                  {never, "-3 -2 -1 0"},
		"broker.session.timeout.ms":                     {never, "-3 -2 -1 0"},
		"default.replication.factor":                    {"no topic could be created so", "-3 -2 -1 0 32768 100000 100000000"},
		"log.cleaner.io.buffer.load.factor":             {"nothing could be cleaned", "-3 -2 -1 0 2 99 100 1000 100000 100000000 1.5  7  +7 1e3 NaN Infinity 32768 2147483648 9223372036854775808"},
		"log.cleaner.io.max.bytes.per.second":           {noNumber, "NaN"},
		"log.cleaner.min.cleanable.ratio":               {noNumber, "NaN"},
		"log.flush.interval.ms":                         {"no topic could be opened so", "-3 -2 -1"},
		"log.flush.scheduler.interval.ms":               {"no topic could be opened so", "-3 -2 -1"},
		"remote.log.manager.task.retry.jitter":          {noNumber, "NaN"},
		"replica.high.watermark.checkpoint.interval.ms": {never, "-3 -2 -1 0"},
		"replica.selector.class":                        {"classes are Java's", " x x,y , x,,y x,x 1 true"},
		"request.timeout.ms":                            {never, "-3 -2 -1 0"},
		"socket.receive.buffer.bytes":                   {"the system would refuse it", "-3 -2"},
		"socket.send.buffer.bytes":                      {"the system would refuse it", "-3 -2"},
	}
}

// A broker starts with the values with which Kafka's starts, and with no others, whether or
// not the key has any meaning here.
func TestValuesAreTakenAsByKafka(t *testing.T) {
	for _, a := range kafkaAnswers(t) {
		for _, key := range a.keys {
			for _, value := range a.refused {
				if err := loadBeside(key, value); err == nil {
					t.Errorf("%s=%q is taken, and Kafka refuses it", key, value)
				}
			}
			strict, listed := stricter()[key]
			departs := false
			for _, value := range a.taken {
				err := loadBeside(key, value)
				if what, _ := classify(key, value); err == nil || what == refused {
					continue
				}
				departs = true
				if !slices.Contains(strings.Split(strict.values, " "), strings.TrimSpace(value)) {
					t.Errorf("%s=%q is refused, and Kafka takes it: %v", key, value, err)
				}
			}
			if listed != departs {
				t.Errorf("%s: refused here alone: %t, listed as that: %t", key, departs, listed)
			}
		}
	}
}

// loadBeside loads what every answer of Kafka was given, and one key more.
func loadBeside(key, value string) error {
	_, _, err := Load(Sources{Set: []string{
		"process.roles=broker,controller", "node.id=1", "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
		"controller.listener.names=CONTROLLER", "controller.quorum.bootstrap.servers=127.0.0.1:9093", key + "=" + value,
	}})
	return err
}

// The keys that are not served have Kafka's types, defaults and limits, except for limits
// that Kafka does not list of itself.
func TestUnservedKeysAreKafkas(t *testing.T) {
	own := map[string]bool{"share.coordinator.state.topic.compression.codec": true}
	seen := map[string]bool{}
	for i := range unserved {
		seen[unserved[i].Name] = true
	}
	for _, k := range kafkaKeys(t, "testdata/kafka-broker-keys.tsv") {
		if BrokerKey(k.name) != nil {
			continue
		}
		key := find(unserved, k.name)
		if key == nil {
			t.Errorf("%s is not among them", k.name)
			continue
		}
		delete(seen, k.name)
		ours := key.asKafka()
		if k.valid == "non-null string" {
			k.valid = "" // nothing can be null in a file
		}
		if ours.typ != k.typ || ours.def != k.def || ours.valid != k.valid && !own[k.name] {
			t.Errorf("%s differs\n  ours  %+v\n  Kafka %+v", k.name, ours, k)
		}
	}
	for name := range seen {
		t.Errorf("%s is none of Kafka's, or is served", name)
	}
}

// What two keys must keep to is said of the one that was set, with the value of the other.
func TestRulesOfUnservedKeys(t *testing.T) {
	for setting, want := range map[string]string{
		"connections.max.idle.ms=100":                                                                                              "connections.max.idle.ms: 100: must be more than connection.failed.authentication.delay.ms (100), or negative for never",
		"connection.failed.authentication.delay.ms=600000":                                                                         "connection.failed.authentication.delay.ms: 600000: must be less than connections.max.idle.ms (600000)",
		"connections.max.idle.ms=-1 connection.failed.authentication.delay.ms=600000":                                              "",
		"group.consumer.session.timeout.ms=44999":                                                                                  "group.consumer.session.timeout.ms: 44999: must be at least group.consumer.min.session.timeout.ms (45000)",
		"group.share.max.size=900 group.share.max.share.sessions=800":                                                              "group.share.max.size: 900: must be at most group.share.max.share.sessions (800)",
		"group.streams.heartbeat.interval.ms=9000 group.streams.session.timeout.ms=9000 group.streams.min.session.timeout.ms=9000": "group.streams.heartbeat.interval.ms: 9000: must be less than group.streams.session.timeout.ms (9000)",
		"group.coordinator.rebalance.protocols=consumer":                                                                           "group.coordinator.rebalance.protocols: consumer: must contain classic",
		"group.share.assignors=simple,a.B":                                                                                         "group.share.assignors: simple,a.B: must be one assignor",
		"early.start.listeners=PLAINTEXT":                                                                                          "",
		"early.start.listeners=plaintext":                                                                                          "early.start.listeners: plaintext: plaintext is not one of the listeners: PLAINTEXT",
		"early.start.listeners=OTHER":                                                                                              "early.start.listeners: OTHER: OTHER is not one of the listeners: PLAINTEXT",
		"cordoned.log.dirs=/a log.dirs=/a/,/b":                                                                                     "",
		"cordoned.log.dirs=/c log.dirs=/a,/b":                                                                                      "cordoned.log.dirs: /c: /c is not one of log.dirs",
		"cordoned.log.dirs=* log.dirs=/a,/b":                                                                                       "",
		"cordoned.log.dirs=*,/a log.dirs=/a,/b":                                                                                    "cordoned.log.dirs: *,/a: must not have anything beside *",
		"controller.quorum.bootstrap.servers=":                                                                                     "controller.quorum.bootstrap.servers: \"\": must name a controller; leave it out where this node is alone",
		"inter.broker.listener.name=":                                                                                              "inter.broker.listener.name: \"\": must not be empty",
		"advertised.listeners=":                                                                                                    "advertised.listeners: \"\": must not be empty",
		"num.network.threads=0":                                                                                                    "num.network.threads: 0: must be at least 1",
		"remote.log.manager.task.retry.jitter=0.6":                                                                                 "remote.log.manager.task.retry.jitter: 0.6: must be at most 0.5",
	} {
		_, _, err := Load(Sources{Set: strings.Fields(setting)})
		if got := fmt.Sprint(err); want == "" && err != nil || want != "" && got != "--set: "+want {
			t.Errorf("%s: %s\n want: %s", setting, got, want)
		}
	}
}
