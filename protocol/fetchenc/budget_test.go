package fetchenc

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/wire"
)

// discardSink keeps one buffer.
type discardSink struct{ b []byte }

func (s *discardSink) Append(fill func([]byte) []byte) { s.b = fill(s.b) }
func (s *discardSink) AddRegion(wire.Region)           {}

// consumerResponse is what a consumer with ten partitions gets.
func consumerResponse() (*kmsg.FetchResponse, []wire.Region) {
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = 18
	topic := kmsg.NewFetchResponseTopic()
	regions := make([]wire.Region, 10)
	for i := range regions {
		p := kmsg.NewFetchResponseTopicPartition()
		p.Partition = int32(i)
		topic.Partitions = append(topic.Partitions, p)
		regions[i] = &memRegion{b: make([]byte, 100<<10)}
	}
	resp.Topics = append(resp.Topics, topic)
	return resp, regions
}

// maxAllocs is one for the encoder and one for its segment function, however many
// partitions there are.
const maxAllocs = 2

func TestAllocationsDoNotGrowWithPartitions(t *testing.T) {
	resp, regions := consumerResponse()
	s := &discardSink{b: make([]byte, 0, 4096)}
	records := func(_, partition int) wire.Region { return regions[partition] }
	got := testing.AllocsPerRun(100, func() {
		s.b = s.b[:0]
		Append(s, resp, records)
	})
	if got > maxAllocs {
		t.Errorf("%v allocations, budget %d", got, maxAllocs)
	}
}

func BenchmarkAppend(b *testing.B) {
	resp, regions := consumerResponse()
	s := &discardSink{b: make([]byte, 0, 4096)}
	records := func(_, partition int) wire.Region { return regions[partition] }
	b.ReportAllocs()
	for b.Loop() {
		s.b = s.b[:0]
		Append(s, resp, records)
	}
}

func BenchmarkKmsgAppendTo(b *testing.B) {
	resp, regions := consumerResponse()
	for i := range regions {
		resp.Topics[0].Partitions[i].RecordBatches = regions[i].(*memRegion).b
	}
	buf := make([]byte, 0, 2<<20)
	b.ReportAllocs()
	for b.Loop() {
		buf = resp.AppendTo(buf[:0])
	}
}
