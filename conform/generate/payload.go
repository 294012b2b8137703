package generate

import (
	"bytes"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

// payload is the records field of one partition.
type payload struct {
	text     string
	count    int // of records
	bytes    func(p *player, at place) []byte
	accepted func(p *player, at place) // may be nil
}

func drawPayload(d dice) payload {
	switch {
	case d.in(55):
		return drawPlain(d)
	case d.in(70):
		return drawIdempotent(d)
	}
	return drawDamaged(d)
}

// records draws so many records, as functions of the run's clock.
func (d dice) records(count int) (records func(p *player) []conform.Record, text string) {
	type drawn struct {
		delta      int64
		key, value []byte
		headers    []kmsg.Header
	}
	var all []drawn
	bytesIn := 0
	for i := range count {
		rec := drawn{delta: int64(i), value: bytes.Repeat([]byte{byte('a' + d.IntN(26))}, pick(d, 0, 1, 10, 100, 100, 700, 3000))}
		switch {
		case d.in(20):
			rec.value = nil
		case d.in(2): // some of these fill a small segment
			rec.value = bytes.Repeat([]byte{'z'}, 250_000)
		}
		if d.in(60) {
			rec.key = fmt.Appendf(nil, "key %d", d.IntN(5))
		}
		if d.in(15) {
			rec.headers = []kmsg.Header{{Key: "h", Value: []byte("v")}, {Key: "", Value: nil}}
		}
		if d.in(15) {
			rec.delta = pick(d, int64(-60_000), 0, 60_000)
		}
		bytesIn += len(rec.value)
		all = append(all, rec)
	}
	absolute := int64(math.MinInt64)
	if d.in(6) {
		absolute = pick(d, int64(0), 1, -1, -2, math.MaxInt64-1)
	}
	text = fmt.Sprintf("%d records of %d bytes", count, bytesIn)
	if absolute != math.MinInt64 {
		text += fmt.Sprintf(" at %d", absolute)
	}
	return func(p *player) (out []conform.Record) {
		for _, rec := range all {
			at := p.r.T(rec.delta)
			if absolute != math.MinInt64 {
				at = absolute
			}
			out = append(out, conform.Record{Time: at, Key: rec.key, Value: rec.value, Headers: rec.headers})
		}
		return out
	}, text
}

func (d dice) codec() kgo.CompressionCodecType {
	if d.in(50) {
		return 0
	}
	return kgo.CompressionCodecType(1 + d.IntN(4))
}

func drawPlain(d dice) payload {
	count := 1 + d.IntN(5)
	records, text := d.records(count)
	codec := d.codec()
	return payload{
		text: fmt.Sprintf("%s, codec %d", text, codec), count: count,
		bytes: func(p *player, _ place) []byte {
			return conform.Batch{Records: records(p), Codec: codec}.Bytes()
		},
	}
}

// drawIdempotent is a batch of a producer that goes on, retries, or goes wrong.
func drawIdempotent(d dice) payload {
	who := d.IntN(producers)
	how := pick(d, "next", "next", "next", "next", "next", "again", "again", "gap", "back", "high",
		"epoch up", "epoch up, gap", "epoch down", "stranger")
	count := 1 + d.IntN(3)
	records, text := d.records(count)
	codec := d.codec()
	var used sent
	pl := payload{text: fmt.Sprintf("producer %d %s, %s, codec %d", who, how, text, codec), count: count}
	pl.bytes = func(p *player, at place) []byte {
		from := p.producers[who]
		b := conform.Batch{
			Records: records(p), Codec: codec,
			Idempotent: true, ProducerID: from.id, ProducerEpoch: from.epoch, FirstSequence: from.next[at],
		}
		from.bend(&b, at, how)
		used = sent{b.FirstSequence, len(b.Records)}
		return b.Bytes()
	}
	pl.accepted = func(p *player, at place) { p.producers[who].goOn(at, how, used) }
	return pl
}

// bend makes of the producer's next batch the one that is asked for.
func (from *producer) bend(b *conform.Batch, at place, how string) {
	switch how {
	case "again":
		last := from.last[at]
		b.FirstSequence = last.sequence
		for len(b.Records) > last.count && last.count > 0 {
			b.Records = b.Records[:len(b.Records)-1]
		}
		for len(b.Records) < last.count {
			b.Records = append(b.Records, b.Records[0])
		}
	case "gap":
		b.FirstSequence += 5
	case "back":
		b.FirstSequence = max(0, b.FirstSequence-1)
	case "high":
		b.FirstSequence = math.MaxInt32 - 1
	case "epoch up":
		b.ProducerEpoch++
		b.FirstSequence = 0
	case "epoch up, gap":
		b.ProducerEpoch++
		b.FirstSequence = 5
	case "epoch down":
		b.ProducerEpoch = max(0, b.ProducerEpoch-1)
	case "stranger":
		b.ProducerID = 1<<50 + b.ProducerID
	}
}

// goOn counts a batch that was acknowledged.
func (from *producer) goOn(at place, how string, used sent) {
	switch how {
	case "again", "back", "stranger", "epoch down":
		return
	case "epoch up", "epoch up, gap":
		from.epoch++
		clear(from.next)
		clear(from.last)
	}
	from.last[at] = used
	from.next[at] = int32((int64(used.sequence) + int64(used.count)) & math.MaxInt32)
}

// damages are ways in which a batch can be wrong, or merely strange.
var damages = map[string]func(b *conform.Batch){
	"a bad checksum": func(b *conform.Batch) {
		b.EditBytes = func(raw []byte) []byte { raw[17] ^= 1; return raw }
	},
	"a flipped bit":     func(b *conform.Batch) { b.EditBytes = func(raw []byte) []byte { raw[len(raw)-1] ^= 1; return raw } },
	"magic 0":           edit(func(b *kmsg.RecordBatch) { b.Magic = 0 }),
	"magic 1":           edit(func(b *kmsg.RecordBatch) { b.Magic = 1 }),
	"magic 3":           edit(func(b *kmsg.RecordBatch) { b.Magic = 3 }),
	"a delta too small": edit(func(b *kmsg.RecordBatch) { b.LastOffsetDelta-- }),
	"a delta too large": edit(func(b *kmsg.RecordBatch) { b.LastOffsetDelta++ }),
	"a count too small": edit(func(b *kmsg.RecordBatch) { b.NumRecords-- }),
	"a count too large": edit(func(b *kmsg.RecordBatch) { b.NumRecords++ }),
	"a negative count":  edit(func(b *kmsg.RecordBatch) { b.NumRecords = -1 }),
	"base offset 7":     edit(func(b *kmsg.RecordBatch) { b.FirstOffset = 7 }),
	"base offset -7":    edit(func(b *kmsg.RecordBatch) { b.FirstOffset = -7 }),
	"a leader epoch":    edit(func(b *kmsg.RecordBatch) { b.PartitionLeaderEpoch = 3 }),
	"the control bit":   edit(func(b *kmsg.RecordBatch) { b.Attributes |= 1 << 5 }),
	"a reserved codec":  edit(func(b *kmsg.RecordBatch) { b.Attributes |= 5 }),
	"reserved bits":     edit(func(b *kmsg.RecordBatch) { b.Attributes |= 1 << 9 }),
	"append time":       edit(func(b *kmsg.RecordBatch) { b.Attributes |= 1 << 3 }),
	"a small maximum":   edit(func(b *kmsg.RecordBatch) { b.MaxTimestamp -= 100 }),
	"no maximum":        edit(func(b *kmsg.RecordBatch) { b.MaxTimestamp = -1 }),
	"an id alone":       edit(func(b *kmsg.RecordBatch) { b.ProducerID = 1 << 40 }),
	"an epoch alone":    edit(func(b *kmsg.RecordBatch) { b.ProducerEpoch = 0 }),
	"a sequence alone":  edit(func(b *kmsg.RecordBatch) { b.FirstSequence = 0 }),
	"two batches":       func(b *conform.Batch) { b.EditBytes = func(raw []byte) []byte { return append(raw, raw...) } },
	"a cut":             func(b *conform.Batch) { b.EditBytes = func(raw []byte) []byte { return raw[:len(raw)-1] } },
	"a byte more":       func(b *conform.Batch) { b.EditBytes = func(raw []byte) []byte { return append(raw, 0) } },
	"no bytes":          func(b *conform.Batch) { b.EditBytes = func([]byte) []byte { return []byte{} } },
	"no records":        func(b *conform.Batch) { b.Records = nil },
}

func edit(how func(b *kmsg.RecordBatch)) func(b *conform.Batch) {
	return func(b *conform.Batch) { b.Edit = how }
}

func drawDamaged(d dice) payload {
	what := pick(d, sortedKeys(damages)...)
	count := 1 + d.IntN(3)
	records, text := d.records(count)
	return payload{
		text: fmt.Sprintf("%s with %s", text, what), count: count,
		bytes: func(p *player, _ place) []byte {
			b := conform.Batch{Records: records(p)}
			damages[what](&b)
			return b.Bytes()
		},
	}
}
