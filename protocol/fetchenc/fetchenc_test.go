package fetchenc

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/klamm-mq/klamm/protocol/wire"
)

// memRegion is a region of bytes that counts its releases.
type memRegion struct {
	b        []byte
	released int
}

func (r *memRegion) Len() int { return len(r.b) }
func (r *memRegion) ReadAt(p []byte, off int64) (int, error) {
	n := copy(p, r.b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
func (r *memRegion) File() (*os.File, int64) { return nil, 0 }
func (r *memRegion) Release()                { r.released++ }

// flatSink joins the pieces; it knows how many regions came.
type flatSink struct {
	b        []byte
	regions  int
	segments int
}

func (s *flatSink) Append(fill func([]byte) []byte) {
	s.b = fill(s.b)
	s.segments++
}

func (s *flatSink) AddRegion(r wire.Region) {
	s.b = append(s.b, r.(*memRegion).b...)
	s.regions++
}

// reference is what kmsg makes of resp, with null records empty.
func reference(resp *kmsg.FetchResponse) []byte {
	for t := range resp.Topics {
		for p := range resp.Topics[t].Partitions {
			if part := &resp.Topics[t].Partitions[p]; part.RecordBatches == nil {
				part.RecordBatches = []byte{}
			}
		}
	}
	return resp.AppendTo(nil)
}

// checkAgainstKmsg encodes resp with the records that asRegion chooses moved out into
// regions.
func checkAgainstKmsg(t testing.TB, resp *kmsg.FetchResponse, asRegion func(topic, partition int) bool) {
	t.Helper()
	stripped := *resp
	stripped.Topics = slices.Clone(resp.Topics)
	for i := range stripped.Topics {
		stripped.Topics[i].Partitions = slices.Clone(resp.Topics[i].Partitions)
	}
	var asked [][2]int
	wanted := 0
	s := new(flatSink)
	Append(s, &stripped, func(topic, partition int) wire.Region {
		asked = append(asked, [2]int{topic, partition})
		if !asRegion(topic, partition) {
			return nil
		}
		wanted++
		p := &stripped.Topics[topic].Partitions[partition]
		r := &memRegion{b: p.RecordBatches}
		p.RecordBatches = []byte("not to be encoded")
		return r
	})
	want := reference(resp)
	if !bytes.Equal(s.b, want) {
		t.Fatalf("version %d:\n got %x\nwant %x", resp.Version, s.b, want)
	}
	if s.regions != wanted {
		t.Errorf("%d regions in the sink, %d given", s.regions, wanted)
	}
	checkOrder(t, resp, asked)
}

func checkOrder(t testing.TB, resp *kmsg.FetchResponse, asked [][2]int) {
	t.Helper()
	var want [][2]int
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			want = append(want, [2]int{i, j})
		}
	}
	if !slices.Equal(asked, want) {
		t.Errorf("records asked for %v, want %v", asked, want)
	}
}

func all(int, int) bool  { return true }
func none(int, int) bool { return false }

// oddOnes mixes regions and inline records.
func oddOnes(topic, partition int) bool { return (topic+partition)%2 == 1 }

// example is a response with every field set in some partition and unset in another.
func example(version int16) *kmsg.FetchResponse {
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = version
	resp.ThrottleMillis, resp.ErrorCode, resp.SessionID = 17, 70, 99
	for i := range 3 {
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic, topic.TopicID = fmt.Sprintf("topic-%d", i), [16]byte{1, 2, byte(i)}
		for j := range 3 {
			topic.Partitions = append(topic.Partitions, examplePartition(i, j))
		}
		resp.Topics = append(resp.Topics, topic)
	}
	resp.Topics = append(resp.Topics, kmsg.NewFetchResponseTopic()) // without partitions
	rack := "r1"
	for i, r := range []*string{nil, &rack} {
		broker := kmsg.NewFetchResponseBroker()
		broker.NodeID, broker.Host, broker.Port, broker.Rack = int32(i), "broker.example", 9092, r
		broker.UnknownTags.Set(9, []byte("tag"))
		resp.Brokers = append(resp.Brokers, broker)
	}
	resp.UnknownTags.Set(5, []byte("five"))
	return resp
}

func examplePartition(i, j int) kmsg.FetchResponseTopicPartition {
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition, p.ErrorCode = int32(j), int16(6*j)
	p.HighWatermark, p.LastStableOffset, p.LogStartOffset = 1<<40, 1<<39, 12
	p.PreferredReadReplica = int32(j) - 1
	p.RecordBatches = bytes.Repeat([]byte{byte(i), byte(j)}, 40*i*j)
	switch j {
	case 1:
		p.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 5, FirstOffset: 6}}
		p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = 3, 1000
		p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = 2, 8
	case 2:
		p.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
		p.SnapshotID.EndOffset, p.SnapshotID.Epoch = 4, 5
		p.SnapshotID.UnknownTags.Set(0, nil)
		p.UnknownTags.Set(77, bytes.Repeat([]byte{1}, 200))
	}
	return p
}

func TestEveryVersionIsByteIdenticalToKmsg(t *testing.T) {
	for version := int16(MinVersion); version <= MaxVersion; version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			checkAgainstKmsg(t, example(version), all)
			checkAgainstKmsg(t, example(version), none)
			checkAgainstKmsg(t, example(version), oddOnes)
			checkAgainstKmsg(t, &kmsg.FetchResponse{Version: version}, all)
		})
	}
}

