package matrix

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Client is a library and what it cannot do, by capability.
type Client struct {
	Name     string
	Version  string
	Language string
	// Pin is what fixes its version, in go.mod, requirements.txt, package.json or pom.xml.
	Pin    string
	Cannot map[string]string
	// EmptyIsNull says that a program cannot tell a value that is empty from one that is
	// null.
	EmptyIsNull bool
	// Own is what else is the library's own, against any broker.
	Own string
}

// Clients are all of them.
func Clients() []Client {
	return []Client{
		Java(), Franz(), Sarama(), KafkaGo(), ConfluentGo(), Kcat(), ConfluentPython(), KafkaPython(), AIOKafka(), KafkaJS(), Platformatic(),
	}
}

// Java is Kafka's own client.
func Java() Client {
	return Client{Name: "kafka-clients", Language: "Java", Version: "4.4.0", Pin: "<kafka.version>4.4.0</kafka.version>"}
}

// Franz is twmb/franz-go.
func Franz() Client {
	return Client{Name: "franz-go", Language: "Go", Version: "1.22.3", Pin: "github.com/twmb/franz-go v1.22.3"}
}

// Sarama is IBM/sarama.
func Sarama() Client {
	return Client{Name: "sarama", Language: "Go", Version: "1.61.1", Pin: "github.com/IBM/sarama v1.61.1"}
}

// KafkaGo is segmentio/kafka-go.
func KafkaGo() Client {
	return Client{
		Name: "kafka-go", Language: "Go", Version: "0.4.51", Pin: "github.com/segmentio/kafka-go v0.4.51", EmptyIsNull: true,
		Cannot: map[string]string{
			"idempotent producer": "its Writer has no producer id",
			"delete records":      "it has no DeleteRecords",
			emptyBatches:          "it reads what follows several of them as their records, and asks for ever for what follows one that is alone in an answer",
			staticMembers:         "its Reader has no group.instance.id",
			inRack:                "its Reader tells its rack to the group alone",
		},
		Own: "a Writer asks for no acks by default; an empty value is read as null; after a lost connection the Reader commits again what is older",
	}
}

// ConfluentGo is confluentinc/confluent-kafka-go.
func ConfluentGo() Client {
	return Client{Name: "confluent-kafka-go", Language: "Go, cgo (librdkafka)", Version: "2.11.1", Pin: "github.com/confluentinc/confluent-kafka-go/v2 v2.11.1"}
}

// Kcat is the command line of librdkafka.
func Kcat() Client {
	cannot := map[string]string{"headers and times": "it gives all records of a run the same headers, and none a time", inRack: "it stays at a follower that is gone, or is no replica any more, for five minutes (librdkafka 2.0)"}
	for _, c := range administering() {
		if c.name != "list topics" && c.name != "describe a topic" {
			cannot[c.name] = "it has no command for it"
		}
	}
	return Client{Name: "kcat", Language: "C (librdkafka)", Cannot: cannot, Own: "it ends when its only connection is lost, unless told -E"}
}

// ConfluentPython is confluent-kafka.
func ConfluentPython() Client {
	return Client{Name: "confluent-kafka", Language: "Python (librdkafka)", Version: "2.16.1", Pin: "confluent-kafka==2.16.1"}
}

// KafkaPython is kafka-python.
func KafkaPython() Client {
	return Client{
		Name: "kafka-python", Version: "3.0.12", Language: "Python", Pin: "kafka-python==3.0.12",
		Own: "a member that joins while its metadata changes may wait for ever, with every request answered: the program asks for metadata before; poll raises now and then when the broker is away: the program polls again; of a replica that it is sent to and does not know it learns with its next metadata alone, after five minutes by default",
	}
}

// AIOKafka is aiokafka.
func AIOKafka() Client {
	return Client{
		Name: "aiokafka", Language: "Python", Version: "0.14.0", Pin: "aiokafka==0.14.0",
		Cannot: map[string]string{
			"delete a group": "its admin client has no DeleteGroups",
			staticMembers:    "it does not know that an instance can be fenced",
			inRack:           "it does not tell its rack",
		},
		Own: "it alters configurations with the older request, which replaces all of a topic's",
	}
}

// KafkaJS is tulios/kafkajs.
func KafkaJS() Client {
	return Client{
		Name: "KafkaJS", Language: "JavaScript", Version: "2.2.4", Pin: `"kafkajs": "2.2.4"`,
		Cannot: map[string]string{
			staticMembers: "it has no group.instance.id",
			emptyBatches:  "it asks for ever for what follows one that is alone in an answer",
			inRack:        "it stays at a follower that its metadata has no more, for as long as metadata lasts, and begins again at what is committed when the follower is no replica any more",
		},
		Own: "it brings gzip only: the other codecs are plugged in, as its documentation says; a member asks for another coordinator only when its retries are used up, which takes 9 s by default",
	}
}

// Platformatic is @platformatic/kafka.
func Platformatic() Client {
	return Client{
		Name: "@platformatic/kafka", Language: "JavaScript", Version: "2.12.1", Pin: `"@platformatic/kafka": "2.12.1"`,
		Cannot: map[string]string{staticMembers: "its commits do not carry the group.instance.id: of two members of one name, both go on", inRack: "it does not tell its rack when it fetches"},
		Own: "acks that the producer was made with are not heeded, those of a send are; after a rebalance it reads and commits again what is older; " +
			"when the broker was killed its stream may stop fetching for good, which is left out of the life of its group",
	}
}

// Capabilities of the life of a group, which package groups shows.
const (
	groupLife     = "the life of a group"
	staticMembers = "static members"
)

// inRack is what RunRacks shows: to read from a follower, and from the leader when that is gone.
const inRack = "read in its rack"

// emptyBatches are what compaction leaves of a producer's last batch.
const emptyBatches = "batches without records"

// capabilityNames are all that there is to show.
func capabilityNames() (all []string) {
	for _, c := range capabilities() {
		all = append(all, c.name)
	}
	return append(all, groupLife, staticMembers, inRack)
}

// Table is what the clients show, as Markdown.
func Table() string {
	all := capabilityNames()
	var b strings.Builder
	b.WriteString("| client | language | shows | what it cannot do, and what else is its own |\n|---|---|---|---|\n")
	for _, c := range Clients() {
		fmt.Fprintf(&b, "| %s | %s | %d of %d | %s |\n", strings.TrimSpace(c.Name+" "+c.Version), c.Language, len(all)-len(c.Cannot), len(all), c.remarks())
	}
	return b.String()
}

// remarks are what it cannot do, by reason, and its own ways.
func (c Client) remarks() string {
	reasons := map[string][]string{}
	for _, name := range capabilityNames() {
		if reason, cannot := c.Cannot[name]; cannot {
			reasons[reason] = append(reasons[reason], name)
		}
	}
	var all []string
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		all = append(all, fmt.Sprintf("*%s*: %s", strings.Join(reasons[reason], ", "), reason))
	}
	if c.Own != "" {
		all = append(all, c.Own)
	}
	return strings.Join(all, "; ")
}
