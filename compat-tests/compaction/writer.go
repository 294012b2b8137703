package compaction

import (
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/compat-tests/harness"
	"github.com/klamm-mq/klamm/conform"
)

const (
	// writtenFor is the span of time from which records can be, in milliseconds: it ends
	// before the present.
	writtenFor = 3_000_000
	// segmentMs makes a segment that is older than a second end with the next record;
	// what decides is the records' own times.
	segmentMs = 1000
	rollMs    = 2 * segmentMs
)

// Writer writes a partition and, if it is a topic's only one, has it compacted.
type Writer struct {
	*Client
	topic     string
	partition int32
	dir       string // the log directory of the broker
	clock     clock
	untimed   bool

	at     int64 // time of the next record, from the beginning
	end    int64 // offset of the next record
	filled int   // records that only end a segment
	next   map[int64]int32
	rounds []round
}

// KV is a record of the topic. Null values are tombstones.
func KV(key, value string, headers ...string) conform.Record {
	r := conform.Record{Key: []byte(key), Value: []byte(value)}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Headers = append(r.Headers, kmsg.Header{Key: headers[i], Value: []byte(headers[i+1])})
	}
	return r
}

// Tombstone deletes a key.
func Tombstone(key string) conform.Record { return conform.Record{Key: []byte(key)} }

// Append writes one batch, whose records get times one after the other.
func (w *Writer) Append(codec kgo.CompressionCodecType, records ...conform.Record) {
	w.t.Helper()
	w.append(conform.Batch{Codec: codec, Records: records})
}

// As writes one batch of an idempotent producer.
func (w *Writer) As(producer int64, codec kgo.CompressionCodecType, records ...conform.Record) []byte {
	w.t.Helper()
	b := conform.Batch{Codec: codec, Records: records, Idempotent: true, ProducerID: producer, FirstSequence: w.next[producer]}
	w.next[producer] += int32(len(records))
	return w.append(b)
}

func (w *Writer) append(b conform.Batch) []byte {
	w.t.Helper()
	for i := range b.Records {
		b.Records[i].Time = w.clock.begin + w.at
		w.at++
	}
	return w.appendTimed(b)
}

// appendTimed is append with the times as they are.
func (w *Writer) appendTimed(b conform.Batch) []byte {
	w.t.Helper()
	raw := b.Bytes()
	code, base := w.Produce(w.topic, w.partition, raw)
	if code != 0 || base != w.end {
		w.t.Fatalf("produce to %s: code %d at %d, want %d", w.topic, code, base, w.end)
	}
	w.end += int64(len(b.Records))
	return raw
}

// Answer is what the broker says to a batch that is not to be appended, or was before.
func (w *Writer) Answer(raw []byte) {
	w.t.Helper()
	code, base := w.Produce(w.topic, 0, raw)
	w.rounds = append(w.rounds, round{{text: fmt.Sprintf("answer: code %d, base offset %d\n", code, base)}})
}

// Roll lets the next record begin a segment.
func (w *Writer) Roll() { w.at += rollMs }

// End is the offset of the next record.
func (w *Writer) End() int64 { return w.end }

// Delete deletes the records below an offset.
func (w *Writer) Delete(before int64) {
	w.t.Helper()
	if code := w.deleteRecords(w.topic, before); code != 0 {
		w.t.Fatalf("delete records of %s below %d: code %d", w.topic, before, code)
	}
}

// Compact has everything so far compacted, behind which a record of its own begins the
// active segment, and notes what is left.
func (w *Writer) Compact() {
	w.t.Helper()
	w.Roll()
	active := w.end
	w.filled++
	w.Append(0, KV(fmt.Sprintf("filler-%d", w.filled), "the active segment"))
	w.CompactTo(active)
}

// CompactTo expects the cleaner to come to an offset.
func (w *Writer) CompactTo(clean int64) {
	w.t.Helper()
	w.Set(w.topic, "cleanup.policy", "compact")
	w.AwaitClean(w.dir, w.topic, 0, clean)
	w.Set(w.topic, "cleanup.policy", "delete")
	w.Note()
}

// AwaitClean waits until the cleaner has come to an offset of a partition, which it notes
// in the log directory.
func (c *Client) AwaitClean(dir, topic string, partition int32, want int64) {
	c.t.Helper()
	c.until(fmt.Sprintf("%s-%d is clean up to %d", topic, partition, want), func() error {
		got, err := harness.CleanUpTo(dir, topic, int(partition))
		if err == nil && got != want {
			err = fmt.Errorf("it is clean up to %d", got)
		}
		return err
	})
}

// Configs are the settings of a topic that is written and then compacted.
func Configs() []string {
	return []string{
		"cleanup.policy", "delete", "retention.ms", "-1", "segment.ms", strconv.Itoa(segmentMs), "segment.bytes", "1048576",
		"min.cleanable.dirty.ratio", "0", "delete.retention.ms", "3600000", "index.interval.bytes", "512",
	}
}

// On writes an empty partition; the first record has the time begin.
func On(c *Client, topic string, partition int32, begin time.Time) *Writer {
	return &Writer{Client: c, topic: topic, partition: partition, clock: clock{begin: begin.UnixMilli()}, next: map[int64]int32{}}
}

// Play writes a history to a topic of its name; dir is the log directory of the broker.
func Play(c *Client, dir string, h History, begin time.Time) *Writer {
	c.t.Helper()
	c.Create(h.Name, 1, append(Configs(), h.Configs...)...)
	w := On(c, h.Name, 0, begin)
	w.dir, w.untimed, w.clock.anyEpoch = dir, h.Untimed, h.AnyEpoch
	h.Write(w)
	return w
}

// Move goes on where the files of the topic are now, and forgets what was found before.
func (w *Writer) Move(c *Client, dir string) { w.Client, w.dir, w.rounds = c, dir, nil }
