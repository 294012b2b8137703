package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"
)

// FS is everything the broker asks of a file system. Names are paths of the host;
// flags and permissions are os.OpenFile's. Errors wrap fs.ErrNotExist, fs.ErrExist
// and syscall.ENOSPC as os does.
type FS interface {
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	MkdirAll(dir string, perm fs.FileMode) error
	Remove(name string) error
	RemoveAll(name string) error
	Rename(from, to string) error
	Stat(name string) (fs.FileInfo, error)
	ReadDir(dir string) ([]fs.DirEntry, error)
	// SetModTime changes when a file was written last, as Stat tells it.
	SetModTime(name string, t time.Time) error

	// SyncDir makes creations, renames and removals in dir durable.
	SyncDir(dir string) error
	// OpenSyncer opens a descriptor on dir's file system that is kept for group commits.
	// The system tells each descriptor of a failed write once, so those who must each hear
	// of it need a Syncer each.
	OpenSyncer(dir string) (Syncer, error)
	// Lock takes an exclusive lock that ends with the process or with Close;
	// ErrLocked if another holder has it.
	Lock(name string) (io.Closer, error)
	// Space tells the size of dir's file system and what is left for this process.
	Space(dir string) (Space, error)
}

// File is an open file. Reads and writes carry their position; there is no cursor.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Name() string
	Size() (int64, error)
	Truncate(size int64) error
	// Sync makes the file's bytes and size durable (fdatasync). Once it has failed it
	// fails for ever: the system tells of an error once, and whoever asks next, or was
	// asking at the same time, would be told that all is well.
	Sync() error
	// OS is the operating system's file for sendfile, nil if there is none.
	OS() *os.File
}

// Syncer makes many files of one file system durable at once.
type Syncer interface {
	// SyncAll makes everything written to files so far durable: one syncfs where the
	// file system is known to report write-back errors through it and there are
	// several files, else one fdatasync per file. After an error nothing is known to
	// be durable, and a later success proves nothing about the bytes of this call.
	SyncAll(files []File) error
	// SyncDirs is FS.SyncDir of many directories on the Syncer's file system, in the way
	// of SyncAll. One that does not exist any more is passed over.
	SyncDirs(dirs []string) error
	Close() error
}

// Space is the room on a file system, in bytes.
type Space struct {
	TotalBytes, AvailBytes uint64
}

// ErrLocked is returned by Lock while another process, or another handle of this
// one, holds the lock.
var ErrLocked = errors.New("locked by another process")
