package suites

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/klamm-mq/klamm/compat-tests/suites/verdict"
)

// Suite is what one project has its client tested by, and what it expects to find.
type Suite struct {
	Name    string
	List    string // file in lists, without .txt
	Module  string
	Version string
	Sum     string // of the module, as in go.sum
	// Packages are those whose tests talk to a broker.
	Packages []string
	// Addr is the broker's address if the tests have it written in, else any free port
	// of the loopback interface is taken.
	Addr     string
	Settings []string // of the broker
	Env      func(addr string) []string
	Nodes    int  // of the cluster, whose addresses are then a list; up to 1: one broker
	Replicas int  // of the tests' topics, where that can be chosen
	Compose  bool // the tests expect the brokers of a docker-compose.yml
	// Tags are for the build; Tests are the files whose tests are run, as a pattern of
	// names, or all.
	Tags, Tests string
	// Files are put beside the tests of the first package: their configuration.
	Files map[string]string
	// Patience is how long all tests of a package may take together on a loaded machine.
	Patience time.Duration
}

// kgo has three replicas of each topic as its default.
func kgo(nodes, rf int, name string, more ...string) Suite {
	return Suite{
		Name: name, List: "kgo",
		Module: "github.com/twmb/franz-go", Version: "v1.22.3", Sum: "h1:RHe35s34pKefMLyL+ZYJ6mQVtfFZz4zHDHVkTyACur0=",
		Packages: []string{"./pkg/kgo"},
		Settings: []string{
			"group.consumer.heartbeat.interval.ms=1000", "group.consumer.min.heartbeat.interval.ms=1000",
			"share.coordinator.state.topic.replication.factor=1", "share.coordinator.state.topic.min.isr=1",
		},
		Nodes:    nodes,
		Replicas: rf,
		Env: func(addr string) []string {
			return append([]string{"KGO_SEEDS=" + addr, fmt.Sprintf("KGO_TEST_RF=%d", rf), "KGO_LOG_LEVEL=none"}, more...)
		},
		Patience: 15 * time.Minute,
	}
}

func kafkaGo() Suite {
	const addr = "localhost:9092"
	return Suite{
		Name: "kafka-go", List: "kafka-go",
		Module: "github.com/segmentio/kafka-go", Version: "v0.4.51", Sum: "h1:JgDPPG75tC1rWIS2Me6MwcvXJ6f49UQ4HjAOef71Hno=",
		Packages: []string{".", "./compress", "./topics", "./sasl"},
		Addr:     addr,
		Settings: []string{
			"message.max.bytes=200000000",
			// A group must not be complete before its topic exists.
			"group.initial.rebalance.delay.ms=3000",
			"advertised.listeners=PLAINTEXT://" + addr,
		},
		// KAFKA_SKIP_NETTEST: they hold a connection to the rules of net.Conn, which a broker
		// in between cannot keep; the project's own runs leave them out.
		Env:      func(string) []string { return []string{"KAFKA_VERSION=4.4.0", "KAFKA_SKIP_NETTEST=1"} },
		Patience: 15 * time.Minute,
	}
}

func confluent() Suite {
	return Suite{
		Name: "confluent", List: "confluent",
		Module: "github.com/confluentinc/confluent-kafka-go/v2", Version: "v2.11.1", Sum: "h1:qGCQznyp2BxyBNyOE+M7O1YS2tI1/Y60O0jQP452zA4=",
		Packages: []string{"./kafka"},
		Settings: []string{"num.partitions=4"}, // as in the project's own server.properties
		Env:      func(addr string) []string { return []string{"CGO_ENABLED=1", "BROKERS=" + addr} },
		Files:    map[string]string{"testconf.json": `{"Brokers": "$BROKERS", "TopicName": "test", "GroupID": "testgroup"}`},
		Patience: 20 * time.Minute,
	}
}

// sarama has the settings of its docker-compose.yml, and of the server.properties that its
// image takes from Kafka.
func sarama() Suite {
	return Suite{
		Name: "sarama", List: "sarama",
		Module: "github.com/IBM/sarama", Version: "v1.61.1", Sum: "h1:I59MWPHQUWqJNdRpsDUcbeCriog8SxjQaPfHNWxidEg=",
		Packages: []string{"."}, Tags: "functional", Tests: "functional_*_test.go",
		Nodes: 5, Compose: true,
		Settings: []string{
			"default.replication.factor=2", "offsets.topic.replication.factor=2",
			"transaction.state.log.replication.factor=2", "transaction.state.log.min.isr=1",
			"share.coordinator.state.topic.replication.factor=1", "share.coordinator.state.topic.min.isr=1",
			"replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector",
			"auto.create.topics.enable=false", "group.initial.rebalance.delay.ms=0",
		},
		Env:      func(string) []string { return []string{"KAFKA_VERSION=4.4.0"} },
		Patience: 25 * time.Minute,
	}
}

// shape says of how many nodes and replicas a run is, for its line of evidence.
func (s Suite) shape() string {
	var text string
	if s.Nodes > 1 {
		text = fmt.Sprintf(", %d nodes", s.Nodes)
	}
	if s.Replicas > 1 {
		text += fmt.Sprintf(", %d replicas", s.Replicas)
	}
	return text
}

// Expected is the suite's committed list.
func (s Suite) Expected() (verdict.List, error) {
	name := filepath.Join(here(), "lists", s.List+".txt")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	list, err := verdict.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return list, nil
}
