package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

// Sizes of index entries.
const (
	offsetEntrySize = 8
	timeEntrySize   = 12
)

// entries are the bytes of an index file, in memory.
type entries struct {
	raw []byte
	// written is how many bytes of raw are in the file. After a truncation the file may
	// have more than raw, and shrunk is set.
	written int
	shrunk  bool
}

// pending reports whether the file differs from what is in memory.
func (e *entries) pending() bool { return e.written < len(e.raw) || e.shrunk }

// cut drops what lies behind size. What is added later goes into memory of its own,
// since the old may still be being read or written.
func (e *entries) cut(size int) {
	if size == len(e.raw) {
		return
	}
	e.raw = e.raw[:size:size]
	e.written = min(e.written, size)
	e.shrunk = true
}

// write brings the file up to date.
func (e *entries) write(fsys vfs.FS, name string) error {
	f, err := openIndexFile(fsys, name)
	if err != nil {
		return err
	}
	if e.written < len(e.raw) {
		_, err = f.WriteAt(e.raw[e.written:], int64(e.written))
	}
	if err == nil && e.shrunk {
		err = f.Truncate(int64(len(e.raw)))
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

func openIndexFile(fsys vfs.FS, name string) (vfs.File, error) {
	return fsys.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
}

// readEntries reads at most limit bytes of an index file. One that is missing counts as
// shrunk, so that it is written even if it stays empty.
func readEntries(fsys vfs.FS, name string, limit int64) (entries, error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return entries{shrunk: true}, nil
	}
	if err != nil {
		return entries{}, err
	}
	defer func() { _ = f.Close() }() // only read from
	size, err := f.Size()
	if err != nil {
		return entries{}, err
	}
	raw := make([]byte, min(size, limit))
	if n, err := f.ReadAt(raw, 0); n < len(raw) {
		return entries{}, fmt.Errorf("read %s: %w", filepath.Base(name), err)
	}
	return entries{raw: raw, written: len(raw), shrunk: size > limit}, nil
}

// offsetIndex finds positions by offset. An entry is the last offset of a batch,
// relative to the base offset, and the position of the batch, 4 bytes each.
type offsetIndex struct{ entries }

func (x *offsetIndex) len() int { return len(x.raw) / offsetEntrySize }

func (x *offsetIndex) entry(i int) (relative, pos int64) {
	b := x.raw[i*offsetEntrySize:]
	return int64(binary.BigEndian.Uint32(b)), int64(binary.BigEndian.Uint32(b[4:]))
}

func (x *offsetIndex) add(relative, pos int64) {
	x.raw = binary.BigEndian.AppendUint32(x.raw, uint32(relative))
	x.raw = binary.BigEndian.AppendUint32(x.raw, uint32(pos))
}

// floor is the last entry whose relative offset is not above the given one, -1 if none.
func (x *offsetIndex) floor(relative int64) int {
	return sort.Search(x.len(), func(i int) bool { r, _ := x.entry(i); return r > relative }) - 1
}

// after is the first entry whose position is not below pos.
func (x *offsetIndex) after(pos int64) int {
	return sort.Search(x.len(), func(i int) bool { _, p := x.entry(i); return p >= pos })
}

// cutInvalid drops the first entry that cannot be right, and all behind it: offsets and
// positions rise, and a batch fits behind each position. Kafka's preallocated zeros at
// the end go this way, too.
func (x *offsetIndex) cutInvalid(logSize int64) {
	lastRelative, lastPos := int64(-1), int64(0)
	for i := range x.len() {
		relative, pos := x.entry(i)
		if relative <= lastRelative || pos <= lastPos || pos+minBatchSize > logSize || relative > maxRelativeOffset {
			x.cut(i * offsetEntrySize)
			return
		}
		lastRelative, lastPos = relative, pos
	}
	x.cut(x.len() * offsetEntrySize)
}

// timeIndex finds offsets by timestamp. An entry is a timestamp, 8 bytes, and the
// relative last offset, 4 bytes, of the first batch that has it: everything with a
// larger timestamp lies behind.
type timeIndex struct{ entries }

func (x *timeIndex) len() int { return len(x.raw) / timeEntrySize }

func (x *timeIndex) entry(i int) (timestampMs, relative int64) {
	b := x.raw[i*timeEntrySize:]
	return int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint32(b[8:]))
}

// last is the last entry; if there is none, no timestamp at the base offset.
func (x *timeIndex) last() (timestampMs, relative int64) {
	if x.len() == 0 {
		return noTimestamp, 0
	}
	return x.entry(x.len() - 1)
}

// maybeAdd adds an entry if the timestamp has grown (Kafka's TimeIndex.maybeAppend).
func (x *timeIndex) maybeAdd(timestampMs, relative int64) {
	if last, _ := x.last(); timestampMs <= last {
		return
	}
	x.raw = binary.BigEndian.AppendUint64(x.raw, uint64(timestampMs))
	x.raw = binary.BigEndian.AppendUint32(x.raw, uint32(relative))
}

// floor is the last entry whose timestamp is not above the given one, -1 if none.
func (x *timeIndex) floor(timestampMs int64) int {
	return sort.Search(x.len(), func(i int) bool { t, _ := x.entry(i); return t > timestampMs }) - 1
}

// firstFrom is the first entry whose relative offset is not below the given one.
func (x *timeIndex) firstFrom(relative int64) int {
	return sort.Search(x.len(), func(i int) bool { _, r := x.entry(i); return r >= relative })
}

// cutInvalid is offsetIndex.cutInvalid: timestamps and offsets rise.
func (x *timeIndex) cutInvalid() {
	lastMs, lastRelative := int64(noTimestamp), int64(-1)
	for i := range x.len() {
		ms, relative := x.entry(i)
		if ms <= lastMs || relative <= lastRelative || relative > maxRelativeOffset {
			x.cut(i * timeEntrySize)
			return
		}
		lastMs, lastRelative = ms, relative
	}
	x.cut(x.len() * timeEntrySize)
}
