package compaction

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/conform"
)

// History is what is written to a topic, and when it is compacted.
type History struct {
	Name    string
	Configs []string // keys and values in turn
	Write   func(*Writer)
	// Untimed leaves times of records out of what is looked up: where nothing is left of a
	// whole segment, Kafka takes the time of its file for that of its records, and finds
	// nothing (docs/divergence.md, emptied-segments).
	Untimed bool
	// AnyEpoch leaves leader epochs out: they count restarts.
	AnyEpoch bool
}

// Codecs are all of them: none, gzip, snappy, lz4, zstd.
var Codecs = []kgo.CompressionCodecType{0, 1, 2, 3, 4}

// Histories have a name; each shows one rule.
func Histories() []History {
	all := []History{
		{Name: "tombstones-stay", Write: tombstones},
		{Name: "tombstones-go", Write: tombstones, Configs: []string{"delete.retention.ms", "0"}},
		{Name: "headers", Write: headers},
		{Name: "producers", Write: producers},
		{Name: "keys", Write: keys},
		{Name: "append-time", Write: appendTimes, Configs: []string{"message.timestamp.type", "LogAppendTime", "segment.ms", "604800000"}},
		{Name: "large", Write: large},
		{Name: "whole-segments-go", Write: wholeSegments, Untimed: true},
		{Name: "rounds", Write: rounds},
		{Name: "times", Write: times},
		{Name: "deleted-records", Write: deletedRecords},
		{Name: "min-lag", Write: minLag, Configs: []string{"min.compaction.lag.ms", "3300000"}},
		{Name: "max-lag", Write: rounds, Configs: []string{"max.compaction.lag.ms", "1", "min.cleanable.dirty.ratio", "1"}},
	}
	for _, codec := range Codecs {
		all = append(all, History{Name: fmt.Sprintf("codec-%d", codec), Write: func(w *Writer) { overwrite(w, codec) }})
	}
	return all
}

// overwrite has batches of one and of many: of some all records go, of some a few, of some
// none.
func overwrite(w *Writer, codec kgo.CompressionCodecType) {
	for i := range 40 {
		records := []conform.Record{KV(fmt.Sprint("key-", i%7), strings.Repeat(fmt.Sprint(i, " "), 20))}
		for j := range i % 5 {
			records = append(records, KV(fmt.Sprint("key-", (i*j)%31), fmt.Sprint(i, "/", j), "n", fmt.Sprint(i)))
		}
		w.Append(codec, records...)
		if i%10 == 9 {
			w.Roll()
		}
	}
	w.Compact()
}

// tombstones of keys that have a value, had one, and never had, alone in their batch and
// among others; a key that is deleted and written again. What the first pass marks the
// second removes, if its time has come.
func tombstones(w *Writer) {
	w.Append(0, KV("a", "1"), KV("b", "1"), KV("c", "1"), KV("d", "1"))
	w.Append(1, Tombstone("a"))
	w.Append(2, KV("e", "1"), Tombstone("b"), KV("f", "1"))
	w.Append(3, Tombstone("never"), Tombstone("c"))
	w.Append(4, KV("c", "2"), Tombstone("g"))
	w.Roll()
	w.As(7, 0, Tombstone("d"), KV("h", "1"))
	w.As(7, 0, Tombstone("i"))
	w.Compact()
	w.Append(0, KV("g", "2"), Tombstone("e"))
	w.Compact()
	w.Append(0, KV("h", "2"))
	w.Compact()
}

func headers(w *Writer) {
	for i := range 12 {
		w.Append(Codecs[i%5], KV(fmt.Sprint("k", i%3), fmt.Sprint(i), "number", fmt.Sprint(i), "empty", "", "twice", "1", "twice", "2"),
			KV(fmt.Sprint("own", i), "x"), KV(fmt.Sprint("k", i%4), fmt.Sprint(i), "second", fmt.Sprint(i)))
	}
	w.Compact()
}

