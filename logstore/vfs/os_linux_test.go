package vfs

import (
	"bytes"
	"errors"
	"os"
	"syscall"
	"testing"
)

func TestKernelAtLeast(t *testing.T) {
	tests := []struct {
		release string
		want    bool
	}{
		{"5.8.0", true},
		{"5.8-rc1", true},
		{"5.10.1-generic", true},
		{"6.0", true},
		{"5.7.19", false},
		{"4.19.0", false},
		{"5", false},
		{"", false},
		{"Linux", false},
	}
	for _, test := range tests {
		if got := kernelAtLeast(test.release, 5, 8); got != test.want {
			t.Errorf("kernelAtLeast(%q, 5, 8) = %v", test.release, got)
		}
	}
}

// Few files are synced one by one wherever they are; many are, too, where syncfs is not
// known to report errors. A closed file shows which of the two was done: syncfs does not
// look at files.
// The directories of a SyncDirs are opened one by one, or not at all.
func TestSyncDirsPicksItsSystemCall(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	check(t, err)
	defer dir.Close()
	f, err := os.Create(dir.Name() + "/f")
	check(t, err)
	check(t, f.Close())
	bad := make([]string, syncfsMinFiles)
	for i := range bad {
		bad[i] = f.Name() + "/below-a-file"
	}
	good := &osSyncer{dir: dir, syncfs: true}
	if err := good.SyncDirs(bad); err != nil {
		t.Errorf("many directories on a known file system: %v", err)
	}
	if err := good.SyncDirs(bad[1:]); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("few directories: %v, want that of opening one", err)
	}
	if err := (&osSyncer{dir: dir}).SyncDirs(bad); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("many directories on an unknown file system: %v, want that of opening one", err)
	}
}

// The kernel tells of an error once. Two who sync one file must both hear of it.
func TestFailedSyncStaysFailed(t *testing.T) {
	var s stickyError
	kernel := []error{nil, syscall.EIO, nil}
	for i, want := range []error{nil, syscall.EIO, syscall.EIO} {
		err := s.run(func() error { return kernel[i] })
		if !errors.Is(err, want) {
			t.Errorf("sync %d: %v, want %v", i+1, err, want)
		}
	}
}

func TestSyncAllPicksItsSystemCall(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	check(t, err)
	defer dir.Close()
	closed, err := OS().OpenFile(dir.Name()+"/f", os.O_CREATE|os.O_RDWR, 0o644)
	check(t, err)
	check(t, closed.Close())

	few := make([]File, syncfsMinFiles-1)
	many := make([]File, syncfsMinFiles)
	for i := range many {
		many[i] = closed
	}
	copy(few, many)

	good := &osSyncer{dir: dir, syncfs: true}
	unknown := &osSyncer{dir: dir, syncfs: false}
	if err := good.SyncAll(many); err != nil {
		t.Errorf("many files on a known file system: %v", err)
	}
	for name, sync := range map[string]func() error{
		"few files":                            func() error { return good.SyncAll(few) },
		"many files on an unknown file system": func() error { return unknown.SyncAll(many) },
	} {
		if err := sync(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: %v, want fdatasync of each", name, err)
		}
	}
}

// What the system is told of a file changes nothing that is in it, whether or not it was synced;
// where there is nothing to tell, nobody minds.
func TestAdviceChangesNothing(t *testing.T) {
	for name, fsys := range map[string]FS{"OS": OS(), "memory": NewMem()} {
		dir := t.TempDir()
		check(t, fsys.MkdirAll(dir, 0o755))
		f, err := fsys.OpenFile(dir+"/f", os.O_RDWR|os.O_CREATE, 0o644)
		check(t, err)
		want := bytes.Repeat([]byte("records "), 100_000)
		_, err = f.WriteAt(want[:500_000], 0)
		check(t, err)
		check(t, f.Sync())
		_, err = f.WriteAt(want[500_000:], 500_000)
		check(t, err)
		for _, advise := range []func(File, int64, int64){DontNeed, WillNeed, DontNeed} {
			for _, n := range []int64{0, 1, 300_000, 1 << 40} {
				advise(f, 1, n)
			}
			got := make([]byte, len(want))
			if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: other bytes, %v", name, err)
			}
		}
		check(t, f.Close())
		WillNeed(f, 0, 1)
	}
}
