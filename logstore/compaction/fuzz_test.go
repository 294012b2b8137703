package compaction

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// FuzzClean takes any bytes as batches, their lengths and checksums made right. They are
// cleaned or refused; what is written is a batch of the same range whose records were in the
// one that was read, in their order; and after a few times it is as it is.
func FuzzClean(f *testing.F) {
	for _, codec := range []batch.Codec{batch.None, batch.Gzip, batch.Snappy, batch.LZ4, batch.Zstd} {
		l := newFakeLog(f)
		o := batch.BuilderOptions{Codec: codec, Transactional: true}
		l.append(1, 0, o, benchRecords(5)...)
		l.append(1, 0, o, batch.NewRecord{Key: []byte("key-1")}, batch.NewRecord{Value: []byte("v")})
		l.endTxn(5, 1, 0, batch.ControlAbort)
		l.endTxn(5, 2, 0, batch.ControlCommit)
		f.Add(bytes.Join([][]byte{l.active().batches[0], l.active().batches[1]}, nil), uint8(codec))
		f.Add(bytes.Join([][]byte{l.active().batches[2], l.active().batches[3]}, nil), uint8(0x80|codec))
	}
	codecs := batch.NewCodecs(batch.CodecsOptions{MaxBatchBytes: 4 << 20, MaxRecordBytes: 1 << 20})
	f.Fuzz(func(t *testing.T, data []byte, how uint8) {
		kept, ok := cleanBatches(t, codecs, cutBatches(data), how)
		if !ok {
			return
		}
		for round := 0; ; round++ {
			again, ok := cleanBatches(t, codecs, kept, how)
			if !ok {
				t.Fatal("what was written is refused")
			}
			if slices.EqualFunc(kept, again, slices.Equal[batch.View]) {
				return
			}
			if round == maxRounds {
				t.Fatalf("%x\n cleaned again is\n%x", kept, again)
			}
			kept = again
		}
	})
}

// maxRounds is how often something may change: batches get empty, then go; then markers get
// their horizons. With few keys in the map, that is another time for each few of them.
const maxRounds = 40

// cutBatches makes batches of the bytes, whatever they say, at offsets that rise.
func cutBatches(data []byte) (batches []batch.View) {
	next := int64(0)
	for len(data) >= batch.HeaderSize {
		size := batch.PrefixSize + int(binary.BigEndian.Uint32(data[8:]))
		if size < batch.HeaderSize || size > len(data) {
			size = len(data)
		}
		v := batch.View(slices.Clone(data[:size]))
		data = data[size:]
		binary.BigEndian.PutUint32(v[8:], uint32(size-batch.PrefixSize))
		v[16] = 2
		v[23] &= 0x3f // a last offset delta that is none below 0
		v.SetBaseOffset(next)
		binary.BigEndian.PutUint32(v[17:], v.ComputeCRC())
		next = v.NextOffset()
		batches = append(batches, v)
	}
	return batches
}

// cleanBatches is one cleaning of a log of one segment; ok is false if it is refused. The
// lowest bit of how leaves the last batches out of the map.
func cleanBatches(t *testing.T, codecs *batch.Codecs, batches []batch.View, how uint8) (kept []batch.View, ok bool) {
	m := mapOf(3 + int(how&1)*2)
	txns := []segment.AbortedTxn{{ProducerID: 1, FirstOffset: 0, LastOffset: int64(how), LastStableOffset: int64(how)}}
	x := NewIndexer(m, 0, codecs, txns)
	for i, v := range batches {
		if how&1 != 0 && i == len(batches)-1 {
			break
		}
		full, err := x.Batch(v)
		if err != nil {
			return nil, false
		}
		if full {
			break
		}
	}
	filter := NewFilter(FilterOptions{
		Map: m, NowMs: int64(how), DeleteRetentionMs: 1 + int64(how&2)*1000, Codecs: codecs, HighWatermark: -1,
		Producers: map[int64]LastRecord{1: {LastDataOffset: int64(how & 7)}, 2: {LastDataOffset: -1}},
	})
	filter.AddAborted(txns)
	for i, v := range batches {
		got, err := filter.Batch(v, how&0x80 != 0 && i == len(batches)-1)
		if err != nil {
			return nil, false
		}
		if got != nil {
			checkSubset(t, codecs, v, got)
			kept = append(kept, slices.Clone(got))
		}
	}
	return kept, true
}

func checkSubset(t *testing.T, codecs *batch.Codecs, v, got batch.View) {
	if err := got.Check(); err != nil {
		t.Fatal(err)
	}
	if got.BaseOffset() != v.BaseOffset() || got.LastOffset() != v.LastOffset() || got.RecordCount() > v.RecordCount() {
		t.Fatalf("%x became %x", v[:batch.HeaderSize], got[:batch.HeaderSize])
	}
	before := batch.NewIterator(v, codecs)
	defer before.Close()
	after := batch.NewIterator(got, codecs)
	defer after.Close()
	for after.Next() {
		want := &after.Record
		found := false
		for !found && before.Next() {
			r := &before.Record
			found = r.Offset == want.Offset && r.Timestamp == want.Timestamp &&
				bytes.Equal(r.Key, want.Key) && bytes.Equal(r.Value, want.Value) && r.HasKey == want.HasKey && r.HasValue == want.HasValue
		}
		if !found {
			t.Fatalf("record %+v was not in\n%x", want, v)
		}
	}
	if after.Err() != nil {
		t.Fatal(after.Err())
	}
}
