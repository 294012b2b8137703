package configs

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

func loaded(t *testing.T, set ...string) *Broker {
	t.Helper()
	b, _, err := Load(Sources{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func with(t *testing.T, b *Broker, d Dynamic) *Broker {
	t.Helper()
	next, problems := b.With(d)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return next
}

func sourcesOf(list []SynonymValue) string {
	var parts []string
	for _, s := range list {
		parts = append(parts, s.Name+"="+s.Value+" "+s.Source.String())
	}
	return strings.Join(parts, ", ")
}

func described1(t *testing.T, list []Described, name string) Described {
	t.Helper()
	i := slices.IndexFunc(list, func(d Described) bool { return d.Name == name })
	if i < 0 {
		t.Fatalf("%s is not described", name)
	}
	return list[i]
}

// A broker is described as Kafka 4.4 describes one: every key, in type, default, synonyms,
// sensitivity and documentation, and as changeable only what is so there, too.
func TestBrokerIsDescribedAsByKafka(t *testing.T) {
	ours := []string{ // see TestBrokerKeysAreDescribedAsByKafka
		"broker.heartbeat.interval.ms", "broker.session.timeout.ms", "controller.quorum.election.backoff.max.ms",
		"controller.quorum.election.timeout.ms", "controller.quorum.fetch.timeout.ms", "log.flush.offset.checkpoint.interval.ms",
	}
	list := loaded(t).Describe()
	kafka := describedKeys(t, "broker")
	if len(list) != len(kafka) {
		t.Fatalf("%d keys, Kafka has %d", len(list), len(kafka))
	}
	for i, d := range list {
		k := kafka[i]
		value := "null"
		if d.Value != nil {
			value = *d.Value
		}
		switch {
		case d.Name != k.name:
			t.Fatalf("key %d is %s, Kafka's %s", i, d.Name, k.name)
		case k.value == "host" || slices.Contains(ours, d.Name):
		case d.Type.String() != k.typ || value != k.value || d.Sensitive != k.sensitive || (d.Doc != "") != k.documented:
			t.Errorf("%+v, by Kafka %+v", d, k)
		case d.Name == "min.insync.replicas": // of all brokers, and the default
		case len(d.Synonyms) != len(k.synonyms):
			t.Errorf("%s: synonyms %s, by Kafka %s", d.Name, sourcesOf(d.Synonyms), k.synonyms)
		}
		if !d.ReadOnly && k.readOnly {
			t.Errorf("%s can be changed, not in Kafka", d.Name)
		}
		if !strings.HasSuffix(d.Doc, ".") {
			t.Errorf("%s: doc %q", d.Name, d.Doc)
		}
	}
}

// Every dynamic key is one that Kafka can change, too, and one of the table.
func TestEveryDynamicKeyIsServed(t *testing.T) {
	for _, name := range strings.Fields(dynamicKeys) {
		if BrokerKey(name) == nil || !IsDynamic(name) {
			t.Errorf("%s is not served", name)
		}
	}
}

// What is set on one broker hides what is set on all, which hides the file.
func TestPlacesOfAValue(t *testing.T) {
	b := loaded(t, "log.retention.hours=5", "max.connections=7")
	all, own := map[string]string{"log.retention.ms": "11", "max.connections": "8"}, map[string]string{"log.retention.ms": "12"}
	for _, c := range []struct {
		name        string
		d           Dynamic
		retentionMs int64
		source      Source
		synonyms    string
		connections int32
	}{
		{"file", Dynamic{}, 5 * 3600 * 1000, SourceDefault, "", 7},
		{"all", Dynamic{All: all}, 11, SourceDynamicDefault, "log.retention.ms=11 dynamic default, log.retention.hours=5 broker, log.retention.hours=168 default", 8},
		{
			"own",
			Dynamic{All: all, Own: own},
			12, SourceDynamicBroker,
			"log.retention.ms=12 dynamic broker, log.retention.ms=11 dynamic default, log.retention.hours=5 broker, log.retention.hours=168 default", 8,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			// Derived from one that is derived, as after a second change.
			next := with(t, with(t, b, Dynamic{Own: map[string]string{"log.roll.ms": "1"}}), c.d)
			topic, err := ParseTopic(nil, next)
			if err != nil || topic.RetentionMs != c.retentionMs || next.Network.MaxConnections != c.connections {
				t.Errorf("retention %d, connections %d, %v", topic.RetentionMs, next.Network.MaxConnections, err)
			}
			d := described1(t, DescribeTopic(nil, next, "fsync"), "retention.ms")
			if d.Source != c.source || sourcesOf(d.Synonyms) != c.synonyms {
				t.Errorf("source %v, synonyms %s", d.Source, sourcesOf(d.Synonyms))
			}
			if topic.SegmentMs != 168*3600*1000 {
				t.Errorf("what was set before is still there: %d", topic.SegmentMs)
			}
		})
	}
}

func TestDescribeDefaultsListsWhatIsSetOnAllBrokers(t *testing.T) {
	b := with(t, loaded(t, "message.max.bytes=5"), Dynamic{
		All: map[string]string{"message.max.bytes": "6", "no.such": "secret", "leader.replication.throttled.rate": "9"},
		Own: map[string]string{"log.roll.ms": "1"},
	})
	list := b.DescribeDefaults()
	if len(list) != 3 {
		t.Fatalf("%+v", list)
	}
	if d := described1(t, list, "message.max.bytes"); *d.Value != "6" || sourcesOf(d.Synonyms) != "message.max.bytes=6 dynamic default" || d.ReadOnly {
		t.Errorf("%+v", d)
	}
	if d := described1(t, list, "no.such"); d.Value != nil || !d.Sensitive || d.Type != 0 || !d.ReadOnly {
		t.Errorf("a name that nobody knows: %+v", d)
	}
	if d := described1(t, list, "leader.replication.throttled.rate"); *d.Value != "9" || d.Type != Long || d.ReadOnly {
		t.Errorf("%+v", d)
	}
	if d := described1(t, b.Describe(), "no.such"); d.Source != SourceDynamicDefault {
		t.Errorf("on one broker: %+v", d)
	}
}

// MirrorMaker would set what a topic has set on a Kafka, which does not know the key.
func TestDurabilityIsNotForKafkasTools(t *testing.T) {
	for _, c := range []struct {
		topic, cluster, synonyms string
		source                   Source
	}{
		{"fsync", "fsync", "durability=fsync default", SourceDefault},
		{"replicated", "replicated", "durability=replicated default", SourceDefault},
		{"replicated", "fsync", "durability=replicated topic, durability=fsync default", SourceTopic},
	} {
		// What the broker's file says now is not what the cluster was founded with.
		b := loaded(t, "durability=fsync")
		d := described1(t, DescribeTopic(map[string]string{"durability": c.topic}, b, c.cluster), "durability")
		if *d.Value != c.topic || d.Source != c.source || !d.ReadOnly || sourcesOf(d.Synonyms) != c.synonyms {
			t.Errorf("%+v: value %s, source %v, read-only %v, synonyms %s", c, *d.Value, d.Source, d.ReadOnly, sourcesOf(d.Synonyms))
		}
	}
}

// kafka-configs shows what kafka-reassign-partitions has set, without a default.
func TestThrottlesHaveNoDefault(t *testing.T) {
	own := map[string]string{}
	for _, key := range throttleKeys() {
		own[key.Name] = "9"
	}
	list := with(t, loaded(t), Dynamic{Own: own}).Describe()
	for name := range own {
		if d := described1(t, list, name); sourcesOf(d.Synonyms) != name+"=9 dynamic broker" {
			t.Errorf("synonyms of %s: %s", name, sourcesOf(d.Synonyms))
		}
	}
}

// What another release may have written does not keep a broker from starting.
func TestUnusableDynamicValuesAreLeftOut(t *testing.T) {
	b := with(t, loaded(t), Dynamic{All: map[string]string{"max.connections": "x", "node.id": "7", "producer.id.expiration.ms": "5"}})
	if b.Network.MaxConnections != 2147483647 || b.NodeID != 1 || b.ProducerIDExpiration != 5*time.Millisecond {
		t.Errorf("%d %d %v", b.Network.MaxConnections, b.NodeID, b.ProducerIDExpiration)
	}
	if err := b.CheckDynamic(map[string]string{"max.connections": "x"}, map[string]*string{"log.roll.ms": new("5")}, true); err != nil {
		t.Errorf("a bad value that is there stands in the way: %v", err)
	}
}

func TestCheckDynamic(t *testing.T) {
	b := loaded(t)
	for _, c := range []struct {
		key, value string
		ok         bool
	}{
		{"log.retention.ms", "-2", true},
		{"log.retention.ms", "x", false},
		{"log.retention.hours", "5", false},
		{"compression.type", "zstd", true},
		{"compression.type", "x", false},
		{"max.connections.per.ip.overrides", "127.0.0.1:5", true},
		{"max.connections.per.ip.overrides", "5", false},
		{"node.id", "1", false},
		{"num.io.threads", "8", false},
		{"listeners", "PLAINTEXT://:1", false},
		{"listener.name.plaintext.ssl.keystore.location", "x", false},
		{"listener.name.x.no.such", "x", true},
		{"listener.name.x.max.connections", "5", true},
		{"listener.name.x.max.connections", "x", false},
		{"listener.name.x.max.connection.creation.rate", "-1", false},
		{"listener.name.x.max.connections.per.ip", "5", false},
		{"no.such", "1", true},
		{"", "1", true},
		{"durability", "replicated", false},
		{"leader.replication.throttled.rate", "5", true},
		{"leader.replication.throttled.rate", "-1", false},
		{"num.recovery.threads.per.data.dir", "4", true},
		{"num.recovery.threads.per.data.dir", "5", false},
		{"log.cleaner.backoff.ms", "15001", true},
		{"log.cleaner.backoff.ms", "-1", false},
		{"log.cleaner.io.max.bytes.per.second", "x", false},
		{"log.cleaner.threads", "2", true},
		{"log.cleaner.threads", "3", false},
		{"log.cleaner.threads", "0", false},
		{"log.cleaner.dedupe.buffer.size", "1048577", true},
		{"log.cleaner.dedupe.buffer.size", "1048576", false},
		{"log.cleaner.io.buffer.load.factor", "1", true},
		{"log.cleaner.io.buffer.load.factor", "0", false},
		{"log.cleaner.io.buffer.load.factor", "1.5", false},
		{"log.cleaner.io.buffer.load.factor", "NaN", false},
		{"log.cleaner.io.max.bytes.per.second", "0", true},
		{"log.cleaner.io.max.bytes.per.second", "NaN", false},
		{"log.cleaner.io.buffer.size", "-1", false},
		{"log.cleaner.enable", "false", false},
		{"log.local.retention.ms", "5", true},
		{"log.local.retention.ms", "-1", false},
		{"log.local.retention.ms", "604800001", false},
		{"log.local.retention.bytes", "-1", true},
		{"log.remote.copy.lag.ms", "604800000", true},
		{"log.remote.copy.lag.ms", "604800001", false},
		{"log.remote.copy.lag.bytes", "604800001", true},
		{"log.cleanup.policy", "delete,compact", true},
		{"log.cleanup.policy", "delete,delete", false},
		{"max.connections", "0", false}, // from a file it is taken
		{"max.connection.creation.rate", "0", false},
		{"listener.name.plaintext.max.connections", "0", false},
		{"max.connections.per.ip", "0", false},
		{"max.connections.per.ip.overrides", "a b:4", false},
		{"internal.metadata.log.segment.bytes", "5", false},
		{"ssl.keystore.password", "x", false},
	} {
		for _, own := range []bool{false, true} {
			err := b.CheckDynamic(nil, map[string]*string{c.key: &c.value}, own)
			if (err == nil) != c.ok || err != nil && !errors.Is(err, kafkaerr.InvalidRequest) {
				t.Errorf("%s = %s: %v", c.key, c.value, err)
			}
		}
	}
	if err := b.CheckDynamic(nil, map[string]*string{"node.id": nil}, true); err != nil {
		t.Errorf("to delete what is not there: %v", err)
	}
}

func TestIgnoredDynamic(t *testing.T) {
	set := map[string]string{"max.connections": "1", "z": "1", "a": "1", "log.cleaner.threads": "2", "log.cleaner.enable": "false"}
	if names := IgnoredDynamic(set); !slices.Equal(names, []string{"a", "log.cleaner.enable", "z"}) {
		t.Errorf("%v", names)
	}
}

// What is set for the log cleaner is in force, shown as Kafka shows it, and steps count from it.
func TestCleanerKeysAreInForce(t *testing.T) {
	b := loaded(t, "log.cleaner.threads=4", "log.cleaner.backoff.ms=7")
	next := with(t, b, Dynamic{All: map[string]string{"log.cleaner.threads": "8"}, Own: map[string]string{"log.cleaner.backoff.ms": "9"}})
	if c := next.Cleaner; c.Threads != 8 || c.Backoff != 9*time.Millisecond || c.DedupeBytes != 128<<20 || c.LoadFactor != 0.9 || !c.Enabled {
		t.Errorf("in force: %+v", c)
	}
	list := next.Describe()
	if d := described1(t, list, "log.cleaner.threads"); sourcesOf(d.Synonyms) != "log.cleaner.threads=8 dynamic default, log.cleaner.threads=4 broker, log.cleaner.threads=1 default" || d.ReadOnly {
		t.Errorf("threads: %+v, %s", d, sourcesOf(d.Synonyms))
	}
	if d := described1(t, list, "log.cleaner.backoff.ms"); *d.Value != "9" || d.Source != SourceDynamicBroker || d.Type != Long {
		t.Errorf("backoff: %+v", d)
	}
	for value, ok := range map[string]bool{"16": true, "17": false, "4": true, "3": false} {
		if err := next.CheckDynamic(nil, map[string]*string{"log.cleaner.threads": &value}, true); (err == nil) != ok {
			t.Errorf("%s threads after 8: %v", value, err)
		}
	}
}

func TestChangeList(t *testing.T) {
	key := TopicKey("cleanup.policy")
	for _, c := range []struct {
		set    *string
		values string
		add    bool
		want   string
	}{
		{nil, "compact", true, "delete,compact"},
		{new("compact"), "compact", true, "compact"},
		{new(""), "compact,delete", true, "compact,delete"},
		{new("a,b,c"), "b,d", false, "a,c"},
		{nil, "delete", false, ""},
		{new("a"), "", true, "a,"},
		{new("a,,b"), "c,,", true, "a,b,c"},
	} {
		if got := key.ChangeList(c.set, c.values, c.add); got != c.want {
			t.Errorf("%v %q %t: %q, want %q", c.set, c.values, c.add, got, c.want)
		}
	}
}

func TestDescribeGroup(t *testing.T) {
	b := loaded(t, "group.consumer.session.timeout.ms=50000")
	list := DescribeGroup(map[string]string{"share.auto.offset.reset": "earliest", "streams.num.warmup.replicas": "1"}, b)
	if d := described1(t, list, "consumer.session.timeout.ms"); *d.Value != "50000" || d.Source != SourceStatic ||
		sourcesOf(d.Synonyms) != "group.consumer.session.timeout.ms=50000 broker, group.consumer.session.timeout.ms=45000 default" {
		t.Errorf("%+v", d)
	}
	if d := described1(t, list, "share.auto.offset.reset"); *d.Value != "earliest" || d.Source != SourceGroup || len(d.Synonyms) != 2 {
		t.Errorf("%+v", d)
	}
	if d := described1(t, list, "streams.assignor.name"); *d.Value != "sticky" {
		t.Errorf("%+v", d)
	}
	described1(t, list, "streams.num.warmup.replicas") // internal, and set
	if got, want := len(DescribeGroup(nil, b)), len(describedKeys(t, "group")); got != want {
		t.Errorf("%d keys, Kafka has %d", got, want)
	}
}

func TestCheckGroup(t *testing.T) {
	b := loaded(t)
	for _, c := range []struct {
		settings string
		ok       bool
	}{
		{"", true},
		{"no.such=1", false},
		{"consumer.session.timeout.ms=45000", true},
		{"consumer.session.timeout.ms=44999", false},
		{"consumer.session.timeout.ms=60001", false},
		{"consumer.heartbeat.interval.ms=15000", true},
		{"consumer.heartbeat.interval.ms=15001", false},
		{"share.delivery.count.limit=2", true},
		{"share.delivery.count.limit=11", false},
		{"streams.num.standby.replicas=3", false},
		{"streams.assignor.name=sticky", true},
		{"streams.assignor.name=range", false},
		{"errors.deadletterqueue.topic.name=__x", false},
		{"errors.deadletterqueue.topic.name=x", true},
		{"streams.rack.aware.assignment.tags=a,a", false},
		{"streams.task.offset.interval.ms=14999", false},
		{"share.isolation.level=serializable", false},
	} {
		settings := map[string]string{}
		for _, pair := range strings.Fields(c.settings) {
			name, value, _ := strings.Cut(pair, "=")
			settings[name] = value
		}
		if err := CheckGroup(settings, b); (err == nil) != c.ok || err != nil && !errors.Is(err, kafkaerr.InvalidConfig) {
			t.Errorf("%s: %v", c.settings, err)
		}
	}
}

func TestCheckClientMetrics(t *testing.T) {
	for _, c := range []struct {
		key, value string
		want       *kafkaerr.Kind
	}{
		{"interval.ms", "100", nil},
		{"interval.ms", "99", kafkaerr.InvalidRequest},
		{"interval.ms", "3600001", kafkaerr.InvalidRequest},
		{"interval.ms", "x", kafkaerr.InvalidConfig},
		{"no.such", "x", kafkaerr.InvalidRequest},
		{"metrics", "a.,b.", nil},
		{"match", "client_id=a.*,client_source_port = 5", nil},
		{"match", "no_such=a", kafkaerr.InvalidConfig},
		{"match", "client_id", kafkaerr.InvalidConfig},
		{"match", "client_id=(", kafkaerr.InvalidConfig},
		{"match", "client_id=a=b", kafkaerr.InvalidConfig},
	} {
		err := CheckClientMetrics(map[string]string{c.key: c.value})
		if c.want == nil && err != nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s = %s: %v", c.key, c.value, err)
		}
	}
	list := DescribeClientMetrics(map[string]string{"interval.ms": "500"})
	if d := described1(t, list, "interval.ms"); *d.Value != "500" || d.Source != SourceClientMetrics {
		t.Errorf("%+v", d)
	}
	if d := described1(t, list, "match"); *d.Value != "" || d.Source != SourceDefault || len(d.Synonyms) != 0 {
		t.Errorf("%+v", d)
	}
}

// TestMoveRate: what is set on this broker counts before what is set on all.
func TestMoveRate(t *testing.T) {
	const key = "replica.alter.log.dirs.io.max.bytes.per.second"
	b := loaded(t)
	for _, c := range []struct {
		set  Dynamic
		want int64
	}{
		{Dynamic{}, 0},
		{Dynamic{All: map[string]string{key: "7"}}, 7},
		{Dynamic{All: map[string]string{key: "7"}, Own: map[string]string{key: " 9 "}}, 9},
		{Dynamic{Own: map[string]string{key: "0"}}, 1},
		{Dynamic{Own: map[string]string{key: "many"}}, 0},
	} {
		next, problems := b.With(c.set)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if got := next.MoveBytesPerSecond(); got != c.want {
			t.Errorf("%v: %d, want %d", c.set, got, c.want)
		}
	}
}
