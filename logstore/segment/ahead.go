package segment

import (
	"fmt"
	"io"
	"time"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

// Writing ahead. What it costs the system to take in a write depends on the pieces (folios)
// in which its page cache holds that part of the file, and the size of these follows from
// the size and the place of the write that made them: small writes make small ones. So the
// log file of a segment that gets many small appends is prepared: a whole block of zeros is
// written behind its end, in one write that begins at a multiple of its size, and the
// appends then go over it.
//
//	|batch|batch|batch|0000000000000|
//	                  size          ahead.end, the end of the file
//
// Before that, the file system is asked for the blocks of the disk of many such writes at
// once: to find that a page has its block costs less than to set one aside for it. The
// file's size does not tell of them.
//
// The zeros are no part of the segment. A start after a crash finds them and takes them for
// what they are (see Recover); nobody else does: DropTail cuts them off before the file gets
// into other hands.
type ahead struct {
	end int64 // of the zeros in the file; none if it is not above size
	// reserved is up to where the disk has blocks for the file; unknown if it is not above
	// size. ownBlocks says that the file system cannot be asked.
	reserved  int64
	ownBlocks bool
	// heat are the bytes that were appended since sinceMs; hot says that the interval before
	// had enough.
	heat    int64
	sinceMs int64
	hot     bool
	retryMs int64 // not to be tried before, after an error
}

const (
	// heatMs is the interval in which enough appends make a segment hot.
	heatMs = 1000
	// aheadRetryMs is how long nothing is prepared after an error.
	aheadRetryMs = 60_000
)

// ReserveBytes is for how much the file system should be asked at once.
const ReserveBytes = 4 << 20

// MaxBlockBytes is the size of the largest block of zeros.
const MaxBlockBytes = 256 << 10

// zeros is never written to: so it takes no memory either, since the system has one page of
// zeros for all that was not written.
var zeros [MaxBlockBytes]byte

// AheadParams say what WriteAhead prepares for.
type AheadParams struct {
	Now         time.Time
	AppendBytes int   // of the append that is about to come
	BlockBytes  int   // of a block of zeros; 1 to MaxBlockBytes
	MaxBytes    int64 // of the segment: the disk is asked for no more
	HotBytes    int   // appended within a second, they make the segment hot
	Reserve     int64 // the disk is asked for so much at once; 0: for nothing
}

// WriteAhead writes a block of zeros behind the end if the next append would be the first to
// need it, and if the segment is hot. It returns how many bytes it has written and taken of the
// disk. It is called before the append, serialised with it. An error is of no consequence for
// the segment: it goes on without.
func (s *Segment) WriteAhead(p AheadParams) (int, error) {
	from, due := s.aheadDue(p.Now.UnixMilli(), p)
	if !due {
		return 0, nil
	}
	f, err := s.acquireToWrite()
	if err != nil {
		return 0, fmt.Errorf("prepare segment %d: %w", s.base, err)
	}
	defer s.releaseWritten(f)
	reserved := s.reserve(f, from, p)
	written, err := f.WriteAt(zeros[:p.BlockBytes], from)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.tail, s.ahead.retryMs = true, p.Now.UnixMilli()+aheadRetryMs
		return reserved + written, fmt.Errorf("prepare segment %d: %w", s.base, err)
	}
	s.ahead.end = from + int64(p.BlockBytes)
	return reserved + written, nil
}

// reserve asks for the blocks from a position on, if the one at it has not been asked for.
// A refusal, of a full disk too, means no more than that writes find their own.
func (s *Segment) reserve(f vfs.File, from int64, p AheadParams) (taken int) {
	s.mu.RLock()
	reserved, due := s.ahead.reserved, !s.ahead.ownBlocks && from+int64(p.BlockBytes) > s.ahead.reserved
	s.mu.RUnlock()
	from = max(from, reserved)
	n := min(p.Reserve, p.MaxBytes-from)
	if !due || n < int64(p.BlockBytes) {
		return 0
	}
	err := vfs.Reserve(f, from, n)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ahead.ownBlocks = err != nil; err != nil {
		return 0
	}
	s.ahead.reserved = from + n
	return int(n)
}

// aheadDue counts the append, and tells where a block of zeros should begin, if one should.
// Appends of more than a block get large folios anyway.
func (s *Segment) aheadDue(nowMs int64, p AheadParams) (from int64, due bool) {
	n, block, enough := int64(p.AppendBytes), int64(p.BlockBytes), int64(p.HotBytes)
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &s.ahead
	a.warm(nowMs, n, enough)
	if n > block || s.tail || nowMs < a.retryMs || !a.hot && a.heat < enough {
		return 0, false
	}
	from = (max(s.size, a.end) + block - 1) / block * block
	return from, s.size+n > from && from+block <= maxSize
}

// warm counts n bytes.
func (a *ahead) warm(nowMs, n, enough int64) {
	if since := nowMs - a.sinceMs; since < 0 || since >= heatMs {
		a.hot = a.heat >= enough && since >= 0 && since < 2*heatMs
		a.heat, a.sinceMs = 0, nowMs
	}
	a.heat += n
}

// Ahead is how many bytes of zeros there are behind the end.
func (s *Segment) Ahead() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return max(0, s.ahead.end-s.size)
}

// zeroFrom reports whether a file holds nothing but zeros from a position on.
func zeroFrom(f io.ReaderAt, pos, end int64, b *buffers) (bool, error) {
	window := b.windows.Get().(*[]byte)
	defer b.windows.Put(window)
	for pos < end {
		want := min(int64(len(*window)), end-pos)
		n, err := f.ReadAt((*window)[:want], pos)
		if int64(n) < want {
			return false, fmt.Errorf("read %d bytes at %d: %w", want, pos, err)
		}
		for _, c := range (*window)[:n] {
			if c != 0 {
				return false, nil
			}
		}
		pos += want
	}
	return true, nil
}
