package compaction

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Batch is one that was read.
type Batch struct {
	kmsg.RecordBatch
	Last    int64 // its last offset
	Kept    []kmsg.Record
	deleted int64 // the delete horizon, where it has one (KIP-534)
}

// Bits of a batch's attributes.
const (
	codecBits   = 0x7
	appendTime  = 0x8
	horizonBit  = 0x40
	headerBytes = 61
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Stored is every batch that a broker has in the segments of a partition, those below the
// log start included.
func Stored(dir, topic string, partition int32) (all []Batch, err error) {
	bases, err := bases(dir, topic, partition)
	if err != nil {
		return nil, err
	}
	for _, base := range bases {
		content, err := os.ReadFile(filepath.Join(folder(dir, topic, partition), fmt.Sprintf("%020d.log", base)))
		if err != nil {
			return nil, err
		}
		batches, err := decode(content)
		if err != nil {
			return nil, fmt.Errorf("segment %d: %w", base, err)
		}
		all = append(all, batches...)
	}
	return all, nil
}

func folder(dir, topic string, partition int32) string {
	return filepath.Join(dir, fmt.Sprintf("%s-%d", topic, partition))
}

// bases are those of the segments that are there.
func bases(dir, topic string, partition int32) (all []int64, err error) {
	files, err := filepath.Glob(filepath.Join(folder(dir, topic, partition), "*.log"))
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		base, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(f), ".log"), 10, 64)
		if err != nil {
			return nil, err
		}
		all = append(all, base)
	}
	slices.Sort(all)
	return all, nil
}

// decode gives the whole batches; what is left of one that was cut, or zeros, is left out.
func decode(raw []byte) (all []Batch, err error) {
	for len(raw) >= headerBytes {
		size := int(int32(binary.BigEndian.Uint32(raw[8:]))) + 12
		if size > len(raw) || size < headerBytes {
			break
		}
		b, err := decodeOne(raw[:size])
		if err != nil {
			return all, fmt.Errorf("batch at %d: %w", b.FirstOffset, err)
		}
		all = append(all, b)
		raw = raw[size:]
	}
	return all, nil
}

func decodeOne(raw []byte) (Batch, error) {
	var b Batch
	if err := b.ReadFrom(raw); err != nil {
		return b, err
	}
	b.Last = b.FirstOffset + int64(b.LastOffsetDelta)
	if sum := crc32.Checksum(raw[21:], castagnoli); sum != uint32(b.CRC) {
		return b, fmt.Errorf("its checksum is %x and should be %x", b.CRC, sum)
	}
	if b.Attributes&horizonBit != 0 {
		b.deleted = b.FirstTimestamp
	}
	if b.NumRecords == 0 {
		return b, nil
	}
	body := b.Records
	if codec := b.Attributes & codecBits; codec != 0 {
		var err error
		if body, err = kgo.DefaultDecompressor().Decompress(body, kgo.CompressionCodecType(codec)); err != nil {
			return b, err
		}
	}
	for range b.NumRecords {
		length, n := binary.Varint(body)
		end := n + int(length)
		if n <= 0 || length < 0 || end > len(body) {
			return b, fmt.Errorf("record %d of %d is cut", len(b.Kept), b.NumRecords)
		}
		var r kmsg.Record
		if err := r.ReadFrom(body[:end]); err != nil {
			return b, fmt.Errorf("record %d: %w", len(b.Kept), err)
		}
		b.Kept = append(b.Kept, r)
		body = body[end:]
	}
	if len(body) > 0 {
		return b, fmt.Errorf("%d bytes are left behind its records", len(body))
	}
	return b, nil
}

// clock turns times into what can be compared: those that were written are relative to
// the first one, those of the broker's clock are only there.
type clock struct {
	begin    int64
	anyEpoch bool // leader epochs are not compared
}

func (c clock) epoch(e int32) string {
	if c.anyEpoch {
		return "any"
	}
	return fmt.Sprint(e)
}

func (c clock) text(ms int64) string {
	switch d := ms - c.begin; {
	case ms < 0:
		return fmt.Sprint(ms)
	case d > writtenFor:
		return "now"
	default:
		return fmt.Sprintf("%+d", d)
	}
}

// lines are a batch and its records, as they are compared.
func (b Batch) lines(c clock) string {
	var out strings.Builder
	first := c.text(b.FirstTimestamp)
	if b.deleted != 0 {
		first = "horizon"
	}
	fmt.Fprintf(&out, "%d-%d: %d records, epoch %s, attributes %#x, times %s to %s, producer %d epoch %d sequence %d\n",
		b.FirstOffset, b.Last, b.NumRecords, c.epoch(b.PartitionLeaderEpoch), b.Attributes, first, c.text(b.MaxTimestamp), b.ProducerID, b.ProducerEpoch, b.FirstSequence)
	for _, r := range b.Kept {
		at := b.FirstTimestamp + r.TimestampDelta64
		if b.Attributes&appendTime != 0 {
			at = b.MaxTimestamp
		}
		fmt.Fprintf(&out, "  %d at %s: %s = %s", b.FirstOffset+int64(r.OffsetDelta), c.text(at), show(r.Key), show(r.Value))
		for _, h := range r.Headers {
			fmt.Fprintf(&out, ", %s: %s", h.Key, show(h.Value))
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// show is bytes as they are compared: long ones by their length and sum.
func show(b []byte) string {
	const long = 40
	switch {
	case b == nil:
		return "null"
	case len(b) > long:
		return fmt.Sprintf("%d bytes of sum %08x", len(b), crc32.Checksum(b, castagnoli))
	default:
		return fmt.Sprintf("%q", b)
	}
}
