package segment

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// TestReadersBesideWriter reads, looks up and flushes while batches are appended and
// truncated, index files are written and the pool evicts. No reader may see damage, and
// what it reads is whole batches unless a truncation came between.
func TestReadersBesideWriter(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.Pool = NewFilePool(PoolOptions{MaxOpenFiles: 1, MaxIndexBytes: 1})
	s := mustCreate(t, o, 0)
	other := mustCreate(t, o, 1_000_000)
	var done atomic.Bool
	var wg sync.WaitGroup
	beside := func(seed uint64, fn func(*rand.Rand) error) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 0))
			for !done.Load() {
				if err := fn(rng); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	beside(1, func(rng *rand.Rand) error { return readSome(s, rng) })
	beside(2, func(rng *rand.Rand) error { return readSome(s, rng) })
	beside(3, func(rng *rand.Rand) error { return flushSome(s) })
	beside(4, func(rng *rand.Rand) error {
		_, _, err := other.Lookup(0)
		return errors.Join(err, s.SyncIndexes())
	})
	beside(5, func(rng *rand.Rand) error {
		_, _, err := s.OffsetForTimestamp(rng.Int64N(5000), 0)
		return err
	})

	rng := rand.New(rand.NewPCG(6, 0))
	next := int64(0)
	for range 3000 {
		if rng.IntN(10) == 0 {
			next = truncateSome(t, s, rng, next)
			continue
		}
		v := testBatch(next, 1+rng.IntN(3), 10+rng.IntN(2000), rng.Int64N(5000))
		mustAppend(t, s, v)
		next = v.NextOffset()
	}
	done.Store(true)
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if n := o.Pool.OpenFiles(); n != 0 {
		t.Errorf("%d files are still open", n)
	}
}

func truncateSome(t *testing.T, s *Segment, rng *rand.Rand, next int64) int64 {
	if _, err := s.TruncateTo(testNow, next-rng.Int64N(min(next, 20)+1)); err != nil {
		t.Fatal(err)
	}
	next, err := s.NextOffset()
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func readSome(s *Segment, rng *rand.Rand) error {
	before := s.currentGeneration()
	next, err := s.NextOffset()
	if err != nil {
		return err
	}
	from := rng.Int64N(next + 1)
	r, err := s.Read(ReadParams{Offset: from, MaxPos: s.Size(), MaxBytes: rng.IntN(5000), MinOne: true})
	if err != nil || r.Region == nil {
		return err
	}
	defer r.Region.Release()
	buf := make([]byte, r.Region.Len())
	n, err := r.Region.ReadAt(buf, 0)
	if s.currentGeneration() != before {
		return nil // cut off or overwritten: the reader's own checks notice
	}
	if err != nil {
		return err
	}
	return checkBatches(buf[:n], from)
}

func checkBatches(buf []byte, from int64) error {
	for first := true; len(buf) > 0; first = false {
		v, rest, err := batch.Next(buf)
		if err != nil {
			if first {
				return err
			}
			return nil // the last one is cut
		}
		if err := v.Check(); err != nil {
			return err
		}
		if first && v.LastOffset() < from {
			return errors.New("the region begins too early")
		}
		buf = rest
	}
	return nil
}

func flushSome(s *Segment) error {
	f, err := s.BeginFlush()
	if f == nil || err != nil {
		return err
	}
	f.Finish(f.File().Sync())
	return nil
}

// TestRegionOutlivesDeletion: what was handed out stays readable after the segment is
// closed, evicted, or deleted, and the descriptor is closed with the last of them.
func TestRegionOutlivesDeletion(t *testing.T) {
	o := testOptions(vfs.OS())
	dir := t.TempDir()
	s, err := Create(dir, 0, testNow, o)
	if err != nil {
		t.Fatal(err)
	}
	want := testBatch(0, 3, 300, 1000)
	mustAppend(t, s, want)
	r, err := s.Read(ReadParams{MaxPos: s.Size(), MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(ReadParams{MaxPos: 1, MaxBytes: 1}); !errors.Is(err, ErrClosed) {
		t.Errorf("read after delete: %v", err)
	}
	if f, pos := r.Region.File(); f == nil || pos != 0 {
		t.Errorf("File() = %v, %d", f, pos)
	}
	if o.Pool.OpenFiles() != 1 {
		t.Error("the file is closed although a region is in flight")
	}
	if got := drain(t, r.Region); !bytes.Equal(got, want) {
		t.Error("the region has other bytes than were appended")
	}
	if o.Pool.OpenFiles() != 0 {
		t.Error("the file is open although nobody uses it")
	}
}

// TestTruncatedRegionEndsEarly: a region that was cut off under its reader ends with an
// error, not with other bytes.
func TestTruncatedRegionEndsEarly(t *testing.T) {
	s := mustCreate(t, testOptions(vfs.NewMem()), 0)
	mustAppend(t, s, testBatch(0, 1, 100, 0), testBatch(1, 1, 100, 0))
	r, err := s.Read(ReadParams{MaxPos: s.Size(), MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Region.Release()
	if _, err := s.TruncateTo(testNow, 1); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, r.Region.Len())
	if n, err := r.Region.ReadAt(buf, 0); err == nil || int64(n) != s.Size() {
		t.Errorf("read %d bytes, %v", n, err)
	}
}
