package segment

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
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

// TestReaderOvertakenByTruncation: between a reader's look at the index and its look at
// the file, batches are truncated and others written in their place. What it meets is no
// damage.
func TestReaderOvertakenByTruncation(t *testing.T) {
	readers := map[string]func(*Segment) error{
		"lookup":  func(s *Segment) error { _, _, err := s.Lookup(3); return err },
		"read":    func(s *Segment) error { return readAt(s, 1) },
		"by time": func(s *Segment) error { _, _, err := s.OffsetForTimestamp(1, 0); return err },
		"walk": func(s *Segment) error {
			return s.ForEachBatch(0, maxOffset, func(v batch.View, _ int64) error { return v.Check() })
		},
	}
	for name, read := range readers {
		for overtakeAt := 1; overtakeAt <= 2; overtakeAt++ {
			s, arm := overtakenSegment(t)
			arm(overtakeAt)
			if err := read(s); err != nil {
				t.Errorf("%s, overtaken at read %d: %v", name, overtakeAt, err)
			}
		}
	}
}

func readAt(s *Segment, o int64) error {
	r, err := s.Read(ReadParams{Offset: o, MaxPos: s.Size(), MaxBytes: 1 << 20})
	if r.Region != nil {
		r.Region.Release()
	}
	return err
}

// overtakenSegment is a cold one in which all batches but the first are replaced by a
// larger one just before the n-th read of its log file.
func overtakenSegment(t *testing.T) (s *Segment, arm func(n int)) {
	countdown := 0
	fsys := hookfs.Wrap(vfs.NewMem(), false, func(c *hookfs.Call) error {
		if c.Op != hookfs.Read || countdown == 0 {
			return nil
		}
		if countdown--; countdown > 0 {
			return nil
		}
		if _, err := s.TruncateTo(testNow, 1); err != nil {
			return err
		}
		return s.Append(testNow, testBatch(1, 1, 3000, 0))
	})
	o := testOptions(fsys)
	o.IndexIntervalBytes = 1 << 20
	s = mustCreate(t, o, 0)
	for i := range int64(10) {
		mustAppend(t, s, testBatch(i, 1, 100, i))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, o, 0)
	if err := s.Seal(); err != nil { // loads the indexes
		t.Fatal(err)
	}
	return s, func(n int) { countdown = n }
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
