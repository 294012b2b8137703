package producerstate

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/klamm-mq/klamm/protocol/batch"
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

// TestLeaderThatKnewNothingIsBelieved: retention has moved the log start past a producer's
// batches, whose answers were lost. A replica that began anew at the log start leads, and takes
// the first of them again. Whoever follows it, and remembers all of them, leads next: it must
// go on as the log does, with the second. If it expected that and still knew the others
// from before, their retries would be duplicates, and what follows them out of order for ever.
func TestLeaderThatKnewNothingIsBelieved(t *testing.T) {
	remembers, anew := New(Options{}), New(Options{})
	for _, v := range []batch.View{produced(1, 0, 3), produced(1, 1, 6), produced(1, 2, 8)} {
		update(t, remembers, v)
	}
	for _, m := range []*Manager{remembers, anew} {
		m.AdvanceLogStart(13)
		update(t, m, produced(1, 0, 13))
	}
	if diff := cmp.Diff(anew.Producer(1).Batches(), remembers.Producer(1).Batches()); diff != "" {
		t.Errorf("what the log says, and what is remembered: %s", diff)
	}
	if first, dup, err := remembers.Check(produced(1, 0, 14), CheckParams{}); !dup || err != nil || first.LastOffset != 13 {
		t.Errorf("the first one again: %+v, %v, %v", first, dup, err)
	}
	for seq := range int32(3) {
		v := produced(1, 1+seq, 14+int64(seq))
		if _, dup, err := remembers.Check(v, CheckParams{}); dup || err != nil {
			t.Errorf("sequence %d: duplicate %v, %v", 1+seq, dup, err)
		}
		update(t, remembers, v)
	}
}

// TestSequencesThatWrapFollowOn: 0 follows on from the largest one.
func TestSequencesThatWrapFollowOn(t *testing.T) {
	m := New(Options{})
	update(t, m, produced(1, math.MaxInt32, 0))
	update(t, m, produced(1, 0, 1))
	if n := len(m.Producer(1).Batches()); n != 2 {
		t.Errorf("%d batches are remembered, want 2", n)
	}
}

func update(t *testing.T, m *Manager, v batch.View) {
	t.Helper()
	if _, _, err := m.Update(v); err != nil {
		t.Fatal(err)
	}
}
