package conform

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func testSymbols() *symbols {
	return newSymbols(time.UnixMilli(1_800_000_000_000), "conform-x-", &Target{
		clusterID: "the-cluster", nodes: []int32{3, 7},
		addrs: map[string]string{"example.org": "host", "example.org:9092": hostPort},
	})
}

func TestText(t *testing.T) {
	s := testSymbols()
	for in, want := range map[string]string{
		"":                                  `""`,
		"plain":                             "plain",
		"two words":                         `"two words"`,
		"a=b":                               `"a=b"`,
		`"quoted`:                           `"\"quoted"`,
		"the-cluster":                       "cluster",
		"conform-x-topic":                   "$topic",
		"example.org":                       "host",
		"not.example.org":                   "not.example.org",
		"PLAINTEXT://example.org:9092":      "PLAINTEXT://host:port",
		strings.Repeat("a", 121):            `"aaaaaaaaaaaaaaaaaaaa…aaaaaaaa (121 bytes, 00d6f204)"`,
		"\xff":                              `"\xff"`,
		"line\nbreak":                       `"line\nbreak"`,
		"m-6ba7b810-9dad-11d1-80b4-00c04fd": "m-6ba7b810-9dad-11d1-80b4-00c04fd",
	} {
		if got := s.text(in); got != want {
			t.Errorf("text of %q is %s, want %s", in, got, want)
		}
	}
	a, b := "m-6ba7b810-9dad-11d1-80b4-00c04fd430c8", "m-00000000-9dad-11d1-80b4-00c04fd430c8"
	if got := []string{s.text(a), s.text(b), s.text(a)}; !reflect.DeepEqual(got, []string{"m-uuid:1", "m-uuid:2", "m-uuid:1"}) {
		t.Errorf("ids in texts: %v", got)
	}
}

func TestIntegersThatAreTimes(t *testing.T) {
	s := testSymbols()
	const start = 1_800_000_000_000
	for in, want := range map[int64]string{
		0: "0", -1: "-1", start: "now", start + 60_000: "now",
		start - 3_600_000: "T+0", start - 3_600_000 + 5: "T+5", start - 3_600_000 - 5: "T-5",
		start - 1_800_000: "1799998200000", // halfway between, and neither
	} {
		if got := s.integer(in); got != want {
			t.Errorf("%d is %s, want %s", in, got, want)
		}
	}
}

// The structs of a set may come in any order, with ids that nobody knows beforehand: the
// lines, and the numbers of the symbols, are the same.
func TestSetsHaveOneOrder(t *testing.T) {
	answer := func(order ...int) []Line {
		resp := kmsg.NewPtrMetadataResponse()
		resp.Version = 12
		ids := [][16]byte{{1}, {2}, {3}}
		for _, i := range order {
			topic := kmsg.NewMetadataResponseTopic()
			name := string(rune('a' + i))
			topic.Topic, topic.TopicID = &name, ids[(i+order[0])%3] // other ids in each broker
			topic.Partitions = []kmsg.MetadataResponseTopicPartition{{Partition: int32(order[0] % 2)}, {Partition: int32(1 - order[0]%2)}}
			resp.Topics = append(resp.Topics, topic)
		}
		return testSymbols().render(resp)
	}
	want := linesText(answer(0, 1, 2))
	for _, order := range [][]int{{1, 0, 2}, {2, 1, 0}} {
		if got := linesText(answer(order...)); got != want {
			t.Errorf("in the order %v:\n%s\nwant\n%s", order, got, want)
		}
	}
	if !strings.Contains(want, "Topics[2].Partitions[1]") || !strings.Contains(want, "id:c") {
		t.Errorf("lines:\n%s", want)
	}
}

func TestNumbersThatBrokersInvent(t *testing.T) {
	resp := kmsg.NewPtrInitProducerIDResponse()
	for id, want := range map[int64]string{-1: "-1", 0: "producer:1", 4711: "producer:1"} {
		resp.ProducerID = id
		if got := fieldOf(testSymbols().render(resp)[0], "ProducerID"); got != want {
			t.Errorf("producer %d is %s, want %s", id, got, want)
		}
	}
	fetch := kmsg.NewPtrFetchResponse()
	for id, want := range map[int32]string{0: "0", 99: "session:1"} {
		fetch.SessionID = id
		if got := fieldOf(testSymbols().render(fetch)[0], "SessionID"); got != want {
			t.Errorf("session %d is %s, want %s", id, got, want)
		}
	}
}

// How long a client has to pause depends on the clock; whether it has to does not.
func TestPausesHaveNoLength(t *testing.T) {
	resp := kmsg.NewPtrFetchResponse()
	for ms, want := range map[int32]string{0: "0", 1: "some", 30_000: "some"} {
		resp.ThrottleMillis = ms
		if got := fieldOf(testSymbols().render(resp)[0], "ThrottleMillis"); got != want {
			t.Errorf("%d ms are %s, want %s", ms, got, want)
		}
	}
}

// What comes back in a Fetch is read to the last record, whatever its codec.
func TestRecordsAreRead(t *testing.T) {
	for codec := range kgo.CompressionCodecType(5) {
		batch := Batch{Codec: codec, Records: []Record{
			{Time: 1_799_996_400_000, Key: []byte("k"), Value: []byte("two words")},
			{Time: 1_799_996_400_007, Headers: []kmsg.Header{{Key: "h h", Value: []byte("v=1")}}},
		}}.Bytes()
		lines := fetchLines(append(batch, batch[:70]...))
		for _, want := range []string{
			"[0].RecordBatches[0] FirstOffset=0 PartitionLeaderEpoch=-1 Magic=2 CRC=ok",
			"FirstTimestamp=T+0 MaxTimestamp=T+7 ProducerID=-1",
			`Records[0] Attributes=0 TimestampDelta=0 OffsetDelta=0 Key=k Value="two words"`,
			`Records[1] Attributes=0 TimestampDelta=7 OffsetDelta=1 Key=null Value=null Header="h h" HeaderValue="v=1"`,
			"RecordBatches=#1 cut=yes",
		} {
			if !strings.Contains(lines, want) {
				t.Errorf("codec %d: no %q in\n%s", codec, want, lines)
			}
		}
		batch[len(batch)-1] ^= 1
		if lines := fetchLines(batch); !strings.Contains(lines, "CRC=bad") {
			t.Errorf("codec %d: a flipped bit goes unseen:\n%s", codec, lines)
		}
	}
}

func fetchLines(records []byte) string {
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = 12
	topic := kmsg.NewFetchResponseTopic()
	partition := kmsg.NewFetchResponseTopicPartition()
	partition.RecordBatches = records
	topic.Partitions = append(topic.Partitions, partition)
	resp.Topics = append(resp.Topics, topic)
	return linesText(testSymbols().render(resp))
}
