package segment

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// FuzzFiles opens a segment whose files hold arbitrary bytes. Whatever they are, nothing
// panics, reads see batches or an error, and after recovery the log is whole batches
// that read back.
func FuzzFiles(f *testing.F) {
	o := testOptions(vfs.NewMem())
	s := mustCreate(f, o, 0)
	for i := range int64(6) {
		mustAppend(f, s, testBatch(3*i, 3, 30, 1000*(i%3)))
	}
	if err := s.AppendAbortedTxn(AbortedTxn{1, 2, 5, 6}); err != nil {
		f.Fatal(err)
	}
	if err := s.Close(); err != nil {
		f.Fatal(err)
	}
	var files [4][]byte
	for i, suffix := range suffixes {
		files[i], _ = vfs.ReadFile(o.FS, s.path(suffix))
	}
	f.Add(files[0], files[1], files[2], files[3], int64(7))
	f.Add(files[0][:400], files[1], files[2], files[3][:10], int64(0))
	f.Add(append(bytes.Clone(files[0]), make([]byte, 100)...), []byte{}, files[2], files[3], int64(18))
	f.Fuzz(func(t *testing.T, log, index, timeIndex, txnIndex []byte, offset int64) {
		fuzzFiles(t, [4][]byte{log, index, timeIndex, txnIndex}, offset)
	})
}

func fuzzFiles(t *testing.T, files [4][]byte, offset int64) {
	o := testOptions(vfs.NewMem())
	if err := o.FS.MkdirAll(testDir, 0o755); err != nil {
		t.Fatal(err)
	}
	for i, suffix := range suffixes {
		writeFile(t, o.FS, filepath.Join(testDir, FileName(0, suffix)), files[i])
	}
	s := mustOpen(t, o, 0)
	useAll(t, s, offset)
	s.Abandon()

	s = mustOpen(t, o, 0)
	r, err := s.Recover(RecoverParams{FromOffset: offset})
	if err != nil {
		t.Fatal(err)
	}
	whole := len(bytes.TrimRight(files[0][r.ValidSize:], "\x00")) == 0 // zeros may have been written ahead
	if (r.Damage == nil) != whole || r.ValidSize != s.Size() {
		t.Fatalf("recovered %+v, size %d", r, s.Size())
	}
	if err := s.DropTail(); err != nil {
		t.Fatal(err)
	}
	r2, err := s.Recover(RecoverParams{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if r2.Damage != nil && offset <= 0 {
		t.Fatalf("damage after recovery: %v", r2.Damage)
	}
	if r2.Damage != nil {
		return // below the offset from which the first recovery looked
	}
	s = mustOpen(t, o, 0)
	if next, err := s.NextOffset(); err != nil || next != r2.NextOffset {
		t.Fatalf("next offset %d, want %d: %v", next, r2.NextOffset, err)
	}
	useAll(t, s, offset)
}

func writeFile(t *testing.T, fs vfs.FS, name string, data []byte) {
	t.Helper()
	f, err := fs.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
}

// useAll asks everything; errors other than damage are not for bytes to cause.
func useAll(t *testing.T, s *Segment, offset int64) {
	check := func(err error) {
		t.Helper()
		var pathError *os.PathError
		if errors.Is(err, ErrClosed) || errors.As(err, &pathError) {
			t.Fatal(err)
		}
	}
	_, err := s.NextOffset()
	check(err)
	_, err = s.MaxTimestamp()
	check(err)
	_, _, err = s.FirstTimestamp()
	check(err)
	_, _, err = s.Lookup(offset)
	check(err)
	_, _, err = s.OffsetForTimestamp(offset, 0)
	check(err)
	_, _, err = s.AbortedTxns(0, offset)
	check(err)
	_, _, err = s.UpperBoundOffset(0, offset)
	check(err)
	r, err := s.Read(ReadParams{Offset: offset, MaxPos: s.Size(), MaxBytes: 200, MinOne: true})
	check(err)
	if err == nil && r.Region != nil {
		if err := checkBatches(drain(t, r.Region), offset); err != nil {
			t.Fatal(err)
		}
	}
	check(s.ForEachBatch(min(0, offset), maxOffset, func(v batch.View, _ int64) error { return v.Check() }))
}

// FuzzParseFileName: whatever is taken for a segment's file is named as we name it.
func FuzzParseFileName(f *testing.F) {
	f.Add("00000000000000000042.log")
	f.Add("00000000000000000042.log.deleted")
	f.Fuzz(func(t *testing.T, name string) {
		if base, suffix, ok := ParseFileName(name); ok && FileName(base, suffix) != name {
			t.Fatalf("%q parses to %d %q", name, base, suffix)
		}
	})
}
