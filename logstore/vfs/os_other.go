//go:build !linux

package vfs

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
)

func openFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, flag, perm)
}

// syncData is the strongest sync there is: os.File.Sync is F_FULLFSYNC on macOS.
func syncData(f *os.File) error { return f.Sync() }

// Reserve is for Linux (see there).
func Reserve(File, int64, int64) error { return errors.ErrUnsupported }

// WillNeed is for Linux (see there).
func WillNeed(File, int64, int64) {}

// DontNeed is for Linux (see there).
func DontNeed(File, int64, int64) {}

func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // NTFS journals names itself, and a directory can't be flushed
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

type osSyncer struct{}

func openSyncer(string) (Syncer, error) { return osSyncer{}, nil }

func (osSyncer) SyncAll(files []File) error   { return syncEach(files) }
func (osSyncer) SyncDirs(dirs []string) error { return syncEachDir(dirs, syncDir) }
func (osSyncer) Close() error                 { return nil }
