package segment

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/klamm-mq/klamm/protocol/batch"
)

// minBatchSize is the size of a batch without records.
const minBatchSize = batch.HeaderSize

// Sizes of the buffers through which files are read. A window holds the batch headers
// between two index entries at the default interval of 4 KiB; a chunk is what scans
// read at a time (measured: 64 KiB to 1 MiB are equally fast, cold or warm).
const (
	windowSize = 8 << 10
	chunkSize  = 1 << 20
)

// buffers are the pool's windows and chunks.
type buffers struct{ windows, chunks sync.Pool } // of *[]byte

func (b *buffers) init() {
	b.windows.New = func() any { return newBuffer(windowSize) }
	b.chunks.New = func() any { return newBuffer(chunkSize) }
}

func newBuffer(size int) *[]byte {
	b := make([]byte, size)
	return &b
}

// bounds is what a run of batches must fit: positions in [pos, end), offsets from
// nextOffset on, and at most maxRelativeOffset above base.
type bounds struct {
	file       string // for errors
	pos, end   int64
	base       int64
	nextOffset int64
}

// check looks at a header at pos and says what is wrong with it.
func (b *bounds) check(header []byte) *CorruptionError {
	v := batch.View(header)
	switch last := v.LastOffset(); {
	case v.Size() < minBatchSize:
		return b.corrupt("batch of %d bytes is shorter than a header", v.Size())
	case v.Magic() != 2:
		return b.corrupt("batch has magic %d, want 2", v.Magic())
	case b.pos+int64(v.Size()) > b.end:
		return b.corrupt("batch of %d bytes reaches beyond the end at %d", v.Size(), b.end)
	case v.BaseOffset() < b.nextOffset:
		return b.corrupt("offset %d follows %d", v.BaseOffset(), b.nextOffset-1)
	case v.LastOffsetDelta() < 0 || last-b.base > maxRelativeOffset || last < v.BaseOffset():
		return b.corrupt("last offset %d does not fit base offset %d", last, v.BaseOffset())
	default:
		return nil
	}
}

func (b *bounds) corrupt(format string, args ...any) *CorruptionError {
	return &CorruptionError{File: b.file, Pos: b.pos, Reason: fmt.Sprintf(format, args...)}
}

func (b *bounds) crcMismatch(v batch.View, computed uint32) *CorruptionError {
	return b.corrupt("batch at offset %d has CRC %08x, but its bytes give %08x", v.BaseOffset(), v.CRC(), computed)
}

// advance moves behind a batch that check has passed.
func (b *bounds) advance(v batch.View) {
	b.pos += int64(v.Size())
	b.nextOffset = v.NextOffset()
}

// walker reads batch headers, one after the other.
type walker struct {
	bounds
	f       io.ReaderAt
	buffers *buffers

	ahead   int64 // if set, nothing beyond is read but what begins before, or a header
	window  *[]byte
	large   bool  // window is a chunk
	at      int64 // position of the window's first byte
	n       int   // bytes in it
	refills int
}

// refillsBeforeChunk is how often a window is refilled before the walk is taken for a
// long one, and reads chunks.
const refillsBeforeChunk = 8

// next returns the header of the next batch, valid until the next call, and its
// position; nil at the end. The error is a *CorruptionError or the file system's.
func (w *walker) next() (header batch.View, pos int64, err error) {
	if w.pos == w.end {
		return nil, w.pos, nil
	}
	if w.end-w.pos < minBatchSize {
		return nil, w.pos, w.corrupt("%d bytes at the end are no batch", w.end-w.pos)
	}
	if w.pos < w.at || w.pos+minBatchSize > w.at+int64(w.n) {
		if err := w.refill(); err != nil {
			return nil, w.pos, err
		}
	}
	header = batch.View((*w.window)[w.pos-w.at:][:minBatchSize])
	if c := w.check(header); c != nil {
		return nil, w.pos, c
	}
	pos = w.pos
	w.advance(header)
	return header, pos, nil
}

// refill reads from pos on. Batches that are larger than the window are hopped over;
// only a walk over small ones gets a larger window.
func (w *walker) refill() error {
	near := w.pos < w.at+int64(w.n)+windowSize
	if w.window == nil {
		w.window = w.buffers.windows.Get().(*[]byte)
	} else if near {
		w.refills++
	}
	if w.refills == refillsBeforeChunk && !w.large {
		w.close()
		w.window, w.large = w.buffers.chunks.Get().(*[]byte), true
	}
	want := min(int64(len(*w.window)), w.end-w.pos)
	if w.ahead > 0 {
		want = min(want, max(w.ahead-w.pos, minBatchSize))
	}
	n, err := w.f.ReadAt((*w.window)[:want], w.pos)
	w.at, w.n = w.pos, n
	return readError(&w.bounds, n, int(want), err)
}

// readError is nil if all bytes came. A file that is shorter than it should be is
// damaged.
func readError(b *bounds, n, want int, err error) error {
	switch {
	case n == want:
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return b.corrupt("the file ends at %d, want %d", b.pos+int64(n), b.end)
	default:
		return fmt.Errorf("read log file %s at byte %d: %w", b.file, b.pos, err)
	}
}

