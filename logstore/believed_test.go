package logstore

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

// TestBatchThatSaysToReachTooFar: a flipped bit of a header, which no walk from header to
// header can tell, has a batch reach beyond where readers must stop. That is damage, and not
// nothing to read.
func TestBatchThatSaysToReachTooFar(t *testing.T) {
	fs := vfs.NewMem()
	d, _ := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
	sparse := DefaultConfig()
	sparse.IndexIntervalBytes = 200 // an entry behind the damage, so that opening does not walk over it
	l := mustCreate(t, d, testID("t", 0), sparse)
	mustAppend(t, l, epochTime, 0, "a")
	second := l.SizeBytes()
	mustAppend(t, l, epochTime, 0, "b")
	for _, value := range []string{"c", "d", "e", "f"} {
		mustAppend(t, l, epochTime, 0, value)
	}
	if err := d.Close(epochTime, 1); err != nil {
		t.Fatal(err)
	}
	f, err := fs.OpenFile(filepath.Join(l.Path(), "00000000000000000000.log"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	const lastOffsetDeltaAt = 23
	_, err = f.WriteAt([]byte{1}, second+lastOffsetDeltaAt)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	d, report := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
	defer d.Abandon()
	info, err := report.Opened[0].Read(ReadParams{Offset: 1, MaxBytes: 1 << 20, UpTo: 2, MinOne: true})
	var corrupt *CorruptionError
	if !errors.As(err, &corrupt) || corrupt.Pos != second {
		t.Errorf("read: %+v, %v", info, err)
	}
	if report.Opened[0].Failure() == nil {
		t.Error("the log has not failed")
	}
}
