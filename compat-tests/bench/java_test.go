package bench

import (
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/klamm-mq/klamm/compat-tests/java"
)

// recordSize of all loads that are held beside Kafka.
const recordSize = 1 << 10

// produceJava sends so many bytes with Kafka's producer and its default settings, and tells
// how many MiB/s that were, the start of its virtual machine left out.
func produceJava(b *testing.B, s subject, topic string, bytes int64) (rate float64) {
	b.Helper()
	out := runJava(b, "org.apache.kafka.tools.ProducerPerformance", "--bootstrap-server", s.addr, "--topic", topic,
		"--num-records", strconv.FormatInt(bytes/recordSize, 10), "--record-size", strconv.Itoa(recordSize), "--throughput", "-1")
	rates := mibPerSecond.FindAllStringSubmatch(out, -1)
	if len(rates) == 0 {
		b.Fatalf("no rate in what the producer says:\n%s", out)
	}
	rate, err := strconv.ParseFloat(rates[len(rates)-1][1], 64)
	if err != nil {
		b.Fatal(err)
	}
	return rate
}

// mibPerSecond is in each line of the producer, in the last one for all.
var mibPerSecond = regexp.MustCompile(`\(([0-9.]+) MB/sec\)`)

// consumeJava reads so many bytes from the start, with Kafka's consumer as a member of a
// new group.
func consumeJava(b *testing.B, s subject, topic string, bytes int64) {
	b.Helper()
	runJava(b, "org.apache.kafka.tools.ConsumerPerformance", "--bootstrap-server", s.addr, "--topic", topic,
		"--num-records", strconv.FormatInt(bytes/recordSize, 10), "--timeout", "60000")
}

func runJava(b *testing.B, class string, args ...string) (out string) {
	b.Helper()
	cmd, err := java.Command(class, args...)
	if err != nil {
		b.Fatal(err)
	}
	said, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("%s: %v\n%s", class, err, said)
	}
	return string(said)
}

// createTopic makes a topic whose files go soon after it is deleted: all rounds together
// write more than a disk may have room for.
func createTopic(b *testing.B, s subject, name string, partitions int32) {
	b.Helper()
	admin := kadm.NewClient(dial(b, s.addr))
	defer admin.Close()
	soon := "1000"
	if _, err := admin.CreateTopic(b.Context(), partitions, s.replicas(), map[string]*string{"file.delete.delay.ms": &soon}, name); err != nil {
		b.Fatal(err)
	}
}

// deleteTopics returns when nobody lists the topics any more.
func deleteTopics(b *testing.B, s subject, names ...string) {
	b.Helper()
	admin := kadm.NewClient(dial(b, s.addr))
	defer admin.Close()
	gone, err := admin.DeleteTopics(b.Context(), names...)
	if err == nil {
		err = gone.Error()
	}
	if err != nil {
		b.Fatal(err)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		list, err := admin.ListTopics(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if !list.Has(names[len(names)-1]) {
			return
		}
		<-tick.C
	}
}

// number is a positive number from the environment.
func number(b *testing.B, name string, ifUnset int) int {
	b.Helper()
	text := os.Getenv(name)
	if text == "" {
		return ifUnset
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		b.Fatalf("%s=%s is not a positive number", name, text)
	}
	return n
}
