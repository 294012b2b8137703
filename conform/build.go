package conform

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Versions are the versions of key in Apache Kafka 4.4, ascending.
func Versions(key int16) []int16 {
	api, _ := Lookup(key)
	var all []int16
	for v := api.Min; v <= api.Max; v++ {
		all = append(all, v)
	}
	return all
}

// CreateTopic makes a topic and waits until all of its partitions have a leader that
// answers. Configs are names and values in turn. It is deleted when the run ends.
func (r *R) CreateTopic(name string, partitions int32, configs ...string) {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 20_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = r.Name(name), partitions, 1
	for i := 0; i+1 < len(configs); i += 2 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = configs[i], &configs[i+1]
		topic.Configs = append(topic.Configs, c)
	}
	req.Topics = append(req.Topics, topic)
	made := r.Quiet(req).(*kmsg.CreateTopicsResponse).Topics[0]
	if made.ErrorCode != 0 {
		r.Fail("create topic %s: error %d", name, made.ErrorCode)
	}
	r.Owns(name)
	r.learnID(name, made.TopicID)
	r.AwaitTopic(name, partitions)
}

// Owns notes that a topic of the run's may exist, to be deleted at the end.
func (r *R) Owns(name string) { r.created = append(r.created, r.Name(name)) }

// AwaitTopic waits until the topic's partitions answer ListOffsets.
func (r *R) AwaitTopic(name string, partitions int32) {
	list := func() kmsg.Request {
		req := kmsg.NewPtrListOffsetsRequest()
		req.Version, req.ReplicaID = 7, -1
		topic := kmsg.NewListOffsetsRequestTopic()
		topic.Topic = r.Name(name)
		for p := range partitions {
			part := kmsg.NewListOffsetsRequestTopicPartition()
			part.Partition, part.Timestamp = p, -1
			topic.Partitions = append(topic.Partitions, part)
		}
		req.Topics = append(req.Topics, topic)
		return req
	}
	r.Until("leaders of "+name, list, func(resp kmsg.Response) bool {
		for _, topic := range resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range topic.Partitions {
				if p.ErrorCode != 0 {
					return false
				}
			}
		}
		return true
	})
}

// LearnTopic looks the id of a topic up that was not made by CreateTopic.
func (r *R) LearnTopic(name string) {
	req := metadataOf([]string{r.Name(name)})
	req.Version = 12
	for _, topic := range r.Quiet(req).(*kmsg.MetadataResponse).Topics {
		r.learnID(name, topic.TopicID)
	}
}

// DeleteTopic deletes a topic and waits until it is gone.
func (r *R) DeleteTopic(name string) {
	r.deleteTopics([]string{r.Name(name)})
	real := []string{r.Name(name)}
	gone := func() kmsg.Request { m := metadataOf(real); m.AllowAutoTopicCreation = false; return m }
	r.Until(name+" gone", gone, func(resp kmsg.Response) bool {
		return resp.(*kmsg.MetadataResponse).Topics[0].ErrorCode == 3
	})
}

func (r *R) deleteTopics(names []string) {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis, req.TopicNames = 5, 20_000, names
	r.Quiet(req)
}

// Record is a record to produce.
type Record struct {
	Time    int64 // Unix milliseconds
	Key     []byte
	Value   []byte
	Headers []kmsg.Header
}

// Batch is a record batch to produce. The zero value of its other fields is what a
// producer without idempotence sends.
type Batch struct {
	Records    []Record
	Attributes int16 // timestamp type and so on; the codec is added
	Codec      kgo.CompressionCodecType

	Idempotent    bool // else producer id, epoch and sequence are -1
	ProducerID    int64
	ProducerEpoch int16
	FirstSequence int32

	// Edit, if set, changes the fields before the checksum is computed; the length is
	// that of the batch. EditBytes changes the encoded batch after that.
	Edit      func(b *kmsg.RecordBatch)
	EditBytes func(b []byte) []byte
}

