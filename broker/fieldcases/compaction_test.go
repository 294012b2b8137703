package fieldcases

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/broker/brokertest"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// cleaned are settings of a topic that is compacted as soon as a segment has ended, which
// it does after a second.
var cleaned = []string{"cleanup.policy=compact", "segment.ms=1000", "min.cleanable.dirty.ratio=0.01"}

// keyed is a record whose header names its offset.
func keyed(offset int, key, value string) batch.NewRecord {
	return batch.NewRecord{
		TimestampMs: nowMs(), Key: []byte(key), Value: []byte(value), Headers: []batch.Header{{Key: "offset", Value: fmt.Append(nil, offset)}},
	}
}

// compressed is a batch of some records.
func compressed(t *testing.T, codec batch.Codec, records ...batch.NewRecord) []byte {
	t.Helper()
	b := batch.NewBuilder(batch.BuilderOptions{Codec: codec})
	for _, r := range records {
		b.Append(r)
	}
	v, err := b.Build(batch.NewCodecs(batch.CodecsOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func tombstone(key string) batch.NewRecord {
	return batch.NewRecord{TimestampMs: nowMs(), Key: []byte(key)}
}

// roll has the next record begin a segment, so that all before it is compacted.
func (w *world) roll(topic string, next ...batch.NewRecord) {
	w.t.Helper()
	time.Sleep(2 * time.Second)
	for i := range next {
		next[i].TimestampMs = nowMs()
	}
	w.must(topic, batch.New(batch.BuilderOptions{}, next...))
}

// stored is what a reader gets who goes from batch to batch up to the end, as Connect and
// Streams do: who waits for the end must come past it.
func (w *world) stored(topic string) (all []kept) {
	w.t.Helper()
	next, end := w.list(topic, earliest).Offset, w.list(topic, latest).Offset
	for next < end {
		found, after := w.answer(topic, next)
		if after == next {
			w.t.Fatalf("%s: nothing at %d, the end is %d", topic, next, end)
		}
		all, next = append(all, found...), after
	}
	return all
}

// answer is what a fetch at an offset finds from there on, and where a reader goes on.
func (w *world) answer(topic string, at int64) (found []kept, next int64) {
	w.t.Helper()
	next = at
	for rest := w.fetch(topic, at).RecordBatches; len(rest) > 0; {
		v, behind, err := batch.Next(rest)
		if err != nil {
			w.t.Fatal(err)
		}
		found = append(found, recordsOf(w.t, v, at)...)
		next, rest = v.LastOffset()+1, behind
	}
	return found, next
}

// kept is a record that was read.
type kept struct {
	offset             int64
	key, value, header string
	tombstone          bool
}

// recordsOf are the records of a batch from an offset on.
func recordsOf(t *testing.T, v batch.View, from int64) (all []kept) {
	t.Helper()
	if err := v.Check(); err != nil {
		t.Fatal(err)
	}
	it := batch.NewIterator(v, batch.NewCodecs(batch.CodecsOptions{}))
	defer it.Close()
	for it.Next() {
		r := &it.Record
		if r.Offset < from {
			continue
		}
		k := kept{offset: r.Offset, key: string(r.Key), value: string(r.Value), tombstone: r.Value == nil}
		for name, value := range r.Headers.All() {
			k.header += string(name) + "=" + string(value)
		}
		all = append(all, k)
	}
	if err := it.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// keysAt are the keys by offset.
func keysAt(all []kept) map[int64]string {
	keys := map[int64]string{}
	for _, r := range all {
		keys[r.offset] = r.key
	}
	return keys
}

// nisshi fb4334f, ac708cb: a fetch at an offset that was compacted away failed, and records
// had the headers of others afterwards.
func TestNextSurvivorHasItsOwnHeaders(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		for _, codec := range []batch.Codec{batch.None, batch.Gzip, batch.Snappy, batch.LZ4, batch.Zstd} {
			topic := fmt.Sprint("t", codec)
			w.create(topic, 1, cleaned...)
			w.must(topic, compressed(t, codec, keyed(0, "a", "1"), keyed(1, "b", "1"), keyed(2, "a", "2"), keyed(3, "c", "1")))
			w.must(topic, compressed(t, codec, keyed(4, "c", "2"), keyed(5, "d", "1"), keyed(6, "c", "3")))
			w.roll(topic, keyed(7, "e", "1"))
			w.eventually("it is compacted", time.Minute, func() bool { return len(w.stored(topic)) == 5 })
			for at, want := range []int64{1, 1, 2, 5, 5, 5, 6, 7} {
				found, _ := w.answer(topic, int64(at))
				if len(found) == 0 || found[0].offset != want || found[0].header != fmt.Sprint("offset=", want) {
					t.Errorf("%s at %d: %v, want offset %d with its header", topic, at, found, want)
				}
			}
		}
	})
}

// redpanda#10194, #12372, #4041: tombstones stayed for ever, and delete.retention.ms was
// ignored. They stay that long after the first cleaning, for readers who are behind.
func TestTombstonesGoWhenTheirTimeHasCome(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1, append(cleaned, "delete.retention.ms=60000")...)
		w.must("t", batch.New(batch.BuilderOptions{}, keyed(0, "a", "1"), keyed(1, "b", "1")))
		w.must("t", batch.New(batch.BuilderOptions{}, tombstone("a")))
		w.roll("t", keyed(3, "c", "1"))
		w.eventually("it is compacted", time.Minute, func() bool { return maps.Equal(keysAt(w.stored("t")), map[int64]string{1: "b", 2: "a", 3: "c"}) })
		for range 10 { // also when it is compacted again
			time.Sleep(3 * time.Second)
			w.roll("t", keyed(0, "c", "2"))
			if keysAt(w.stored("t"))[2] != "a" {
				t.Fatalf("the tombstone is gone after %v", keysAt(w.stored("t")))
			}
		}
		time.Sleep(time.Minute)
		w.roll("t", keyed(0, "c", "3"))
		w.eventually("the tombstone is gone", time.Minute, func() bool { return keysAt(w.stored("t"))[2] == "" })
		if keysAt(w.stored("t"))[1] != "b" {
			t.Error("the last value of a key is gone")
		}
	})
}

