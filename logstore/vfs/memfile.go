package vfs

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// memFile is an open file of a MemFS or CrashFS. It goes on working when its name is
// removed, and dies with its process.
type memFile struct {
	view                           view
	node                           *node
	name                           string
	readable, writable, appendOnly bool
	closed                         bool // guarded by memory.mu
}

var (
	errAppendOnly     = errors.New("invalid use of WriteAt on file opened with O_APPEND")
	errNegativeOffset = errors.New("negative offset")
)

func (f *memFile) do(op string, call func() error) error {
	return f.view.do(op, f.name, func() error {
		if f.closed {
			return os.ErrClosed
		}
		return call()
	})
}

// ReadAt returns a bare io.EOF at the end, as os.File does.
func (f *memFile) ReadAt(p []byte, off int64) (n int, err error) {
	atEnd := false
	err = f.do("read", func() error {
		switch {
		case off < 0:
			return errNegativeOffset
		case !f.readable:
			return syscall.EBADF
		}
		if off < int64(len(f.node.data)) {
			n = copy(p, f.node.data[off:])
		}
		atEnd = n < len(p)
		return nil
	})
	if err == nil && atEnd {
		err = io.EOF
	}
	return n, err
}

func (f *memFile) WriteAt(p []byte, off int64) (n int, err error) {
	if f.appendOnly {
		return 0, errAppendOnly
	}
	err = f.do("write", func() (err error) {
		switch {
		case off < 0:
			return errNegativeOffset
		case !f.writable:
			return syscall.EBADF
		}
		n, err = f.view.m.write(f.node, p, off)
		return err
	})
	return n, err
}

func (f *memFile) Truncate(size int64) error {
	return f.do("truncate", func() error {
		if size < 0 || !f.writable {
			return syscall.EINVAL
		}
		return f.view.m.truncate(f.node, size)
	})
}

func (f *memFile) Size() (size int64, err error) {
	err = f.do("stat", func() error {
		size = int64(len(f.node.data))
		return nil
	})
	return size, err
}

func (f *memFile) Sync() error {
	if f.view.m.crash == nil {
		return f.do("sync", func() error { return nil })
	}
	return pathError("sync", f.name, f.view.m.crash.syncFile(f))
}

func (f *memFile) Close() error {
	return f.do("close", func() error {
		f.closed = true
		return nil
	})
}

func (f *memFile) Name() string { return f.name }
func (f *memFile) OS() *os.File { return nil }