// Bytes encodes the batch.
func (b Batch) Bytes() []byte {
	out := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, Attributes: b.Attributes | int16(b.Codec),
		LastOffsetDelta: int32(len(b.Records) - 1), MaxTimestamp: -1, NumRecords: int32(len(b.Records)),
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
	}
	if b.Idempotent {
		out.ProducerID, out.ProducerEpoch, out.FirstSequence = b.ProducerID, b.ProducerEpoch, b.FirstSequence
	}
	for i, rec := range b.Records {
		if i == 0 {
			out.FirstTimestamp = rec.Time
		}
		out.MaxTimestamp = max(out.MaxTimestamp, rec.Time)
		out.Records = appendRecord(out.Records, rec, rec.Time-out.FirstTimestamp, int32(i))
	}
	if b.Codec != 0 {
		out.Records = compress(out.Records, b.Codec)
	}
	out.Length = int32(batchOverhead - 12 + len(out.Records))
	if b.Edit != nil {
		b.Edit(&out)
	}
	raw := Sum(out.AppendTo(nil))
	if b.EditBytes != nil {
		raw = b.EditBytes(raw)
	}
	return raw
}

// Sum puts the right checksum into an encoded batch and returns it.
func Sum(b []byte) []byte {
	if len(b) >= 21 {
		binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
	}
	return b
}

func appendRecord(dst []byte, rec Record, timeDelta int64, offsetDelta int32) []byte {
	r := kmsg.Record{TimestampDelta64: timeDelta, OffsetDelta: offsetDelta, Key: rec.Key, Value: rec.Value, Headers: rec.Headers}
	body := r.AppendTo(nil)[1:] // behind a length of 0, which is one byte
	dst = binary.AppendVarint(dst, int64(len(body)))
	return append(dst, body...)
}

func compress(raw []byte, codec kgo.CompressionCodecType) []byte {
	codecs := map[kgo.CompressionCodecType]kgo.CompressionCodec{
		1: kgo.GzipCompression(), 2: kgo.SnappyCompression(), 3: kgo.Lz4Compression(), 4: kgo.ZstdCompression(),
	}
	c, err := kgo.DefaultCompressor(codecs[codec])
	if err != nil {
		panic(err)
	}
	out, _ := c.Compress(new(bytes.Buffer), raw)
	return bytes.Clone(out)
}

// Values are records at T(0), T(1), … with key "k" and these values.
func (r *R) Values(values ...string) []Record {
	var recs []Record
	for i, v := range values {
		recs = append(recs, Record{Time: r.T(int64(i)), Key: []byte("k"), Value: []byte(v)})
	}
	return recs
}

// ProduceTo is a Produce of one batch's bytes to one partition, acks=all, by name or, in
// version 13, by id.
func (r *R) ProduceTo(version int16, topic string, partition int32, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, -1, 5_000
	t := kmsg.NewProduceRequestTopic()
	if version >= 13 {
		t.TopicID = r.TopicID(topic)
	} else {
		t.Topic = r.Name(topic)
	}
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, records
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// Produce writes values to a partition, without a step.
func (r *R) Produce(topic string, partition int32, values ...string) {
	resp := r.Quiet(r.ProduceTo(9, topic, partition, Batch{Records: r.Values(values...)}.Bytes())).(*kmsg.ProduceResponse)
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		r.Fail("produce to %s/%d: error %d", topic, partition, code)
	}
}

// FetchFrom is a Fetch of one partition outside of a session, by name or, from version 13
// on, by id. It waits up to 500 ms for one byte, and takes 1 MiB.
func (r *R) FetchFrom(version int16, topic string, partition int32, offset int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = version, 500, 1, 1<<20
	req.ReplicaID, req.SessionEpoch = -1, -1
	t := kmsg.NewFetchRequestTopic()
	if version >= 13 {
		t.TopicID = r.TopicID(topic)
	} else {
		t.Topic = r.Name(topic)
	}
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, 1<<20
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}
