package raftstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

// CorruptionError says where a store's bytes are wrong although they were synced.
type CorruptionError struct {
	File string
	Pos  int64
	Err  error
}

func (e *CorruptionError) Error() string {
	return fmt.Sprintf("%s is damaged at position %d: %v", e.File, e.Pos, e.Err)
}

// Unwrap gives what was found there.
func (e *CorruptionError) Unwrap() error { return e.Err }

// A segment is a run of frames, one for each entry, from index base on:
//
//	 0        4        8        16
//	┌────────┬────────┬────────┬───────┐
//	│ length │ CRC-32C│ synced │ entry │    length: of the whole frame; CRC of synced and entry
//	└────────┴────────┴────────┴───────┘
//
// "synced" is the last index that was durable before the frame was written. It tells a torn
// tail from damage: a bad frame with index i is a tail that no sync has covered, and may be
// cut off, unless a good frame further on says that i was synced.
type segment struct {
	fsys vfs.FS
	file vfs.File
	base uint64
	pos  []int64 // of each entry
	size int64   // end of the last entry
	// uncut says that the file may have bytes beyond size, since cutting them failed.
	uncut bool
}

const (
	frameHeaderSize = 16
	// maxFrameBytes bounds what a damaged length can make us read.
	maxFrameBytes = 16 << 20
	segmentPrefix = "log-"
)

var errBadFrame = errors.New("bad frame")

func segmentName(dir string, base uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%s%020d", segmentPrefix, base))
}

func listSegments(fsys vfs.FS, dir string) ([]uint64, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var bases []uint64
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), segmentPrefix)
		if !ok {
			continue
		}
		base, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("unexpected file %s", filepath.Join(dir, e.Name()))
		}
		bases = append(bases, base)
	}
	slices.Sort(bases)
	return bases, nil
}

// createSegment makes an empty segment whose name is durable.
func createSegment(fsys vfs.FS, dir string, base uint64) (*segment, error) {
	file, err := fsys.OpenFile(segmentName(dir, base), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := fsys.SyncDir(dir); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &segment{fsys: fsys, file: file, base: base}, nil
}

// openSegment reads a segment. Only the last one may have a torn tail, which is cut off.
func openSegment(fsys vfs.FS, dir string, base uint64, last bool) (*segment, error) {
	file, err := fsys.OpenFile(segmentName(dir, base), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	s := &segment{fsys: fsys, file: file, base: base}
	if err := s.scan(last); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return s, nil
}

func (s *segment) scan(last bool) error {
	b, err := vfs.ReadFile(s.fsys, s.file.Name())
	if err != nil {
		return err
	}
	for int(s.size) < len(b) {
		frame, _, err := s.parse(b[s.size:], s.next())
		if err != nil {
			if !last || s.syncedBeyond(b[s.size:]) {
				return &CorruptionError{s.file.Name(), s.size, err}
			}
			return s.cut()
		}
		s.pos = append(s.pos, s.size)
		s.size += int64(len(frame))
	}
	return nil
}

// parse checks the frame at the start of b, which must hold entry index, and gives the
// whole frame and its synced mark.
func (s *segment) parse(b []byte, index uint64) (frame []byte, synced uint64, err error) {
	frame, synced, err = checkFrame(b)
	if err != nil {
		return nil, 0, err
	}
	var l raft.Log
	if err := parseLog(frame[frameHeaderSize:], &l); err != nil {
		return nil, 0, err
	}
	if l.Index != index {
		return nil, 0, fmt.Errorf("entry %d in the place of %d", l.Index, index)
	}
	return frame, synced, nil
}

func checkFrame(b []byte) (frame []byte, synced uint64, err error) {
	if len(b) < frameHeaderSize {
		return nil, 0, errBadFrame
	}
	length := binary.BigEndian.Uint32(b)
	if length < frameHeaderSize || uint64(length) > uint64(len(b)) || length > maxFrameBytes {
		return nil, 0, errBadFrame
	}
	frame = b[:length]
	if crc32.Checksum(frame[8:], castagnoli()) != binary.BigEndian.Uint32(b[4:]) {
		return nil, 0, errBadFrame
	}
	return frame, binary.BigEndian.Uint64(b[8:]), nil
}

// syncedBeyond tells that b, which starts with a bad frame, holds a later frame from
// after a sync that covered the bad one.
func (s *segment) syncedBeyond(b []byte) bool {
	for i := 1; i+frameHeaderSize <= len(b); i++ {
		if _, synced, err := checkFrame(b[i:]); err == nil && synced >= s.next() {
			return true
		}
	}
	return false
}

func (s *segment) len() int { return len(s.pos) }

// next is the index after the last entry.
func (s *segment) next() uint64 { return s.base + uint64(len(s.pos)) }

// append writes entries behind the last one and syncs. It gives their positions for
// extend. After an error the bytes are taken back, now or before the next append.
func (s *segment) append(logs []*raft.Log) ([]int64, error) {
	if s.uncut {
		if err := s.cut(); err != nil {
			return nil, err
		}
	}
	var b []byte
	var pos []int64
	for _, l := range logs {
		pos = append(pos, s.size+int64(len(b)))
		b = appendFrame(b, s.next()-1, l)
	}
	_, err := s.file.WriteAt(b, s.size)
	if err == nil {
		err = s.file.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, s.cut())
	}
	return append(pos, s.size+int64(len(b))), nil
}

// extend takes up what append wrote: the positions of the entries and the new end.
func (s *segment) extend(pos []int64) {
	n := len(pos) - 1
	s.pos, s.size = append(s.pos, pos[:n]...), pos[n]
}

func appendFrame(dst []byte, synced uint64, l *raft.Log) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, 8)...)
	dst = binary.BigEndian.AppendUint64(dst, synced)
	dst = appendLog(dst, l)
	frame := dst[start:]
	binary.BigEndian.PutUint32(frame, uint32(len(frame)))
	binary.BigEndian.PutUint32(frame[4:], crc32.Checksum(frame[8:], castagnoli()))
	return dst
}

// extent is where the frame of an entry lies.
func (s *segment) extent(index uint64) (from, to int64) {
	i := int(index - s.base)
	if i+1 < len(s.pos) {
		return s.pos[i], s.pos[i+1]
	}
	return s.pos[i], s.size
}

func (s *segment) read(index uint64, from, to int64, l *raft.Log) error {
	b := make([]byte, to-from)
	if _, err := s.file.ReadAt(b, from); err != nil {
		return fmt.Errorf("read raft log entry %d: %w", index, err)
	}
	frame, _, err := s.parse(b, index)
	if err != nil {
		return &CorruptionError{s.file.Name(), from, err}
	}
	return parseLog(frame[frameHeaderSize:], l)
}

// shrink forgets the entries from index on, which must be in the segment. Cut follows.
func (s *segment) shrink(index uint64) {
	i := int(index - s.base)
	s.pos, s.size = s.pos[:i:i], s.pos[i]
}

// cut makes the file end with the last entry, durably: what is appended next must not be
// mixed with older bytes after a power cut.
func (s *segment) cut() error {
	s.uncut = true
	if err := s.file.Truncate(s.size); err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil {
		return err
	}
	s.uncut = false
	return nil
}

// remove deletes the file, durably, so that segments disappear in the order of the calls.
func (s *segment) remove() error {
	if err := s.file.Close(); err != nil {
		return err
	}
	if err := s.fsys.Remove(s.file.Name()); err != nil {
		return err
	}
	return s.fsys.SyncDir(filepath.Dir(s.file.Name()))
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }
