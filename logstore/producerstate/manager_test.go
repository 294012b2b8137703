package producerstate

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

func produced(pid int64, seq int32, base int64) batch.View {
	return batch.New(batch.BuilderOptions{
		BaseOffset: base,
		Producer:   &batch.Producer{ID: pid, BaseSequence: seq},
	}, batch.NewRecord{TimestampMs: 1000, Value: []byte("v")})
}

// TestEmptyManagerIsCheap: most partitions have no idempotent producer, and every
// partition has a Manager.
func TestEmptyManagerIsCheap(t *testing.T) {
	if size := unsafe.Sizeof(Manager{}); size > 256 {
		t.Errorf("a Manager takes %d bytes", size)
	}
	m := New(Options{})
	plain := batch.New(batch.BuilderOptions{}, batch.NewRecord{Value: []byte("v")})
	next := int64(0)
	allocs := testing.AllocsPerRun(100, func() {
		plain.SetBaseOffset(next)
		if _, _, err := m.Check(plain, CheckParams{}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := m.Update(plain); err != nil {
			t.Fatal(err)
		}
		m.OnHighWatermark(next)
		next = plain.NextOffset()
	})
	if allocs != 0 || m.producers != nil {
		t.Errorf("%v allocations per batch without producer", allocs)
	}
}

func TestKnownProducerAllocatesNothing(t *testing.T) {
	m := New(Options{})
	v := produced(1, 0, 0)
	if _, _, err := m.Update(v); err != nil {
		t.Fatal(err)
	}
	allocs := testing.AllocsPerRun(100, func() {
		if _, dup, err := m.Check(v, CheckParams{}); !dup || err != nil {
			t.Fatal(dup, err)
		}
		if _, _, err := m.Update(v); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations per batch of a known producer", allocs)
	}
}

// TestUnreadableMarker: a control batch that is none changes nothing.
func TestUnreadableMarker(t *testing.T) {
	marker := batch.NewEndTxnMarker(1, 1, 0, batch.EndTxnMarker{})
	short := batch.New(batch.BuilderOptions{Producer: &batch.Producer{ID: 1}, Control: true}, batch.NewRecord{Key: []byte{0}})
	compressed := bytes.Clone(marker)
	compressed[22] |= byte(batch.Gzip) // attributes
	cut := bytes.Clone(marker[:len(marker)-3])
	for name, v := range map[string]batch.View{"short": short, "compressed": compressed, "cut": cut} {
		m := New(Options{})
		if _, _, err := m.Check(v, CheckParams{Origin: OriginCoordinator}); !errors.Is(err, kafkaerr.InvalidRecord) {
			t.Errorf("%s: Check: %v", name, err)
		}
		if _, _, err := m.Update(v); !errors.Is(err, kafkaerr.InvalidRecord) || m.EndOffset() != 0 || m.Len() != 0 {
			t.Errorf("%s: Update: %v, end %d, %d producers", name, err, m.EndOffset(), m.Len())
		}
	}
}

// TestMarkerOfAnotherKind: control records that end no transaction, and batches of which
// compaction has left nothing, only move the end.
func TestMarkerOfAnotherKind(t *testing.T) {
	other := batch.NewEndTxnMarker(1, 1, 0, batch.EndTxnMarker{Type: 5})
	empty := batch.New(batch.BuilderOptions{Producer: &batch.Producer{ID: 1}, Control: true, LastOffsetDelta: 3})
	for _, v := range []batch.View{other, empty} {
		m := New(Options{})
		if _, _, err := m.Check(v, CheckParams{Origin: OriginCoordinator}); err != nil {
			t.Error(err)
		}
		if _, ended, err := m.Update(v); ended || err != nil || m.EndOffset() != v.NextOffset() || m.Len() != 0 {
			t.Errorf("ended %v, %v, end %d, %d producers", ended, err, m.EndOffset(), m.Len())
		}
	}
}

// TestSnapshotBytes holds the format still. Kafka's own tool reads such files in the
// tests of package segment.
func TestSnapshotBytes(t *testing.T) {
	m := New(Options{})
	if _, _, err := m.Update(produced(258, 7, 3)); err != nil {
		t.Fatal(err)
	}
	s, ok := m.EncodeSnapshot()
	if !ok || s.Offset != 4 {
		t.Fatalf("snapshot at %d, %v", s.Offset, ok)
	}
	const want = "0001" + "c01f3a1c" + "00000001" + // version, crc, count
		"0000000000000102" + "0000" + "00000007" + // producer id, epoch, last sequence
		"0000000000000003" + "00000000" + "00000000000003e8" + // last offset, delta, timestamp
		"ffffffff" + "ffffffffffffffff" // coordinator epoch, first offset of the transaction
	if got := hex.EncodeToString(s.Data); got != want {
		t.Errorf("snapshot\n%s, want\n%s", got, want)
	}
}

func TestSnapshotNames(t *testing.T) {
	if got := SnapshotName(4711); got != "00000000000000004711.snapshot" {
		t.Error(got)
	}
	for name, want := range map[string]int64{
		"00000000000000004711.snapshot":         4711,
		"00000000000000004711.snapshot.deleted": -1,
		"0000000000000004711.snapshot":          -1,
		"-0000000000000004711.snapshot":         -1,
		"99999999999999999999.snapshot":         -1,
		"00000000000000004711.log":              -1,
	} {
		if got, ok := ParseSnapshotName(name); ok != (want >= 0) || ok && got != want {
			t.Errorf("%s: %d, %v", name, got, ok)
		}
	}
}

// TestTornSnapshotIsReplaced: whatever a power cut leaves of the newest snapshot, the
// state comes from it whole, or from an older one.
func TestTornSnapshotIsReplaced(t *testing.T) {
	for seed := range uint64(50) {
		fs := vfs.NewCrash(rand.NewPCG(seed, 0))
		fs.SetPageSize(16)
		for _, dir := range []string{testDir} {
			if err := fs.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, dir := range []string{testDir, filepath.Dir(testDir), "/"} {
			if err := fs.SyncDir(dir); err != nil {
				t.Fatal(err)
			}
		}
		m := New(Options{FS: fs.Process(), Dir: testDir, Expiration: time.Hour})
		take := func(seq int32, sync bool) {
			if _, _, err := m.Update(produced(1, seq, int64(seq))); err != nil {
				t.Fatal(err)
			}
			if taken, err := m.TakeSnapshot(sync); !taken || err != nil {
				t.Fatal(taken, err)
			}
		}
		take(0, true)
		take(1, seed%2 == 0)
		fs.PowerCut()

		m = New(Options{FS: fs.Process(), Dir: testDir, Expiration: time.Hour})
		if err := m.ListSnapshots(); err != nil {
			t.Fatal(err)
		}
		if err := m.Load(-1, 2, time.UnixMilli(1000)); err != nil {
			t.Fatal(err)
		}
		end := m.EndOffset()
		if p := m.Producer(1); p == nil || int64(p.LastSequence()) != end-1 || end < 1 || seed%2 == 0 && end != 2 {
			t.Fatalf("seed %d: state at %d: %+v", seed, end, p)
		}
	}
}

func TestSnapshotErrors(t *testing.T) {
	fs := errfs.Wrap(vfs.NewMem())
	if err := fs.MkdirAll(testDir, 0o755); err != nil {
		t.Fatal(err)
	}
	m := New(Options{FS: fs, Dir: testDir, Expiration: time.Hour})
	for seq, rule := range []string{"open *.snapshot err=ENOSPC", "write *.snapshot partial=5 err=ENOSPC", "sync *.snapshot", "syncdir dir=/d"} {
		m.SetEndOffset(int64(seq) + 1)
		fs.Add(rule)
		if taken, err := m.TakeSnapshot(true); taken || err == nil {
			t.Errorf("%s: taken %v, %v", rule, taken, err)
		}
		if len(m.Snapshots()) != 0 {
			t.Errorf("%s: snapshots %v", rule, m.Snapshots())
		}
		fs.Clear()
	}
	if taken, err := m.TakeSnapshot(true); !taken || err != nil {
		t.Fatal(taken, err)
	}
	fs.Add("remove *.snapshot")
	if err := m.TruncateFully(0); err == nil || len(m.Snapshots()) != 1 {
		t.Errorf("%v, snapshots %v", err, m.Snapshots())
	}
	fs.Add("readdir dir=/d")
	if err := m.ListSnapshots(); err == nil {
		t.Error("a directory that cannot be read has no snapshots")
	}
	fs.Clear()
	fs.Add("read *.snapshot")
	m.SetEndOffset(0)
	if err := m.Load(0, 10, time.UnixMilli(0)); err == nil {
		t.Error("a snapshot that cannot be read is taken for a corrupt one")
	}
	fs.Clear()
	if err := fs.Remove(m.snapshotFile(4)); err != nil {
		t.Fatal(err)
	}
	if err := m.Load(0, 10, time.UnixMilli(0)); err != nil || len(m.Snapshots()) != 0 {
		t.Errorf("a snapshot that is gone: %v, snapshots %v", err, m.Snapshots())
	}
}

// FuzzReadSnapshot: arbitrary bytes are an error or a state that encodes to what Kafka
// would read from them.
func FuzzReadSnapshot(f *testing.F) {
	m := New(Options{})
	for pid := range int64(3) {
		if _, _, err := m.Update(produced(pid, 5, pid)); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(m.encode())
	f.Add(m.encode()[:50])
	f.Fuzz(func(t *testing.T, data []byte) {
		fixCRC(data)
		producers, _, reason := decodeSnapshot(data)
		if reason != "" {
			return
		}
		m := New(Options{Expiration: time.Hour})
		m.takeIn(producers, time.UnixMilli(0))
		again, _, reason := decodeSnapshot(m.encode())
		if reason != "" || len(again) != m.Len() {
			t.Fatalf("%d producers of %d: %s", len(again), m.Len(), reason)
		}
	})
}

// fixCRC lets the fuzzer get past the checksum.
func fixCRC(data []byte) {
	if len(data) >= snapshotHeaderSize {
		putCRC(data)
	}
}