// redpanda#2214: a topic that was no longer compacted could not be read.
func TestTopicThatIsNoLongerCompactedIsRead(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1, cleaned...)
		for i := range 3 {
			w.roll("t", keyed(i, "a", fmt.Sprint(i)), keyed(i, fmt.Sprint(i), "x"))
		}
		left := map[int64]string{1: "0", 2: "a", 3: "1", 4: "a", 5: "2"}
		w.eventually("it is compacted", time.Minute, func() bool { return maps.Equal(keysAt(w.stored("t")), left) })
		w.set("t", "cleanup.policy", "delete")
		brokertest.Stop(t, w.broker)
		w.start()
		if got := keysAt(w.stored("t")); !maps.Equal(got, left) {
			t.Errorf("left is %v, want %v", got, left)
		}
		w.must("t", batch.New(batch.BuilderOptions{}, keyed(6, "a", "3")))
		if got := keysAt(w.stored("t")); got[6] != "a" || got[2] != "a" {
			t.Errorf("left is %v", got)
		}
	})
}

// redpanda#571, #5122: Debezium and Connect failed when they had run for a while: they keep
// what they know in compacted topics, which they read to the end whenever they start.
func TestCompactedTopicsAreAStoreForHours(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1, append(cleaned, "delete.retention.ms=60000")...)
		known := map[string]string{}
		for n := range 3 * 720 { // every five seconds, for three hours
			key, value := fmt.Sprint(n*7%30), fmt.Sprint(n)
			record := keyed(n, key, value)
			if known[key] = value; n%11 == 0 {
				record = tombstone(key)
				delete(known, key)
			}
			w.must("t", batch.New(batch.BuilderOptions{}, record))
			time.Sleep(5 * time.Second)
			if n%360 != 359 {
				continue
			}
			if n%720 == 719 {
				brokertest.Stop(t, w.broker)
				w.start()
			}
			all, found := w.stored("t"), map[string]string{}
			for _, r := range all {
				if found[r.key] = r.value; r.tombstone {
					delete(found, r.key)
				}
			}
			if !maps.Equal(found, known) {
				t.Fatalf("after %d records: found is %v, written was %v", n, found, known)
			}
			if len(all) > 2*30 {
				t.Errorf("after %d records of 30 keys, %d are left", n, len(all))
			}
		}
	})
}
