package logstore

import (
	"errors"
	"syscall"
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

// errseqFS reports the error of a lost page as Linux does: once to each descriptor that
// was open when it happened.
type errseqFS struct {
	vfs.FS
	lost   int // pages that could not be written so far
	onSync func()
}

type errseqSyncer struct {
	vfs.Syncer
	fs   *errseqFS
	told int
}

func (f *errseqFS) OpenSyncer(dir string) (vfs.Syncer, error) {
	s, err := f.FS.OpenSyncer(dir)
	return &errseqSyncer{s, f, f.lost}, err
}

func (s *errseqSyncer) SyncAll([]vfs.File) error {
	if hook := s.fs.onSync; hook != nil {
		s.fs.onSync = nil
		hook()
	}
	if s.told == s.fs.lost {
		return nil
	}
	s.told = s.fs.lost
	return syscall.EIO
}

// TestLostPageIsToldToBothSyncs: a round and the capture of a recovery point sync at the
// same time. A page of the file system is lost: both must hear of it, whoever asks first.
func TestLostPageIsToldToBothSyncs(t *testing.T) {
	fs := &errseqFS{FS: vfs.NewMem()}
	d, _ := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
	defer d.Abandon()
	l := mustCreate(t, d, testID("t", 0), DefaultConfig())
	d.Flush()
	mustAppend(t, l, epochTime, 1, "a")
	r := d.BeginFlush()
	var syncErr error
	fs.onSync = func() { // of the round: meanwhile
		fs.lost++
		if err := d.captureRecoveryPoints(epochTime, d.Logs()); !errors.Is(err, syscall.EIO) {
			t.Errorf("capture: %v", err)
		}
	}
	syncErr = r.Sync()
	if !errors.Is(syncErr, syscall.EIO) {
		t.Errorf("the round's sync: %v", syncErr)
	}
	if flushed := r.Finish(syncErr); len(flushed) > 0 || l.Flushed() != 0 {
		t.Errorf("flushed %v", flushed)
	}
}
