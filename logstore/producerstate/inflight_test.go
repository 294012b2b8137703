package producerstate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSnapshotKeepsBatchesInFlight: a producer with several batches in flight whose
// answers were lost in a crash sends them all again. Each must be known as a duplicate
// after a start from a snapshot, not the newest alone.
func TestSnapshotKeepsBatchesInFlight(t *testing.T) {
	m := New(Options{})
	p := m.ensure(7)
	p.setEpoch(3)
	for i := range int64(batchesKept + 2) {
		p.addBatch(BatchMeta{LastOffset: 10*i + 1, TimestampMs: 1000 + i, LastSequence: int32(2*i + 1), OffsetDelta: 1})
	}
	p.CoordinatorEpoch, p.TxnFirstOffset, p.LastTimestampMs = 9, 61, 5000
	m.ensure(8) // known by name alone

	data := m.encode()
	read, pos, reason := decodeSnapshot(data)
	if reason != "" || len(read) != 2 {
		t.Fatalf("%d producers, byte %d: %s", len(read), pos, reason)
	}
	want := append([]BatchMeta{}, p.Batches()...)
	want[batchesKept-1].TimestampMs = 5000
	if diff := cmp.Diff(want, read[0].Batches()); diff != "" {
		t.Errorf("batches (-want +got):\n%s", diff)
	}
	if got := read[0]; got.Epoch != 3 || got.CoordinatorEpoch != 9 || got.TxnFirstOffset != 61 || got.LastTimestampMs != 5000 {
		t.Errorf("producer %+v", got)
	}
	if n := len(read[1].Batches()); read[1].ID != 8 || n != 0 {
		t.Errorf("producer %d has %d batches, want 8 without", read[1].ID, n)
	}
}

// TestSnapshotAsKafkaReadsIt: entries put one over the other leave the newest.
func TestSnapshotAsKafkaReadsIt(t *testing.T) {
	m := New(Options{})
	p := m.ensure(7)
	p.setEpoch(0)
	for i := range int32(3) {
		p.addBatch(BatchMeta{LastOffset: int64(i), LastSequence: i})
	}
	p.TxnFirstOffset = 2
	var last *Producer
	entries := m.encode()[snapshotHeaderSize:]
	for ; len(entries) > 0; entries = entries[snapshotEntrySize:] {
		last = decodeProducer(entries)
	}
	if newest, _ := last.Last(); newest.LastOffset != 2 || newest.LastSequence != 2 || last.TxnFirstOffset != 2 {
		t.Errorf("the last entry is %+v", last)
	}
}
