package segment

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/klamm-mq/klamm/internal/invariant"
	"github.com/klamm-mq/klamm/logstore/vfs"
)

// file is a segment's claim on its log file. FilePool.mu guards all fields.
type file struct {
	open    *openFile     // nil while closed
	opening chan struct{} // closed when the goroutine that opens the file is done
	closed  bool          // for good
	// unflushed says that the file has changes that no sync has covered. It then
	// stays open.
	unflushed bool
	// held says that the file is about to get another name, and stays open until then.
	held bool
	// changes counts the beginnings and the ends of changes, so that a sync knows
	// whether one was or came in its way.
	changes    uint64
	indexBytes int64 // of the indexes, as counted by the pool

	fileNode, indexNode node // in the pool's rings of what is idle
}

// openFile is an open descriptor and its users.
type openFile struct {
	vfs.File
	// refs counts the users. dropped says that the segment has given the descriptor
	// up, so that the last user closes it. FilePool.mu guards both.
	refs    int
	dropped bool
}

// inUse: neither the descriptor nor the index may be given up.
func (f *file) inUse() bool {
	return f.closed || f.unflushed || f.held || f.opening != nil || (f.open != nil && f.open.refs > 0)
}

// detach takes the descriptor from the segment. It returns it if the caller has to
// close it, after giving up the pool's lock; else its last user does.
func (f *file) detach(p *FilePool) *openFile {
	o := f.open
	f.open = nil
	if o == nil {
		return nil
	}
	o.dropped = true
	if o.refs > 0 {
		return nil
	}
	p.open--
	return o
}

// close closes a detached descriptor; it may be nil. There is nothing to be done about
// an error: syncs report what matters.
func (o *openFile) close() {
	if o != nil {
		_ = o.File.Close()
	}
}

// acquire returns the open log file for one user, who calls release.
func (s *Segment) acquire() (*openFile, error) { return s.acquireFor(false) }

// acquireToWrite is acquire for somebody who is about to change the file, and calls
// releaseWritten.
func (s *Segment) acquireToWrite() (*openFile, error) { return s.acquireFor(true) }

func (s *Segment) acquireFor(writing bool) (*openFile, error) {
	p := s.opts.Pool
	p.mu.Lock()
	for s.file.open == nil && s.file.opening != nil && !s.file.closed {
		opening := s.file.opening
		p.mu.Unlock()
		<-opening
		p.mu.Lock()
	}
	if s.file.closed {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	if s.file.open == nil && p.full() {
		p.mu.Unlock()
		return nil, fmt.Errorf("open log file beside %d others: %w", p.maxFiles, syscall.EMFILE)
	}
	p.unpark(s)
	wasUnflushed := s.file.unflushed
	if writing {
		s.file.unflushed = true
		s.file.changes++
	}
	if o := s.file.open; o != nil {
		o.refs++
		p.mu.Unlock()
		return o, nil
	}
	s.file.opening = make(chan struct{})
	p.opening++
	p.mu.Unlock()
	o, err := s.openLogFile()
	if err != nil && writing {
		s.unchanged(wasUnflushed)
	}
	return o, err
}

// unchanged takes back the beginning of a change for which the file could not be opened.
func (s *Segment) unchanged(wasUnflushed bool) {
	p := s.opts.Pool
	p.mu.Lock()
	defer p.mu.Unlock()
	s.file.unflushed = wasUnflushed
	s.file.changes++
}

// full: a further file may not be opened until one that is in use is given up. Called with
// mu held.
func (p *FilePool) full() bool {
	return p.maxFiles > 0 && p.open+p.opening >= p.maxFiles && p.idleFiles.empty()
}

// openLogFile opens the file for its first user. The caller has set opening.
func (s *Segment) openLogFile() (*openFile, error) {
	flag := os.O_RDWR
	if s.opts.ReadOnly {
		flag = os.O_RDONLY
	}
	f, err := s.opts.FS.OpenFile(s.Path(), flag, 0)
	if err != nil {
		s.opened(nil)
		return nil, fmt.Errorf("open log file: %w", err)
	}
	o := &openFile{File: f, refs: 1}
	if !s.opened(o) {
		o.close()
		return nil, ErrClosed
	}
	return o, nil
}

// opened makes an opened file known; false if the segment was closed in the meantime.
func (s *Segment) opened(o *openFile) bool {
	p := s.opts.Pool
	p.mu.Lock()
	close(s.file.opening)
	s.file.opening = nil
	p.opening--
	if o == nil || s.file.closed {
		p.mu.Unlock()
		return false
	}
	s.file.open = o
	p.open++
	v := p.trim()
	p.mu.Unlock()
	v.close()
	return true
}

// release ends one use of the file.
func (s *Segment) release(o *openFile) {
	p := s.opts.Pool
	p.mu.Lock()
	o.refs--
	refs := o.refs
	var last *openFile
	if o.refs == 0 && o.dropped {
		p.open--
		last = o
	}
	v := p.park(s)
	p.mu.Unlock()
	// Not under the pool's lock: whoever dies of it may close other segments on the way out.
	invariant.Check(refs >= 0, "log file of segment %d is released too often", s.base)
	last.close()
	v.close()
}

// releaseWritten is release after a change.
func (s *Segment) releaseWritten(o *openFile) {
	p := s.opts.Pool
	p.mu.Lock()
	s.file.changes++
	p.mu.Unlock()
	s.release(o)
}

// flushed lets the file be closed, unless it is not as it was when changes were counted.
func (s *Segment) flushed(changes uint64) {
	p := s.opts.Pool
	p.mu.Lock()
	if s.file.changes == changes {
		s.file.unflushed = false
	}
	v := p.park(s)
	p.mu.Unlock()
	v.close()
}

// Unflushed reports whether the log file has changes that no Flush has covered.
func (s *Segment) Unflushed() bool {
	p := s.opts.Pool
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.file.unflushed
}

func (s *Segment) isClosed() bool {
	p := s.opts.Pool
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.file.closed
}

// closeFile gives the file up for good.
func (s *Segment) closeFile() {
	p := s.opts.Pool
	p.mu.Lock()
	p.unpark(s)
	s.file.closed = true
	p.setIndexBytes(s, 0)
	last := s.file.detach(p)
	p.mu.Unlock()
	last.close()
}

// region is a wire.Region: bytes of the log file and a claim on its descriptor.
type region struct {
	s        *Segment
	file     *openFile
	pos      int64
	n        int
	failed   func(error) // nil = nobody wants to know
	released atomic.Bool
}

func (r *region) Len() int { return r.n }

func (r *region) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= int64(r.n) {
		return 0, io.EOF
	}
	want := min(len(p), r.n-int(off))
	n, err := r.file.ReadAt(p[:want], r.pos+off)
	switch {
	case n == want && want == len(p):
		err = nil
	case n == want:
		err = io.EOF
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF // the file was truncated since
	case err != nil && r.failed != nil:
		r.failed(fmt.Errorf("read %d bytes of %s at %d: %w", want, r.file.Name(), r.pos+off, err))
	}
	return n, err
}

func (r *region) File() (*os.File, int64) { return r.file.OS(), r.pos }

func (r *region) Release() {
	invariant.Check(r.released.CompareAndSwap(false, true), "region of segment %d is released twice", r.s.base)
	r.s.release(r.file)
}