// close gives the buffer back.
func (w *walker) close() {
	if w.window == nil {
		return
	}
	if w.large {
		w.buffers.chunks.Put(w.window)
	} else {
		w.buffers.windows.Put(w.window)
	}
	w.window, w.n = nil, 0
}

// scanner reads whole batches and checks their CRC.
type scanner struct {
	bounds
	stop    int64 // no batch that ends behind it is read; at most end
	short   bool  // at most a window is going to be read
	f       io.ReaderAt
	buffers *buffers

	chunk *[]byte
	at    int64 // position of the chunk's first byte
	n     int   // bytes in it
	reads int
	large []byte // for a batch larger than the chunk
}

// next returns the next batch, valid until the next call, and its position; nil when
// there is none before stop. The error is a *CorruptionError or the file system's.
func (sc *scanner) next() (v batch.View, pos int64, err error) {
	if left := sc.stop - sc.pos; left < minBatchSize {
		if left > 0 && sc.stop == sc.end {
			return nil, sc.pos, sc.corrupt("%d bytes at the end are no batch", left)
		}
		return nil, sc.pos, nil
	}
	header, err := sc.bytes(minBatchSize)
	if err != nil {
		return nil, sc.pos, err
	}
	if c := sc.check(header); c != nil {
		return nil, sc.pos, c
	}
	size := batch.View(header).Size()
	if sc.pos+int64(size) > sc.stop {
		return nil, sc.pos, nil
	}
	if v, err = sc.batch(size); err != nil {
		return nil, sc.pos, err
	}
	pos = sc.pos
	sc.advance(v)
	return v, pos, nil
}

// batch returns the batch of the given size at pos, after checking its CRC.
func (sc *scanner) batch(size int) (batch.View, error) {
	if size > len(*sc.chunk) {
		return sc.largeBatch(size)
	}
	buf, err := sc.bytes(size)
	if err != nil {
		return nil, err
	}
	v := batch.View(buf)
	if crc := v.ComputeCRC(); crc != v.CRC() {
		return nil, sc.crcMismatch(v, crc)
	}
	return v, nil
}

// crcStart is the first byte that the CRC of a batch covers.
const crcStart = 21

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// largeBatch computes the CRC piece by piece before it believes the size and allocates
// as much.
func (sc *scanner) largeBatch(size int) (batch.View, error) {
	header, err := sc.bytes(minBatchSize)
	if err != nil {
		return nil, err
	}
	v := batch.View(header)
	crc, err := sc.crcOf(sc.pos+crcStart, sc.pos+int64(size))
	if err != nil {
		return nil, err
	}
	if crc != v.CRC() {
		return nil, sc.crcMismatch(v, crc)
	}
	if cap(sc.large) < size {
		sc.large = make([]byte, size)
	}
	v = batch.View(sc.large[:size])
	n, err := sc.f.ReadAt(v, sc.pos)
	return v, readError(&sc.bounds, n, size, err)
}

// crcOf reads through a buffer of its own, since the chunk holds the header.
func (sc *scanner) crcOf(from, to int64) (crc uint32, err error) {
	buf := sc.buffers.chunks.Get().(*[]byte)
	defer sc.buffers.chunks.Put(buf)
	for from < to {
		want := int(min(chunkSize, to-from))
		n, err := sc.f.ReadAt((*buf)[:want], from)
		if err := readError(&sc.bounds, n, want, err); err != nil {
			return 0, err
		}
		crc = crc32.Update(crc, castagnoli, (*buf)[:n])
		from += int64(n)
	}
	return crc, nil
}

// bytes returns the n bytes at pos, at most a chunk, and reads on if need be.
func (sc *scanner) bytes(n int) ([]byte, error) {
	if sc.chunk == nil {
		sc.chunk = sc.pool().Get().(*[]byte)
	}
	if sc.pos < sc.at || sc.pos+int64(n) > sc.at+int64(sc.n) {
		want := int(min(int64(max(n, sc.ahead())), sc.stop-sc.pos))
		got, err := sc.f.ReadAt((*sc.chunk)[:want], sc.pos)
		sc.at, sc.n = sc.pos, got
		if err := readError(&sc.bounds, got, want, err); err != nil {
			return nil, err
		}
		if got < n {
			return nil, sc.corrupt("batch of %d bytes reaches beyond the end at %d", n, sc.stop)
		}
	}
	return (*sc.chunk)[sc.pos-sc.at:][:n], nil
}

// ahead is how much to read: little at first, in case the scan is a short one.
func (sc *scanner) ahead() int {
	sc.reads++
	if sc.reads <= 2 {
		return min(len(*sc.chunk), firstReads)
	}
	return len(*sc.chunk)
}

// firstReads is the size of the first reads of a scan.
const firstReads = 64 << 10

// pool has the buffers that fit: a short scan takes a window for its chunk.
func (sc *scanner) pool() *sync.Pool {
	if sc.short {
		return &sc.buffers.windows
	}
	return &sc.buffers.chunks
}

// close gives the buffer back.
func (sc *scanner) close() {
	if sc.chunk != nil {
		sc.pool().Put(sc.chunk)
		sc.chunk = nil
	}
}
