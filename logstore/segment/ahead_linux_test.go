package segment

import (
	"os"
	"syscall"
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

// diskBytes is what a segment's log file takes of the disk.
func diskBytes(t *testing.T, s *Segment) int64 {
	t.Helper()
	info, err := os.Stat(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Blocks * 512
}

// TestReservedBlocks: with the first zeros the disk has blocks for as much as a segment may
// still get, and the cut gives back what it did not need.
func TestReservedBlocks(t *testing.T) {
	const block, limit = 4096, 1 << 20
	s, err := Create(t.TempDir(), 0, testNow, testOptions(vfs.OS()))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Abandon()
	v := testBatch(0, 1, 100, 1000)
	taken, err := s.WriteAhead(AheadParams{Now: testNow, AppendBytes: len(v), BlockBytes: block, MaxBytes: limit, Reserve: ReserveBytes})
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, s, v)
	if taken != limit+block {
		t.Errorf("it took %d bytes, want %d and the zeros", taken, limit)
	}
	if got := diskBytes(t, s); got < limit {
		t.Errorf("%d bytes of the disk are the file's, want %d", got, limit)
	}
	if got := fileSize(t, s); got != block {
		t.Errorf("the file has %d bytes, want %d", got, block)
	}
	if err := s.DropTail(); err != nil {
		t.Fatal(err)
	}
	if got := diskBytes(t, s); got > 2*block {
		t.Errorf("after the cut %d bytes of the disk are the file's, which has %d", got, fileSize(t, s))
	}
}

// TestNothingIsReserved where nothing may be: the zeros are there all the same.
func TestNothingIsReserved(t *testing.T) {
	const block = 4096
	s, err := Create(t.TempDir(), 0, testNow, testOptions(vfs.OS()))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Abandon()
	v := testBatch(0, 1, 100, 1000)
	taken, err := s.WriteAhead(AheadParams{Now: testNow, AppendBytes: len(v), BlockBytes: block, MaxBytes: 1 << 20})
	if err != nil || taken != block {
		t.Errorf("it took %d bytes, %v, want %d", taken, err, block)
	}
	if got := diskBytes(t, s); got > 2*block {
		t.Errorf("%d bytes of the disk are the file's", got)
	}
}
