package segment

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/countfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
)

// appender returns a function that appends the same batch of 10 records once more, warmed
// up until the recent batches take no more memory.
func appender(t *testing.T, fs vfs.FS) (s *Segment, appendNext func(), size int) {
	t.Helper()
	o := testOptions(fs)
	o.IndexIntervalBytes = 4096
	dir := t.TempDir()
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := Create(dir, 0, testNow, o)
	if err != nil {
		t.Fatal(err)
	}
	v := testBatch(0, 10, 1000, 1000)
	next := int64(0)
	appendNext = func() {
		v.SetBaseOffset(next)
		next = v.NextOffset()
		if err := s.Append(testNow, v); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 * maxRecent {
		appendNext()
	}
	return s, appendNext, len(v)
}

// TestAppendBudget: an append is one WriteAt, and allocates nothing but now and then room
// for index entries.
func TestAppendBudget(t *testing.T) {
	s, appendNext, _ := appender(t, vfs.OS())
	defer s.Abandon()
	if allocs := testing.AllocsPerRun(1000, appendNext); allocs > 0 {
		t.Errorf("%v allocations per append", allocs)
	}

	fs := countfs.Wrap(vfs.OS())
	s, appendNext, size := appender(t, fs)
	defer s.Abandon()
	fs.Reset()
	for range 100 {
		appendNext()
	}
	if got, want := fs.String(), fmt.Sprintf("write=100/%dB", 100*size); got != want {
		t.Errorf("appends made these calls: %s, want %s", got, want)
	}
}

// TestReadBudget: a read near the end of the log touches memory only, and allocates the
// region.
func TestReadBudget(t *testing.T) {
	fs := countfs.Wrap(vfs.OS())
	s, _, _ := appender(t, fs)
	defer s.Abandon()
	next, err := s.NextOffset()
	if err != nil {
		t.Fatal(err)
	}
	fs.Reset()
	allocs := testing.AllocsPerRun(100, func() {
		r, err := s.Read(ReadParams{Offset: next - 50, MaxPos: s.Size(), MaxBytes: 1 << 20, MinOne: true})
		if err != nil || r.Region.Len() == 0 {
			t.Fatal(err)
		}
		r.Region.Release()
	})
	if allocs > 1 {
		t.Errorf("%v allocations per read, want 1", allocs)
	}
	if got := fs.String(); got != "" {
		t.Errorf("reads made these calls: %s", got)
	}
}

// TestColdReadBudget: a read somewhere in a segment of a gigabyte looks at one window to
// find its batch, and at each byte once to check it.
func TestColdReadBudget(t *testing.T) {
	fs := countfs.Wrap(vfs.NewMem())
	s, appendNext, size := appender(t, fs)
	for range 2000 {
		appendNext()
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(s.dir, 0, testNow, s.opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.NextOffset(); err != nil {
		t.Fatal(err)
	}
	fs.Reset()
	read := func() {
		r, err := s.Read(ReadParams{Offset: 5555, MaxPos: s.Size(), MaxBytes: 10 * size})
		if err != nil {
			t.Fatal(err)
		}
		r.Region.Release()
	}
	read()
	if got, want := fs.String(), fmt.Sprintf("read=2/%dB", windowSize+10*size); got != want {
		t.Errorf("the first read made these calls: %s, want %s", got, want)
	}
	fs.Reset()
	read()
	if got, want := fs.String(), fmt.Sprintf("read=1/%dB", windowSize); got != want {
		t.Errorf("the second read made these calls: %s, want %s", got, want)
	}
}

// TestWholeReadBudget: a read of whole batches looks at their headers, and at nothing behind the
// last one but a header; what is there may not be in memory.
func TestWholeReadBudget(t *testing.T) {
	for _, batches := range []int{3, 10, 1500} { // few, some, and so many that chunks are read
		fs := countfs.Wrap(vfs.NewMem())
		s, appendNext, size := appender(t, fs)
		for range 3000 {
			appendNext()
		}
		fs.Reset()
		for _, more := range []int{0, 1, size - 1} {
			r, err := s.Read(ReadParams{Offset: s.BaseOffset(), MaxPos: s.Size(), MaxBytes: batches*size + more, Whole: true, Prefetch: true})
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Region.Len(); got != batches*size {
				t.Errorf("%d batches and %d bytes: %d bytes", batches, more, got)
			}
			r.Region.Release()
		}
		if reads := fs.Of(hookfs.Read); reads.Bytes > int64(3*((batches+1)*size+windowSize)) {
			t.Errorf("%d batches of %d bytes: %d bytes were read", batches, size, reads.Bytes)
		}
	}
}

// TestRebuildBudget: an index that is missing is built by one sequential pass over the
// log, in large pieces once it is clear that it is a long one.
func TestRebuildBudget(t *testing.T) {
	fs := countfs.Wrap(vfs.NewMem())
	s, appendNext, size := appender(t, fs)
	const batches = 4000
	for range batches - 2*maxRecent {
		appendNext()
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := fs.Remove(s.path(IndexSuffix)); err != nil {
		t.Fatal(err)
	}
	want := s.content.offsets.raw
	s, err := Open(s.dir, 0, testNow, s.opts)
	if err != nil {
		t.Fatal(err)
	}
	fs.Reset()
	if _, err := s.NextOffset(); err != nil {
		t.Fatal(err)
	}
	reads := fs.Of(hookfs.Read)
	if total := int64(batches * size); reads.Bytes < total-windowSize || reads.Bytes > total+total/10 || reads.Calls > 20 {
		t.Errorf("%d reads of %d bytes for a log of %d", reads.Calls, reads.Bytes, total)
	}
	if !bytes.Equal(s.content.offsets.raw, want) {
		t.Error("the index is another one than before")
	}
}

func BenchmarkAppend(b *testing.B) {
	o := testOptions(vfs.OS())
	o.IndexIntervalBytes = 4096
	v := testBatch(0, 10, 1000, 1000)
	var s *Segment
	next, dir := int64(0), b.TempDir()
	b.SetBytes(int64(len(v)))
	b.ReportAllocs()
	for b.Loop() {
		if s == nil || s.Size() > 256<<20 {
			if s != nil {
				if err := s.Delete(); err != nil {
					b.Fatal(err)
				}
			}
			var err error
			if s, err = Create(dir, next, testNow, o); err != nil {
				b.Fatal(err)
			}
		}
		v.SetBaseOffset(next)
		next = v.NextOffset()
		if err := s.Append(testNow, v); err != nil {
			b.Fatal(err)
		}
	}
}
