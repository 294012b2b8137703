package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"
)

// OS returns the operating system's file system.
func OS() FS { return osFS{} }

type osFS struct{}

func (osFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := openFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &osFile{f: f}, nil
}

func (osFS) MkdirAll(dir string, perm fs.FileMode) error { return os.MkdirAll(dir, perm) }
func (osFS) Remove(name string) error                    { return os.Remove(name) }
func (osFS) RemoveAll(name string) error                 { return os.RemoveAll(name) }
func (osFS) Rename(from, to string) error                { return os.Rename(from, to) }
func (osFS) Stat(name string) (fs.FileInfo, error)       { return os.Stat(name) }
func (osFS) ReadDir(dir string) ([]fs.DirEntry, error)   { return os.ReadDir(dir) }
func (osFS) SetModTime(name string, t time.Time) error   { return os.Chtimes(name, time.Time{}, t) }
func (osFS) SyncDir(dir string) error                    { return syncDir(dir) }
func (osFS) OpenSyncer(dir string) (Syncer, error)       { return openSyncer(dir) }
func (osFS) Lock(name string) (io.Closer, error)         { return lockFile(name) }
func (osFS) Space(dir string) (Space, error)             { return space(dir) }

// osFile leaves concurrency to os.File: its calls hold a reference to the descriptor,
// so that a Close during a Sync or ReadAt waits for it.
type osFile struct {
	f *os.File

	syncs stickyError
}

// stickyError runs syncs one after the other; after one has failed, all that follow fail.
type stickyError struct {
	mu  sync.Mutex
	err error
}

func (s *stickyError) run(sync func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = sync()
	}
	return s.err
}

func (o *osFile) ReadAt(p []byte, off int64) (int, error)  { return o.f.ReadAt(p, off) }
func (o *osFile) WriteAt(p []byte, off int64) (int, error) { return o.f.WriteAt(p, off) }
func (o *osFile) Close() error                             { return o.f.Close() }
func (o *osFile) Name() string                             { return o.f.Name() }
func (o *osFile) Truncate(size int64) error                { return o.f.Truncate(size) }
func (o *osFile) OS() *os.File                             { return o.f }

func (o *osFile) Sync() error {
	return o.syncs.run(func() error { return syncData(o.f) })
}

func (o *osFile) Size() (int64, error) {
	info, err := o.f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// syncEach is SyncAll without help from the file system.
func syncEach(files []File) error {
	for _, f := range files {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// syncEachDir is SyncDirs without help from the file system.
func syncEachDir(dirs []string, sync func(dir string) error) error {
	for _, dir := range dirs {
		if err := sync(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
