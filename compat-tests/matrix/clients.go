package matrix

// Client is a library and what it cannot do, by capability.
type Client struct {
	Name   string
	Cannot map[string]string
	// EmptyIsNull says that a program cannot tell a value that is empty from one that is
	// null.
	EmptyIsNull bool
}

// Franz is twmb/franz-go.
func Franz() Client { return Client{Name: "franz-go"} }

// Sarama is IBM/sarama.
func Sarama() Client { return Client{Name: "sarama"} }

// KafkaGo is segmentio/kafka-go.
func KafkaGo() Client {
	return Client{Name: "kafka-go", EmptyIsNull: true, Cannot: map[string]string{
		"idempotent producer": "its Writer has no producer id",
		"delete records":      "it has no DeleteRecords",
	}}
}

// Kcat is the command line of librdkafka.
func Kcat() Client {
	cannot := map[string]string{"headers and times": "it gives all records of a run the same headers, and none a time"}
	for _, c := range administering() {
		if c.name != "list topics" && c.name != "describe a topic" {
			cannot[c.name] = "it has no command for it"
		}
	}
	return Client{Name: "kcat", Cannot: cannot}
}

// ConfluentGo is confluentinc/confluent-kafka-go.
func ConfluentGo() Client { return Client{Name: "confluent-kafka-go"} }

// KafkaPython is kafka-python.
func KafkaPython() Client { return Client{Name: "kafka-python"} }

// ConfluentPython is confluent-kafka.
func ConfluentPython() Client { return Client{Name: "confluent-kafka"} }

// AIOKafka is aiokafka.
func AIOKafka() Client {
	return Client{Name: "aiokafka", Cannot: map[string]string{
		"delete a group": "its admin client has no DeleteGroups",
	}}
}

// KafkaJS is tulios/kafkajs.
func KafkaJS() Client { return Client{Name: "KafkaJS"} }

// Platformatic is @platformatic/kafka.
func Platformatic() Client { return Client{Name: "@platformatic/kafka"} }

// Java is Kafka's own client.
func Java() Client { return Client{Name: "kafka-clients"} }
