package hookfs

import (
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

// Op is a kind of call.
type Op string

// The kinds of call, named as in the rules of errfs.
const (
	Open      Op = "open"
	Mkdir     Op = "mkdir"
	Remove    Op = "remove"
	RemoveAll Op = "removeall"
	Rename    Op = "rename"
	Stat      Op = "stat"
	ReadDir   Op = "readdir"
	SetTime   Op = "settime"
	Lock      Op = "lock"
	Space     Op = "space"
	Read      Op = "read"
	Write     Op = "write"
	Truncate  Op = "truncate"
	Size      Op = "size"
	Close     Op = "close"
	Sync      Op = "sync"    // of one file, by itself or within a SyncAll
	SyncDir   Op = "syncdir" // of one directory, by itself or within a SyncDirs
	SyncAll   Op = "syncall" // of a group; the name is the syncer's directory
)

// Ops lists all kinds.
func Ops() []Op {
	return []Op{
		Open, Mkdir, Remove, RemoveAll, Rename, Stat, ReadDir, SetTime, Lock, Space,
		Read, Write, Truncate, Size, Close, Sync, SyncDir, SyncAll,
	}
}

// Call is one call that is about to be made.
type Call struct {
	Op    Op
	Name  string
	To    string // new name of a Rename
	Bytes int    // of a Read or Write

	// Partial is set by a hook that refuses a Read or Write: that many bytes are
	// read or written all the same.
	Partial int
}

// Hook sees a call before it is made; with an error the caller gets that instead.
type Hook func(*Call) error

// FS is a file system behind a hook.
type FS struct {
	inner  vfs.FS
	hook   Hook
	hideOS bool
}

// Wrap puts hook before every call of inner. With hideOS, files deny their operating
// system's file, so that nobody reads around the hook with sendfile.
func Wrap(inner vfs.FS, hideOS bool, hook Hook) *FS {
	return &FS{inner: inner, hook: hook, hideOS: hideOS}
}

func (w *FS) allow(op Op, name string) error {
	return w.hook(&Call{Op: op, Name: name})
}

func (w *FS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if err := w.allow(Open, name); err != nil {
		return nil, err
	}
	f, err := w.inner.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &file{File: f, fs: w}, nil
}

func (w *FS) MkdirAll(dir string, perm fs.FileMode) error {
	if err := w.allow(Mkdir, dir); err != nil {
		return err
	}
	return w.inner.MkdirAll(dir, perm)
}

func (w *FS) Remove(name string) error {
	if err := w.allow(Remove, name); err != nil {
		return err
	}
	return w.inner.Remove(name)
}

func (w *FS) RemoveAll(name string) error {
	if err := w.allow(RemoveAll, name); err != nil {
		return err
	}
	return w.inner.RemoveAll(name)
}

func (w *FS) Rename(from, to string) error {
	if err := w.hook(&Call{Op: Rename, Name: from, To: to}); err != nil {
		return err
	}
	return w.inner.Rename(from, to)
}

func (w *FS) Stat(name string) (fs.FileInfo, error) {
	if err := w.allow(Stat, name); err != nil {
		return nil, err
	}
	return w.inner.Stat(name)
}

func (w *FS) ReadDir(dir string) ([]fs.DirEntry, error) {
	if err := w.allow(ReadDir, dir); err != nil {
		return nil, err
	}
	return w.inner.ReadDir(dir)
}

func (w *FS) SetModTime(name string, t time.Time) error {
	if err := w.allow(SetTime, name); err != nil {
		return err
	}
	return w.inner.SetModTime(name, t)
}

func (w *FS) SyncDir(dir string) error {
	if err := w.allow(SyncDir, dir); err != nil {
		return err
	}
	return w.inner.SyncDir(dir)
}

func (w *FS) Lock(name string) (io.Closer, error) {
	if err := w.allow(Lock, name); err != nil {
		return nil, err
	}
	return w.inner.Lock(name)
}

func (w *FS) Space(dir string) (vfs.Space, error) {
	if err := w.allow(Space, dir); err != nil {
		return vfs.Space{}, err
	}
	return w.inner.Space(dir)
}

func (w *FS) OpenSyncer(dir string) (vfs.Syncer, error) {
	if err := w.allow(Open, dir); err != nil {
		return nil, err
	}
	s, err := w.inner.OpenSyncer(dir)
	if err != nil {
		return nil, err
	}
	return &syncer{Syncer: s, fs: w, dir: dir}, nil
}

type syncer struct {
	vfs.Syncer
	fs  *FS
	dir string
}

func (s *syncer) SyncAll(files []vfs.File) error {
	if err := s.fs.allow(SyncAll, s.dir); err != nil {
		return err
	}
	bare := make([]vfs.File, len(files))
	for i, f := range files {
		bare[i] = f
		wrapped, ok := f.(*file)
		if !ok || wrapped.fs != s.fs {
			continue
		}
		if err := s.fs.allow(Sync, f.Name()); err != nil {
			return err
		}
		bare[i] = wrapped.File
	}
	return s.Syncer.SyncAll(bare)
}

func (s *syncer) SyncDirs(dirs []string) error {
	for _, dir := range dirs {
		if err := s.fs.allow(SyncDir, dir); err != nil {
			return err
		}
	}
	return s.Syncer.SyncDirs(dirs)
}

// file lets Name through.
type file struct {
	vfs.File
	fs *FS
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	call := &Call{Op: Read, Name: f.Name(), Bytes: len(p)}
	if refused := f.fs.hook(call); refused != nil {
		n, err := f.File.ReadAt(p[:min(call.Partial, len(p))], off)
		if err == nil {
			err = refused
		}
		return n, err
	}
	return f.File.ReadAt(p, off)
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	call := &Call{Op: Write, Name: f.Name(), Bytes: len(p)}
	if refused := f.fs.hook(call); refused != nil {
		n, err := f.File.WriteAt(p[:min(call.Partial, len(p))], off)
		if err == nil {
			err = refused
		}
		return n, err
	}
	return f.File.WriteAt(p, off)
}

func (f *file) Truncate(size int64) error {
	if err := f.fs.allow(Truncate, f.Name()); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *file) Size() (int64, error) {
	if err := f.fs.allow(Size, f.Name()); err != nil {
		return 0, err
	}
	return f.File.Size()
}

func (f *file) Sync() error {
	if err := f.fs.allow(Sync, f.Name()); err != nil {
		return err
	}
	return f.File.Sync()
}

// Close closes the file even when the hook makes it fail.
func (f *file) Close() error {
	refused := f.fs.allow(Close, f.Name())
	if err := f.File.Close(); err != nil {
		return err
	}
	return refused
}

func (f *file) OS() *os.File {
	if f.fs.hideOS {
		return nil
	}
	return f.File.OS()
}
