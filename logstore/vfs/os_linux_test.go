package vfs

import (
	"errors"
	"os"
	"testing"
)

func TestKernelAtLeast(t *testing.T) {
	tests := []struct {
		release string
		want    bool
	}{
		{"5.8.0", true}, {"5.8-rc1", true}, {"5.10.1-generic", true}, {"6.0", true},
		{"5.7.19", false}, {"4.19.0", false}, {"5", false}, {"", false}, {"Linux", false},
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