func TestNullRecordsBecomeEmpty(t *testing.T) {
	for _, version := range []int16{4, 12, 18} {
		resp := &kmsg.FetchResponse{Version: version, Topics: []kmsg.FetchResponseTopic{{
			Partitions: []kmsg.FetchResponseTopicPartition{kmsg.NewFetchResponseTopicPartition()},
		}}}
		s := new(flatSink)
		Append(s, resp, nil)
		decoded := kmsg.NewPtrFetchResponse()
		decoded.Version = version
		if err := decoded.ReadFrom(s.b); err != nil {
			t.Fatal(err)
		}
		if b := decoded.Topics[0].Partitions[0].RecordBatches; b == nil || len(b) != 0 {
			t.Errorf("version %d: records %v, want empty, not null", version, b)
		}
	}
}

func TestOneSegmentBeforeEachRegionAndOneBehindTheLast(t *testing.T) {
	s := new(flatSink)
	Append(s, example(18), func(int, int) wire.Region { return &memRegion{b: []byte("x")} })
	if s.regions != 9 || s.segments != 10 {
		t.Errorf("%d regions, %d segments", s.regions, s.segments)
	}
}

func TestRegionsAreHandedOnUnreleased(t *testing.T) {
	region := &memRegion{b: []byte("records")}
	Append(new(flatSink), example(18), func(topic, partition int) wire.Region {
		if topic == 1 && partition == 1 {
			return region
		}
		return nil
	})
	if region.released != 0 {
		t.Errorf("released %d times, the sink should do that", region.released)
	}
}

func TestRandomResponsesAreByteIdenticalToKmsg(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		resp := drawResponse(rt)
		mask := rapid.Uint64().Draw(rt, "regions")
		checkAgainstKmsg(t, resp, func(topic, partition int) bool { return mask>>((7*topic+partition)%64)&1 == 1 })
	})
}

func drawResponse(rt *rapid.T) *kmsg.FetchResponse {
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = rapid.Int16Range(MinVersion, MaxVersion).Draw(rt, "version")
	resp.ThrottleMillis = rapid.Int32().Draw(rt, "throttle")
	resp.ErrorCode = rapid.Int16().Draw(rt, "error")
	resp.SessionID = rapid.Int32().Draw(rt, "session")
	for range rapid.IntRange(0, 4).Draw(rt, "topics") {
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic = rapid.StringN(0, 40, 200).Draw(rt, "topic")
		copy(topic.TopicID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "id"))
		topic.UnknownTags = drawTags(rt)
		for range rapid.IntRange(0, 5).Draw(rt, "partitions") {
			topic.Partitions = append(topic.Partitions, drawPartition(rt))
		}
		resp.Topics = append(resp.Topics, topic)
	}
	for range rapid.IntRange(0, 3).Draw(rt, "brokers") {
		broker := kmsg.NewFetchResponseBroker()
		broker.NodeID = rapid.Int32().Draw(rt, "node")
		broker.Host = rapid.StringN(0, 300, -1).Draw(rt, "host")
		broker.Rack = rapid.Ptr(rapid.StringN(0, 20, -1), true).Draw(rt, "rack")
		broker.UnknownTags = drawTags(rt)
		resp.Brokers = append(resp.Brokers, broker)
	}
	resp.UnknownTags = drawTags(rt)
	return resp
}

func drawPartition(rt *rapid.T) kmsg.FetchResponseTopicPartition {
	p := kmsg.NewFetchResponseTopicPartition()
	i32, i64 := rapid.Int32Range(-1, 9), rapid.Int64Range(-1, 9)
	p.Partition = i32.Draw(rt, "partition")
	p.ErrorCode = rapid.Int16().Draw(rt, "error")
	p.HighWatermark, p.LastStableOffset, p.LogStartOffset = i64.Draw(rt, "hw"), i64.Draw(rt, "lso"), i64.Draw(rt, "start")
	p.PreferredReadReplica = i32.Draw(rt, "preferred")
	p.RecordBatches = rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(rt, "records")
	if rapid.Bool().Draw(rt, "aborted not null") {
		p.AbortedTransactions = make([]kmsg.FetchResponseTopicPartitionAbortedTransaction, rapid.IntRange(0, 3).Draw(rt, "aborted"))
		for i := range p.AbortedTransactions {
			p.AbortedTransactions[i].ProducerID = i64.Draw(rt, "producer")
			p.AbortedTransactions[i].UnknownTags = drawTags(rt)
		}
	}
	p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = i32.Draw(rt, "epoch"), i64.Draw(rt, "end")
	p.DivergingEpoch.UnknownTags = drawTags(rt)
	p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = i32.Draw(rt, "leader"), i32.Draw(rt, "epoch")
	p.CurrentLeader.UnknownTags = drawTags(rt)
	p.SnapshotID.EndOffset, p.SnapshotID.Epoch = i64.Draw(rt, "snapshot"), i32.Draw(rt, "epoch")
	p.SnapshotID.UnknownTags = drawTags(rt)
	p.UnknownTags = drawTags(rt)
	return p
}

func drawTags(rt *rapid.T) kmsg.Tags {
	var tags kmsg.Tags
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(rt, "tags") {
		tags.Set(rapid.Uint32().Draw(rt, "tag"), rapid.SliceOfN(rapid.Byte(), 0, 150).Draw(rt, "value"))
	}
	return tags
}

// FuzzAgainstKmsg takes any response that kmsg can read.
func FuzzAgainstKmsg(f *testing.F) {
	for version := int16(MinVersion); version <= MaxVersion; version++ {
		f.Add(version, uint64(0x5555), reference(example(version)))
	}
	f.Fuzz(func(t *testing.T, version int16, regions uint64, data []byte) {
		if version < MinVersion || version > MaxVersion {
			return
		}
		resp := kmsg.NewPtrFetchResponse()
		resp.Version = version
		if resp.ReadFrom(data) != nil {
			return
		}
		checkAgainstKmsg(t, resp, func(topic, partition int) bool { return regions>>((topic+partition)%64)&1 == 1 })
	})
}
