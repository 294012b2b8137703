package segment

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/countfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
)

// appendHot appends one batch of about 100 bytes, prepared for with blocks of 1,000.
func appendHot(t *testing.T, s *Segment, now time.Time, hotBytes int) (written int, err error) {
	t.Helper()
	v := testBatch(nextOffset(t, s), 1, 32, 1000)
	written, err = s.WriteAhead(AheadParams{Now: now, AppendBytes: len(v), BlockBytes: 1000, HotBytes: hotBytes})
	mustAppend(t, s, v)
	return written, err
}

func nextOffset(t *testing.T, s *Segment) int64 {
	t.Helper()
	next, err := s.NextOffset()
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func fileSize(t *testing.T, s *Segment) int64 {
	t.Helper()
	info, err := s.opts.FS.Stat(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestWriteAheadBlocks: of a hot segment, blocks are written where an append needs them, and
// they are no part of the segment.
func TestWriteAheadBlocks(t *testing.T) {
	s := mustCreate(t, testOptions(vfs.NewMem()), 0)
	defer s.Abandon()
	for i := range 100 {
		before := s.Size()
		written, err := appendHot(t, s, testNow, 0)
		if err != nil {
			t.Fatal(err)
		}
		if due := before%1000 == 0 || before/1000 < s.Size()/1000 && s.Size()%1000 > 0; due != (written == 1000) {
			t.Fatalf("append %d, from byte %d to %d, has written %d bytes ahead", i, before, s.Size(), written)
		}
		if size := fileSize(t, s); size%1000 != 0 || size < s.Size() || size != s.Size()+s.Ahead() {
			t.Fatalf("the file has %d bytes, the segment %d, and %d ahead", size, s.Size(), s.Ahead())
		}
	}
	if got := len(mustRead(t, s, 0)); int64(got) != s.Size() {
		t.Errorf("%d bytes were read, the segment has %d", got, s.Size())
	}
	if err := s.DropTail(); err != nil {
		t.Fatal(err)
	}
	if fileSize(t, s) != s.Size() || s.Ahead() != 0 {
		t.Errorf("after the cut, the file has %d bytes, the segment %d", fileSize(t, s), s.Size())
	}
}

// TestHeat: a segment is hot as soon as it gets enough within a second, and stays so while
// the second before had enough.
func TestHeat(t *testing.T) {
	var a ahead
	const enough = 1000
	for i, step := range []struct {
		ms, n int64
		hot   bool
	}{
		{0, 400, false},
		{100, 400, false},
		{200, 400, true},
		{1000, 1, true}, // as the second before
		{1999, 1, true},
		{2000, 1, false},
		{2100, 1200, true},
		{5000, 1, false}, // there was a second without anything
		{4000, 1, false}, // the clock went back
	} {
		a.warm(step.ms, step.n, enough)
		if hot := a.hot || a.heat >= enough; hot != step.hot {
			t.Errorf("step %d: hot %v, want %v", i, hot, step.hot)
		}
	}
}

// TestWriteAheadNotForAll: neither cold segments nor large appends are prepared for, nor the
// end of what a position can express.
func TestWriteAheadNotForAll(t *testing.T) {
	s := mustCreate(t, testOptions(vfs.NewMem()), 0)
	defer s.Abandon()
	for _, test := range []struct {
		name string
		p    AheadParams
		size int64
	}{
		{"cold", AheadParams{AppendBytes: 400, BlockBytes: 1000, HotBytes: 1 << 20}, 0},
		{"large", AheadParams{AppendBytes: 1001, BlockBytes: 1000}, 0},
		{"end", AheadParams{AppendBytes: 400, BlockBytes: 1000}, maxSize - 500},
	} {
		s.size = test.size
		test.p.Now = testNow
		if n, err := s.WriteAhead(test.p); n != 0 || err != nil {
			t.Errorf("%s: %d bytes written ahead, %v", test.name, n, err)
		}
	}
	s.size = 0
}

// TestWriteAheadFailure: an error while preparing leaves nothing behind and does not keep
// anybody from appending; for a while it is not tried again.
func TestWriteAheadFailure(t *testing.T) {
	full := true
	fs := hookfs.Wrap(vfs.NewMem(), false, func(c *hookfs.Call) error {
		if c.Op == hookfs.Write && c.Bytes == 1000 && full {
			c.Partial = 700
			return syscall.ENOSPC
		}
		return nil
	})
	s := mustCreate(t, testOptions(fs), 0)
	defer s.Abandon()
	if _, err := appendHot(t, s, testNow, 0); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("error %v, want no space", err)
	}
	full = false
	for _, after := range []time.Duration{0, 59 * time.Second} {
		if n, err := appendHot(t, s, testNow.Add(after), 0); n != 0 || err != nil {
			t.Errorf("after %v, %d bytes were written ahead, %v", after, n, err)
		}
		if fileSize(t, s) != s.Size() {
			t.Errorf("the file has %d bytes, the segment %d", fileSize(t, s), s.Size())
		}
	}
	for fileSize(t, s) == s.Size() {
		if _, err := appendHot(t, s, testNow.Add(time.Minute), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWriteAheadBudget: preparing is one write for each block, and allocates nothing.
func TestWriteAheadBudget(t *testing.T) {
	fs := countfs.Wrap(vfs.NewMem())
	s, appendNext, size := appender(t, fs)
	defer s.Abandon()
	block := 10 * size
	hot := func() {
		if _, err := s.WriteAhead(AheadParams{Now: testNow, AppendBytes: size, BlockBytes: block}); err != nil {
			t.Fatal(err)
		}
		appendNext()
	}
	for s.Size()%int64(block) != 0 {
		hot()
	}
	if err := s.DropTail(); err != nil {
		t.Fatal(err)
	}
	fs.Reset()
	for range 100 {
		hot()
	}
	if got, want := fs.String(), fmt.Sprintf("write=110/%dB", 200*size); got != want {
		t.Errorf("hot appends made these calls: %s, want %s", got, want)
	}

	s, appendNext, size = appender(t, vfs.OS())
	defer s.Abandon()
	if allocs := testing.AllocsPerRun(1000, hot); allocs > 0 {
		t.Errorf("%v allocations for each hot append", allocs)
	}
}

// TestRecoverZeros: what was written ahead is no damage, also behind a torn batch, where the
// batch alone is.
func TestRecoverZeros(t *testing.T) {
	for _, torn := range []bool{false, true} {
		o := testOptions(vfs.NewMem())
		s := mustCreate(t, o, 0)
		for range 15 {
			if _, err := appendHot(t, s, testNow, 0); err != nil {
				t.Fatal(err)
			}
		}
		size, end := s.Size(), nextOffset(t, s)
		if torn {
			f, err := s.acquireToWrite()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt(testBatch(end, 1, 32, 1000)[:80], size); err != nil {
				t.Fatal(err)
			}
			s.releaseWritten(f)
		}
		s.Abandon()

		s = mustOpen(t, o, 0)
		r, err := s.Recover(RecoverParams{})
		if err != nil || r.ValidSize != size || r.NextOffset != end || r.FileSize != 2000 || torn != (r.Damage != nil) {
			t.Errorf("torn %v: recovered %+v, %v; want %d bytes", torn, r, err, size)
		}
		if err := s.DropTail(); err != nil || fileSize(t, s) != size {
			t.Errorf("torn %v: %v, %d bytes in the file", torn, err, fileSize(t, s))
		}
		s.Abandon()
	}
}

// TestTruncateCutsAhead: a truncation takes what was written ahead with it.
func TestTruncateCutsAhead(t *testing.T) {
	s := mustCreate(t, testOptions(vfs.NewMem()), 0)
	defer s.Abandon()
	for range 15 {
		if _, err := appendHot(t, s, testNow, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.TruncateTo(testNow, 4); err != nil {
		t.Fatal(err)
	}
	if fileSize(t, s) != s.Size() || s.Ahead() != 0 {
		t.Errorf("the file has %d bytes, the segment %d, and %d ahead", fileSize(t, s), s.Size(), s.Ahead())
	}
}
