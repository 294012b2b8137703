package compaction

import (
	"bytes"
	"errors"
	"testing"

	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// A record may have the key that a marker has; the marker has nothing to do with it (Kafka's
// testCleaningWithKeysConflictingWithTxnMarkerKeys).
func TestKeysThatReadLikeMarkers(t *testing.T) {
	l := newFakeLog(t)
	o := batch.BuilderOptions{Transactional: true}
	l.append(1, 0, o, batch.NewRecord{Key: []byte("a"), Value: []byte("1")})
	l.endTxn(0, 1, 0, batch.ControlCommit)
	l.append(2, 0, o, batch.NewRecord{Key: []byte{0, 0, 0, 1}, Value: []byte("foo")})
	l.endTxn(0, 2, 0, batch.ControlCommit)
	l.roll()
	before := l.String()
	l.clean(0, 9)
	if after := l.String(); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
}

// What does not change is given back as it came, not even copied.
func TestUnchangedBatchIsTheSameBytes(t *testing.T) {
	codecs := batch.NewCodecs(batch.CodecsOptions{})
	for _, codec := range benchCodecs {
		v := benchBatch(t, codecs, codec)
		got, err := benchFilter(codecs, benchCount).Batch(v, false)
		if err != nil || &got[0] != &v[0] || len(got) != len(v) {
			t.Errorf("%v: another batch, %v", codec, err)
		}
	}
}

// Stats are Kafka's CleanerStats: bytes of all batches, records of those that are looked into.
func TestStats(t *testing.T) {
	l := newFakeLog(t)
	l.append(-1, 0, batch.BuilderOptions{}, benchRecords(3)...)
	l.append(1, 0, batch.BuilderOptions{Transactional: true}, benchRecords(5)...)
	l.endTxn(0, 1, 0, batch.ControlAbort)
	l.append(1, 0, batch.BuilderOptions{}, benchRecords(2)...)
	l.append(-1, 0, batch.BuilderOptions{}, batch.NewRecord{})
	l.roll()
	size := l.segments[0].size()
	stats, index := l.clean(0, 99)
	want := Stats{MessagesRead: 7, BytesRead: size, MessagesKept: 4, BytesKept: l.segments[0].size(), Invalid: 1}
	if stats != want || index != (IndexStats{MessagesRead: 12, BytesRead: size}) {
		t.Errorf("%+v, %+v\n%s", stats, index, l)
	}
}

// An index that says too little or too much loses no record: a transaction ends at the marker
// that its entry names, and a marker without entry stays as long as there are batches that
// seem committed.
func TestOddTransactionIndexes(t *testing.T) {
	tests := []struct {
		name  string
		index func([]segment.AbortedTxn) []segment.AbortedTxn
		want  string
	}{
		{
			"an entry whose marker is gone",
			func(x []segment.AbortedTxn) []segment.AbortedTxn {
				return append([]segment.AbortedTxn{{ProducerID: 2, FirstOffset: 0, LastOffset: 1, LastStableOffset: 2}}, x...)
			},
			"[2..2] pid=1/0: abort\n[3..3] txn pid=2/0 seq=0: 3 b=1\n[4..4] pid=2/0: commit\n[5..5]: 5 c=1\naborted: pid=1 [0..2]\n",
		},
		{
			"no entries",
			func([]segment.AbortedTxn) []segment.AbortedTxn { return nil },
			"[0..1] txn pid=1/0 seq=0: 0 a=1, 1 a2=1\n[2..2] pid=1/0: abort\n[3..3] txn pid=2/0 seq=0: 3 b=1\n[4..4] pid=2/0: commit\n[5..5]: 5 c=1\n",
		},
		{
			"entries twice",
			func(x []segment.AbortedTxn) []segment.AbortedTxn { return append(x, x...) },
			"[2..2] pid=1/0: abort\n[3..3] txn pid=2/0 seq=0: 3 b=1\n[4..4] pid=2/0: commit\n[5..5]: 5 c=1\naborted: pid=1 [0..2]\n",
		},
		{
			"an entry that ends behind its marker",
			func(x []segment.AbortedTxn) []segment.AbortedTxn { x[0].LastOffset += 4; return x },
			"[2..2] pid=1/0: abort\n[3..3] txn pid=2/0 seq=0: 3 b=1\n[4..4] pid=2/0: commit\n[5..5]: 5 c=1\naborted: pid=1 [0..2]\n",
		},
	}
	record := func(key string) batch.NewRecord { return batch.NewRecord{Key: []byte(key), Value: []byte("1")} }
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newFakeLog(t)
			o := batch.BuilderOptions{Transactional: true}
			l.append(1, 0, o, record("a"), record("a2"))
			l.endTxn(0, 1, 0, batch.ControlAbort)
			l.append(2, 0, o, record("b"))
			l.endTxn(0, 2, 0, batch.ControlCommit)
			l.append(-1, 0, batch.BuilderOptions{}, record("c"))
			l.roll()
			l.segments[0].aborted = tt.index(l.segments[0].aborted)
			delete(l.producers, 1)
			l.clean(0, 9)
			if got := l.String(); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// Control records of other kinds than markers stay, whatever is known of their producer.
func TestOtherControlRecordsStay(t *testing.T) {
	for _, key := range []string{"\x00\x00\x00\x02", "\x00\x00\x00\x63", "\x00\x07\x00\x09"} {
		l := newFakeLog(t)
		l.append(1, 0, batch.BuilderOptions{Control: true}, batch.NewRecord{Key: []byte(key), Value: []byte("v")})
		l.append(-1, 0, batch.BuilderOptions{}, batch.NewRecord{Key: []byte("a"), Value: []byte("v")})
		l.roll()
		delete(l.producers, 1)
		before := bytes.Clone(l.segments[0].batches[0])
		l.clean(0, 9)
		if !bytes.Equal(before, l.segments[0].batches[0]) {
			t.Errorf("%x became %x", before, l.segments[0].batches[0])
		}
	}
}

// Damage that no checksum shows ends the cleaning with the offset of its batch.
func TestDamageIsReported(t *testing.T) {
	codecs := batch.NewCodecs(batch.CodecsOptions{})
	o := batch.BuilderOptions{BaseOffset: 77}
	plain := batch.New(o, benchRecords(2)...)
	plain[60]++ // one record more than there is
	o.Control = true
	control := batch.New(o, batch.NewRecord{Key: []byte("x"), Value: []byte("v")})
	for _, v := range []batch.View{plain, control} {
		_, err := NewFilter(FilterOptions{Map: mapOf(9), Codecs: codecs}).Batch(v, false)
		if !errors.Is(err, kafkaerr.InvalidRecord) || !bytes.Contains([]byte(err.Error()), []byte("77")) {
			t.Error(err)
		}
		_, err = NewIndexer(mapOf(9), 0, codecs, nil).Batch(v)
		if !errors.Is(err, kafkaerr.InvalidRecord) || !bytes.Contains([]byte(err.Error()), []byte("77")) {
			t.Error(err)
		}
	}
}

// A batch of any number of records keeps exactly those that are the newest of their keys.
func TestLargeBatchKeepsTheNewest(t *testing.T) {
	codecs := batch.NewCodecs(batch.CodecsOptions{})
	for _, codec := range benchCodecs {
		m := NewOffsetMap(1<<20, 0.9)
		records := benchRecords(benchCount)
		for i, r := range records {
			m.Put(r.Key, benchCount+int64(i)+int64(i%7%2)) // of some there is a newer one
		}
		m.Reach(3 * benchCount)
		got, err := NewFilter(FilterOptions{Map: m, Codecs: codecs}).Batch(benchBatch(t, codecs, codec), false)
		if err != nil {
			t.Fatal(err)
		}
		next := 0
		err = batch.Iterate(got, codecs, func(r batch.Record) error {
			for next%7%2 != 0 {
				next++
			}
			want := records[next]
			if r.Offset != benchCount+int64(next) || !bytes.Equal(r.Key, want.Key) || !bytes.Equal(r.Value, want.Value) || r.Timestamp != want.TimestampMs {
				t.Fatalf("%v: record at offset %d, want that at %d", codec, r.Offset, benchCount+next)
			}
			next++
			return nil
		})
		if err != nil || next != benchCount-1 { // the last one is not its key's newest
			t.Errorf("%v: up to %d, %v", codec, next, err)
		}
	}
}

// A batch that Kafka would not have, kept without records because its segment ends with it, has
// no part in look-ups by time; one that Kafka has too says what Kafka's says. Neither is written
// anew again and again.
func TestEmptyBatchesAndTime(t *testing.T) {
	codecs := batch.NewCodecs(batch.CodecsOptions{})
	o := batch.BuilderOptions{BaseOffset: 5, Producer: &batch.Producer{ID: 1}}
	v := batch.New(o, batch.NewRecord{TimestampMs: 77, Key: []byte("a"), Value: []byte("v")})
	m := mapOf(9)
	m.Put([]byte("a"), 6)
	tests := []struct {
		name   string
		last   bool
		newest int64 // of the producer
		want   int64
	}{
		{"last of its segment", true, 99, batch.NoTimestamp},
		{"newest of its producer", false, 5, 77},
		{"both", true, 5, 77},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := NewFilter(FilterOptions{Map: m, Codecs: codecs, Producers: map[int64]LastRecord{1: {LastDataOffset: tt.newest}}})
			got, err := f.Batch(v, tt.last)
			if err != nil || got.RecordCount() != 0 || got.MaxTimestamp() != tt.want {
				t.Fatalf("%x, %v", got, err)
			}
			got = bytes.Clone(got)
			if again, err := f.Batch(got, tt.last); err != nil || &again[0] != &got[0] {
				t.Errorf("%x became %x, %v", got, again, err)
			}
		})
	}
}
