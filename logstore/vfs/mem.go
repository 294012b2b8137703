package vfs

import (
	"io"
	"io/fs"
	"math"
	"os"
	"syscall"
	"time"
)

// MemFS is a file system in memory that never crashes; for crashes see CrashFS.
// Names are absolute, or relative to its root, which exists.
type MemFS struct{ view }

// NewMem returns an empty file system of unlimited size.
func NewMem() *MemFS {
	return &MemFS{view{m: newMemory()}}
}

// SetCapacity limits the bytes of all files together; writes beyond it store what fits
// and fail with ENOSPC. 0 is no limit.
func (m *MemFS) SetCapacity(bytes int64) { m.m.setCapacity(bytes) }

// SetClock replaces time.Now for the time stamps of files.
func (m *MemFS) SetClock(now func() time.Time) { m.m.setClock(now) }

func (m *memory) setCapacity(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.capacity = bytes
}

func (m *memory) setClock(now func() time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = now
}

// view is the file system as one process sees it: until the next crash.
type view struct {
	m    *memory
	life uint64
}

// enter locks the file system for one call of this process.
func (v view) enter() error {
	v.m.mu.Lock()
	if v.life != v.m.life {
		v.m.mu.Unlock()
		return ErrCrashed
	}
	return nil
}

// do runs one call, and says in its error what was attempted.
func (v view) do(op, name string, call func() error) error {
	err := v.enter()
	if err == nil {
		err = call()
		v.m.mu.Unlock()
	}
	return pathError(op, name, err)
}

func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

const writeFlags = os.O_WRONLY | os.O_RDWR

func (v view) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f := &memFile{
		view: v, name: name,
		readable:   flag&os.O_WRONLY == 0,
		writable:   flag&writeFlags != 0,
		appendOnly: flag&os.O_APPEND != 0,
	}
	err := v.do("open", name, func() (err error) {
		f.node, err = v.m.open(name, flag, perm)
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (m *memory) open(name string, flag int, perm fs.FileMode) (*node, error) {
	dir, base, err := m.parent(name)
	if err != nil {
		return nil, err
	}
	n := dir.children[base]
	switch {
	case n == nil && flag&os.O_CREATE == 0:
		return nil, syscall.ENOENT
	case n == nil:
		n = m.newNode(perm.Perm())
		m.rebind(nameChange{dir, base, n})
	case flag&os.O_CREATE != 0 && flag&os.O_EXCL != 0:
		return nil, syscall.EEXIST
	case n.isDir():
		return nil, syscall.EISDIR
	case flag&os.O_TRUNC != 0 && flag&writeFlags != 0:
		err = m.truncate(n, 0)
	}
	return n, err
}

func (v view) MkdirAll(dir string, perm fs.FileMode) error {
	return v.do("mkdir", dir, func() error { return v.m.mkdirAll(dir, perm) })
}

func (v view) Remove(name string) error {
	return v.do("remove", name, func() error { return v.m.remove(name) })
}

func (v view) RemoveAll(name string) error {
	return v.do("removeall", name, func() error { return v.m.removeAll(name) })
}

func (v view) Rename(from, to string) error {
	err := v.enter()
	if err == nil {
		err = v.m.rename(from, to)
		v.m.mu.Unlock()
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

func (v view) Stat(name string) (info fs.FileInfo, err error) {
	err = v.do("stat", name, func() error {
		n, err := v.m.lookup(name)
		if err == nil {
			path := append([]string{"/"}, elements(name)...)
			info = n.info(path[len(path)-1])
		}
		return err
	})
	return info, err
}

func (v view) ReadDir(dir string) (entries []fs.DirEntry, err error) {
	err = v.do("open", dir, func() error {
		n, err := v.m.lookup(dir)
		if err == nil && !n.isDir() {
			err = syscall.ENOTDIR
		}
		if err != nil {
			return err
		}
		for _, name := range sortedNames(n.children) {
			entries = append(entries, fs.FileInfoToDirEntry(n.children[name].info(name)))
		}
		return nil
	})
	return entries, err
}

// SetModTime lasts at once: a power cut loses names and bytes only.
func (v view) SetModTime(name string, t time.Time) error {
	return v.do("chtimes", name, func() error {
		n, err := v.m.lookup(name)
		if err == nil {
			n.modTime = t
		}
		return err
	})
}

func (v view) SyncDir(dir string) error {
	var n *node
	err := v.do("sync", dir, func() (err error) {
		if n, err = v.m.lookup(dir); err == nil && !n.isDir() {
			err = syscall.ENOTDIR
		}
		return err
	})
	if err != nil || v.m.crash == nil {
		return err
	}
	return pathError("sync", dir, v.m.crash.syncDir(v, dir, n))
}

// Space reports half of the largest number while the size is unlimited.
func (v view) Space(dir string) (s Space, err error) {
	err = v.do("statfs", dir, func() error {
		s = Space{TotalBytes: uint64(v.m.capacity)}
		if v.m.capacity == 0 {
			s.TotalBytes = math.MaxInt64
		}
		s.AvailBytes = s.TotalBytes - min(s.TotalBytes, uint64(v.m.used))
		_, err := v.m.lookup(dir)
		return err
	})
	return s, err
}

// memLock is a held lock file.
type memLock struct {
	view view
	name string
}

func (v view) Lock(name string) (io.Closer, error) {
	lock := &memLock{view: v, name: name}
	err := v.do("lock", name, func() error {
		n, err := v.m.open(name, os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return err
		}
		if v.m.locks[n] != nil {
			return ErrLocked
		}
		v.m.locks[n] = lock
		return nil
	})
	if err != nil {
		return nil, err
	}
	return lock, nil
}

func (l *memLock) Close() error {
	return l.view.do("unlock", l.name, func() error {
		for n, holder := range l.view.m.locks {
			if holder == l {
				delete(l.view.m.locks, n)
				return nil
			}
		}
		return os.ErrClosed
	})
}

func (v view) OpenSyncer(dir string) (Syncer, error) {
	s := &memSyncer{view: v, dir: dir}
	return s, v.do("open", dir, func() error {
		_, err := v.m.lookup(dir)
		return err
	})
}

type memSyncer struct {
	view view
	dir  string
}

// SyncAll makes the given files durable and no others, although syncfs does all: who
// relies on the others would lose them where each file is synced by itself.
func (s *memSyncer) SyncAll(files []File) error {
	if s.view.m.crash == nil {
		return syncEach(files)
	}
	return pathError("sync", s.dir, s.view.m.crash.syncAll(s.view, s.dir, files))
}

// SyncDirs is a sync point for each directory, for the same reason.
func (s *memSyncer) SyncDirs(dirs []string) error { return syncEachDir(dirs, s.view.SyncDir) }

func (s *memSyncer) Close() error {
	return s.view.do("close", s.dir, func() error { return nil })
}

type memInfo struct {
	name    string
	size    int64
	mode    fs.FileMode
	modTime time.Time
}

func (n *node) info(name string) memInfo {
	return memInfo{name: name, size: int64(len(n.data)), mode: n.mode, modTime: n.modTime}
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) Mode() fs.FileMode  { return i.mode }
func (i memInfo) ModTime() time.Time { return i.modTime }
func (i memInfo) IsDir() bool        { return i.mode.IsDir() }
func (i memInfo) Sys() any           { return nil }
