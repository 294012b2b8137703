package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// syncfsMinFiles is the number of files, or directories, from which one syncfs is cheaper
// than an fdatasync for each: with 4 appended files on ext4 it took 0.3–0.4 ms against
// 1.2–1.5 ms, and a fifth of the CPU. Below that, syncfs may wait for bytes that
// other programs wrote to the same file system.
const syncfsMinFiles = 4

// openFile is os.OpenFile for files on disks, with two system calls instead of six:
// package os first tries, in vain, to have the poller watch the descriptor. A start opens
// several files of each partition.
func openFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	for {
		fd, err := unix.Open(name, flag|unix.O_CLOEXEC, uint32(perm.Perm()))
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), name), nil
		case !errors.Is(err, unix.EINTR):
			return nil, &os.PathError{Op: "open", Path: name, Err: err}
		}
	}
}

// syncData is fdatasync: the bytes and the size, but not the time stamps.
func syncData(f *os.File) error {
	return control(f, "fdatasync", unix.Fdatasync)
}

// control runs a system call on f's descriptor, repeated when a signal interrupts it.
// A Close meanwhile waits.
func control(f *os.File, op string, call func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return &os.PathError{Op: op, Path: f.Name(), Err: err}
	}
	var callErr error
	err = raw.Control(func(fd uintptr) {
		for {
			if callErr = call(int(fd)); !errors.Is(callErr, unix.EINTR) {
				return
			}
		}
	})
	if err != nil {
		callErr = os.ErrClosed // the only reason for Control to fail
	}
	if callErr != nil {
		return &os.PathError{Op: op, Path: f.Name(), Err: callErr}
	}
	return nil
}

// Reserve asks the file system for blocks of the disk for n bytes of a file from a position
// on. The file's size, and what is read from it, stay as they are; to cut the file at its
// size gives them back. A file that is not the operating system's has none to ask for:
// errors.ErrUnsupported.
func Reserve(f File, from, n int64) error {
	file := f.OS()
	if file == nil {
		return errors.ErrUnsupported
	}
	return control(file, "fallocate", func(fd int) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, from, n)
	})
}

// WillNeed has a range of a file read into memory, if it is not there: all of it at once, and
// nothing else. Read-ahead, which would begin with the first read instead, may be megabytes at
// a time, and whoever syncs meanwhile waits for them. It is advice: without an answer, and only
// for the operating system's files.
func WillNeed(f File, from, n int64) { advise(f, from, n, unix.FADV_WILLNEED) }

// DontNeed has the system forget whole pages of a range of a file, as far as they have been
// synced: nobody will read them soon. It is advice, like WillNeed.
func DontNeed(f File, from, n int64) { advise(f, from, n, unix.FADV_DONTNEED) }

func advise(f File, from, n int64, advice int) {
	if file := f.OS(); file != nil && n > 0 { // 0 would be up to the end
		_ = control(file, "fadvise", func(fd int) error { return unix.Fadvise(fd, from, n, advice) })
	}
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // Sync has told
	return d.Sync()
}

// osSyncer keeps dir open: syncfs reports a write-back error once to each
// descriptor that was open when it happened, and never to one opened later.
type osSyncer struct {
	dir    *os.File
	syncfs bool
}

func openSyncer(dir string) (Syncer, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	good, err := syncfsReportsErrors(d)
	if err != nil {
		_ = d.Close() // nothing was written to it
		return nil, fmt.Errorf("examine the file system of %s: %w", dir, err)
	}
	return &osSyncer{dir: d, syncfs: good}, nil
}

func (s *osSyncer) SyncAll(files []File) error {
	if !s.syncfs || len(files) < syncfsMinFiles {
		return syncEach(files)
	}
	return control(s.dir, "syncfs", unix.Syncfs)
}

func (s *osSyncer) SyncDirs(dirs []string) error {
	if !s.syncfs || len(dirs) < syncfsMinFiles {
		return syncEachDir(dirs, syncDir)
	}
	return control(s.dir, "syncfs", unix.Syncfs)
}

func (s *osSyncer) Close() error { return s.dir.Close() }

// syncfsReportsErrors is true where syncfs is known to return write-back errors: the
// kernel does since 5.8, and of its file systems only ext4 and xfs were examined. On
// others (overlay, fuse, network) success would prove nothing.
func syncfsReportsErrors(dir *os.File) (bool, error) {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return false, err
	}
	if !kernelAtLeast(unix.ByteSliceToString(uts.Release[:]), 5, 8) {
		return false, nil
	}
	var st unix.Statfs_t
	if err := control(dir, "fstatfs", func(fd int) error { return unix.Fstatfs(fd, &st) }); err != nil {
		return false, err
	}
	return st.Type == unix.EXT4_SUPER_MAGIC || st.Type == unix.XFS_SUPER_MAGIC, nil
}

// kernelAtLeast compares a release such as "6.18.44-fc"; one it can't read is old.
func kernelAtLeast(release string, major, minor int) bool {
	var a, b int
	if n, _ := fmt.Sscanf(release, "%d.%d", &a, &b); n != 2 {
		return false
	}
	return a > major || a == major && b >= minor
}