// producers whose last records are superseded keep their last batch without them: they go
// on where they were, and what they send again is known.
func producers(w *Writer) {
	const one, two, three = 900_001, 900_002, 900_003
	w.As(one, 0, KV("a", "1"), KV("b", "1"))
	last := w.As(one, 4, KV("a", "2"), KV("b", "2"), KV("c", "1"))
	w.As(two, 1, KV("a", "3"))
	w.As(three, 0, KV("d", "1"))
	w.Roll()
	w.As(two, 0, KV("b", "3"))
	w.As(three, 0, Tombstone("d"))
	w.Append(0, KV("a", "4"), KV("b", "4"), KV("c", "2"), KV("d", "2"))
	w.Compact()
	w.Answer(last)
	w.Answer(conform.Batch{Records: []conform.Record{KV("x", "a gap in the sequence")}, Idempotent: true, ProducerID: one, FirstSequence: 9}.Bytes())
	w.As(one, 0, KV("a", "5"))
	w.Compact()
	w.Append(0, KV("a", "6"))
	w.Compact()
}

// keys that are empty, twice in a batch or null: without a key a record is refused, and
// one that was written before goes.
func keys(w *Writer) {
	w.Append(0, KV("", "1"), KV("a", ""), KV("a", "2"), KV("a", ""))
	w.Append(2, conform.Record{Value: []byte("no key")})
	w.Append(1, KV("b", "1"), conform.Record{Value: []byte("no key")}, KV("", "2"))
	w.Append(0, KV(strings.Repeat("long ", 5000), "1"), KV("\x00\xff", "1"), KV("\x00", "1"))
	w.Append(3, KV(strings.Repeat("long ", 5000), "2"), KV("\x00\xff", "2"))
	w.Compact()
	w.Set(w.topic, "cleanup.policy", "compact")
	w.until("the policy is known", func() error {
		raw := conform.Batch{Records: []conform.Record{{Time: w.clock.begin, Value: []byte("no key")}}}.Bytes()
		code, _ := w.Produce(w.topic, 0, raw)
		if code == 0 {
			w.end++
			return fmt.Errorf("a record without a key was taken")
		}
		w.Answer(raw)
		return nil
	})
}

// noise does not become smaller when it is compressed.
func noise(seed uint64, size int) string {
	b := make([]byte, size)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = r.Read(b) // it never fails
	return string(b)
}

