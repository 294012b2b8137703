package conform

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"reflect"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// batchOverhead is the length of a batch before its records, in bytes.
const batchOverhead = 61

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// recordBatches renders the records of a Fetch answer: a line for each batch and one for
// each record in it. What is left of a batch that was cut is one more field.
func (r *renderer) recordBatches(path, name string, f reflect.Value) []Field {
	if f.Kind() != reflect.Slice || f.Type().Elem().Kind() != reflect.Uint8 {
		return []Field{{name, r.plain(name, f)}}
	}
	b := f.Bytes()
	if b == nil {
		return []Field{{name, "null"}}
	}
	n := 0
	for ; len(b) >= batchOverhead; n++ {
		size := int(int32(binary.BigEndian.Uint32(b[8:]))) + 12
		if size < batchOverhead || size > len(b) {
			break
		}
		r.batch(fmt.Sprintf("%s[%d]", path, n), b[:size])
		b = b[size:]
	}
	fields := []Field{{name, "#" + strconv.Itoa(n)}}
	if len(b) > 0 {
		fields = append(fields, Field{"cut", "yes"})
	}
	return fields
}

func (r *renderer) batch(path string, raw []byte) {
	var b kmsg.RecordBatch
	if err := b.ReadFrom(raw); err != nil {
		r.lines = append(r.lines, Line{path, []Field{{"undecodable", "batch"}}})
		return
	}
	crc := "ok"
	if crc32.Checksum(raw[21:], castagnoli) != uint32(b.CRC) {
		crc = "bad"
	}
	r.lines = append(r.lines, Line{path, []Field{
		{"FirstOffset", strconv.FormatInt(b.FirstOffset, 10)},
		{"PartitionLeaderEpoch", strconv.Itoa(int(b.PartitionLeaderEpoch))},
		{"Magic", strconv.Itoa(int(b.Magic))},
		{"CRC", crc},
		{"Attributes", fmt.Sprintf("%#x", uint16(b.Attributes))},
		{"LastOffsetDelta", strconv.Itoa(int(b.LastOffsetDelta))},
		{"FirstTimestamp", r.integer(b.FirstTimestamp)},
		{"MaxTimestamp", r.integer(b.MaxTimestamp)},
		{"ProducerID", r.producer(b.ProducerID)},
		{"ProducerEpoch", strconv.Itoa(int(b.ProducerEpoch))},
		{"FirstSequence", strconv.Itoa(int(b.FirstSequence))},
		{"NumRecords", strconv.Itoa(int(b.NumRecords))},
	}})
	r.records(path, &b)
}

func (r *renderer) producer(id int64) string {
	if id < 0 {
		return strconv.FormatInt(id, 10)
	}
	return r.numbered("producer", strconv.FormatInt(id, 10))
}

func (r *renderer) records(path string, b *kmsg.RecordBatch) {
	raw := b.Records
	if codec := b.Attributes & 7; codec != 0 {
		var err error
		if raw, err = kgo.DefaultDecompressor().Decompress(raw, kgo.CompressionCodecType(codec)); err != nil {
			r.lines = append(r.lines, Line{path + ".Records", []Field{{"undecodable", "compression"}}})
			return
		}
	}
	for i := range int(b.NumRecords) {
		length, n := binary.Varint(raw)
		end := n + int(length)
		if n <= 0 || length < 0 || end > len(raw) {
			r.lines = append(r.lines, Line{fmt.Sprintf("%s.Records[%d]", path, i), []Field{{"undecodable", "record"}}})
			return
		}
		r.record(fmt.Sprintf("%s.Records[%d]", path, i), raw[:end])
		raw = raw[end:]
	}
	if len(raw) > 0 {
		r.lines = append(r.lines, Line{path + ".Records", []Field{{"left", strconv.Itoa(len(raw))}}})
	}
}

func (r *renderer) record(path string, raw []byte) {
	var rec kmsg.Record
	if err := rec.ReadFrom(raw); err != nil {
		r.lines = append(r.lines, Line{path, []Field{{"undecodable", "record"}}})
		return
	}
	fields := []Field{
		{"Attributes", strconv.Itoa(int(rec.Attributes))},
		{"TimestampDelta", strconv.FormatInt(rec.TimestampDelta64, 10)},
		{"OffsetDelta", strconv.Itoa(int(rec.OffsetDelta))},
		{"Key", r.bytes(rec.Key)},
		{"Value", r.bytes(rec.Value)},
	}
	for _, h := range rec.Headers {
		fields = append(fields, Field{"Header", r.text(h.Key)}, Field{"HeaderValue", r.bytes(h.Value)})
	}
	r.lines = append(r.lines, Line{path, fields})
}