// appendTimes has segments that end by their size, as the broker's clock makes the times.
func appendTimes(w *Writer) {
	for i := range uint64(12) {
		w.Append(Codecs[i%5], KV(fmt.Sprint("k", i%4), noise(i, 200_000)), KV(fmt.Sprint("own", i), "x"), KV("all", "x"))
		nextMillisecond() // or which record has the largest time depends on the machine
		w.Append(0, Tombstone(fmt.Sprint("t", i%3)))
	}
	bases, err := bases(w.dir, w.topic, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	w.CompactTo(bases[len(bases)-1])
}

// nextMillisecond returns when the clock, which is the broker's too, shows another one.
func nextMillisecond() {
	for begin := time.Now().UnixMilli(); time.Now().UnixMilli() == begin; {
		runtime.Gosched()
	}
}

// large fills several segments, also with what is left.
func large(w *Writer) {
	for i := range uint64(30) {
		w.Append(Codecs[i%5], KV(fmt.Sprint("k", i%11), noise(i, 150_000)), KV(fmt.Sprint("own", i), fmt.Sprint(i)))
	}
	w.Compact()
	for i := range uint64(10) {
		w.As(5, Codecs[i%5], KV(fmt.Sprint("k", i), noise(i, 150_000)))
	}
	w.Compact()
}

// wholeSegments has segments of which nothing is left: at the start of the log, and in
// the middle; they are too large to become one.
func wholeSegments(w *Writer) {
	fill := func(from uint64) {
		for i := range uint64(9) {
			w.Append(0, KV(fmt.Sprint("k", i), noise(from+i, 100_000)))
		}
		w.Roll()
	}
	fill(0)
	fill(10)
	w.Append(0, KV("stays", "1"))
	fill(20)
	fill(30)
	w.Compact()
	w.Append(0, KV("stays", "2"))
	w.Compact()
}

// rounds have keys of before: only what is dirty supersedes.
func rounds(w *Writer) {
	for round := range 4 {
		for i := range 10 {
			w.Append(Codecs[i%5], KV(fmt.Sprint("k", (i*(round+1))%13), fmt.Sprint(round, i)), KV(fmt.Sprint("r", round, i%3), "x"))
			if i%4 == 0 {
				w.Roll()
			}
		}
		w.Compact()
	}
}

// times that are not in order, and whose largest is of a record that goes.
func times(w *Writer) {
	at := func(key string, times ...int64) {
		b := conform.Batch{}
		for i, t := range times {
			r := KV(key, fmt.Sprint(t))
			if i > 0 {
				r.Key = fmt.Append(r.Key, i)
			}
			r.Time = w.clock.begin + t
			b.Records = append(b.Records, r)
		}
		w.appendTimed(b)
	}
	at("a", 500, 100, 300)
	at("b", 900, 200)
	at("c", 50, 800, 20)
	at("b", 10)
	at("a", 5)
	at("c", 700, 1, 2)
	w.at = 1000
	w.Compact()
	at("d", w.at+900)
	at("d", w.at+100)
	w.at += 200
	w.Compact()
}

// deletedRecords lie below the log start, within a batch.
func deletedRecords(w *Writer) {
	for i := range 10 {
		w.Append(Codecs[i%5], KV(fmt.Sprint("k", i%3), fmt.Sprint(i)), KV(fmt.Sprint("own", i), "x"), KV(fmt.Sprint("k", i%4), fmt.Sprint(i)))
		if i == 4 {
			w.Roll()
		}
	}
	w.Delete(4)
	w.Compact()
	w.Delete(19)
	w.Append(0, KV("own6", "y"), KV("own9", "y"))
	w.Compact()
}

// minLag leaves what is younger as it is, also where the old is superseded by it.
func minLag(w *Writer) {
	w.Append(0, KV("a", "1"), KV("b", "1"))
	w.Append(0, KV("a", "2"), KV("c", "1"))
	w.Roll()
	w.Append(0, KV("b", "2"))
	w.at += 1_200_000
	young := w.end
	w.Append(0, KV("a", "3"), KV("a", "4"))
	w.Roll()
	w.Append(0, KV("a", "5"))
	w.CompactTo(young)
}

// FullMap has more keys than fit into a megabyte of the cleaner: it cleans a part of the log, and
// comes again.
func FullMap() History {
	return History{Name: "full-map", Write: func(w *Writer) {
		const keys = 60_000
		for n := 0; n < keys*3/2; {
			var records []conform.Record
			for range 1000 {
				records = append(records, KV(fmt.Sprint("key-", n%keys), fmt.Sprint(n)))
				n++
			}
			w.Append(Codecs[n/1000%5], records...)
			if n%7000 == 0 {
				w.Roll()
			}
		}
		w.Compact()
	}}
}

// Random is a history of a seed: everything at once.
func Random(seed uint64) History {
	retention := []string{"0", "3600000"}[seed%2]
	return History{
		Name: fmt.Sprint("seed-", seed), Configs: []string{"delete.retention.ms", retention},
		Write: func(w *Writer) { draw(w, rand.New(rand.NewPCG(seed, 0))) },
	}
}

func draw(w *Writer, r *rand.Rand) {
	keys := 1 + r.IntN(60)
	for range 2 + r.IntN(3) {
		for range 10 + r.IntN(80) {
			var records []conform.Record
			for range 1 + r.IntN(1+r.IntN(20)) {
				records = append(records, drawRecord(r, keys))
			}
			codec := Codecs[r.IntN(len(Codecs))]
			if r.IntN(3) == 0 {
				w.As(int64(900_000+r.IntN(4)), codec, records...)
			} else {
				w.Append(codec, records...)
			}
			if r.IntN(12) == 0 {
				w.Roll()
			}
		}
		if r.IntN(5) == 0 {
			w.Delete(w.end - int64(r.IntN(int(min(w.end, 40)))))
		}
		w.Compact()
	}
}

func drawRecord(r *rand.Rand, keys int) conform.Record {
	record := KV(fmt.Sprint("key-", r.IntN(keys)), fmt.Sprint(r.Uint32()))
	switch r.IntN(8) {
	case 0:
		record.Value = nil
	case 1:
		record.Value = bytes.Repeat([]byte{'x'}, r.IntN(20_000))
	case 2:
		record.Headers = KV("", "", "h", fmt.Sprint(r.Uint32())).Headers
	}
	return record
}
