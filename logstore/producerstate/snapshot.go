package producerstate

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

// SnapshotSuffix ends the names of snapshot files.
const SnapshotSuffix = ".snapshot"

// Layout of a snapshot file, see the package comment.
const (
	snapshotVersion    = 1
	snapshotCRCPos     = 2
	snapshotCountPos   = 6
	snapshotHeaderSize = 10
	snapshotEntrySize  = 46
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// SnapshotName is the name of the snapshot file at an offset: Kafka's 20 digits.
func SnapshotName(offset int64) string { return fmt.Sprintf("%020d%s", offset, SnapshotSuffix) }

// CorruptSnapshotError says why a snapshot file cannot be used. Older ones, or the log
// itself, take its place.
type CorruptSnapshotError struct {
	File   string
	Pos    int64
	Reason string
}

func (e *CorruptSnapshotError) Error() string {
	return fmt.Sprintf("corrupt producer snapshot %s at byte %d: %s", e.File, e.Pos, e.Reason)
}

// Snapshot is an encoded snapshot, on its way to the disk.
type Snapshot struct {
	Offset int64
	Data   []byte
}

// EncodeSnapshot encodes the state as of EndOffset; false if the last snapshot is as
// new (Kafka's takeSnapshot). It is pure memory work; Write and SnapshotWritten follow.
func (m *Manager) EncodeSnapshot() (Snapshot, bool) {
	if m.endOffset <= m.snapshotOffset {
		return Snapshot{}, false
	}
	return Snapshot{Offset: m.endOffset, Data: m.encode()}, true
}

// CopyFrom takes over the state of another directory's partition, as of its EndOffset, of
// which no snapshot counts as taken. The two share nothing afterwards.
func (m *Manager) CopyFrom(o *Manager) {
	m.producers = make(map[int64]*Producer, len(o.producers))
	for id, p := range o.producers {
		copied := *p
		m.producers[id] = &copied
	}
	m.ongoing, m.decided = slices.Clone(o.ongoing), slices.Clone(o.decided)
	m.endOffset, m.snapshotOffset = o.endOffset, None
}

// Write writes the snapshot into a partition directory and, if sync, makes file and
// directory entry durable. It may run without the lock that guards the Manager.
func (s Snapshot) Write(fsys vfs.FS, dir string, sync bool) error {
	name := filepath.Join(dir, SnapshotName(s.Offset))
	if err := writeFile(fsys, name, s.Data, sync); err != nil {
		return fmt.Errorf("write producer snapshot: %w", err)
	}
	if sync {
		if err := fsys.SyncDir(dir); err != nil {
			return fmt.Errorf("write producer snapshot: %w", err)
		}
	}
	return nil
}

// writeFile needs no rename: a snapshot that a crash tore fails its CRC.
func writeFile(fsys vfs.FS, name string, data []byte, sync bool) error {
	f, err := fsys.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil && sync {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// SnapshotWritten takes note of a snapshot that Write has written.
func (m *Manager) SnapshotWritten(offset int64) {
	if i, found := slices.BinarySearch(m.snapshots, offset); !found {
		m.snapshots = slices.Insert(m.snapshots, i, offset)
	}
	m.snapshotOffset = max(m.snapshotOffset, offset)
}

// TakeSnapshot writes the state as of EndOffset, unless the last snapshot is as new.
func (m *Manager) TakeSnapshot(sync bool) (taken bool, err error) {
	s, ok := m.EncodeSnapshot()
	if !ok {
		return false, nil
	}
	if err := s.Write(m.opts.FS, m.opts.Dir, sync); err != nil {
		return false, err
	}
	m.SnapshotWritten(s.Offset)
	return true, nil
}

func (m *Manager) encode() []byte {
	buf := make([]byte, snapshotHeaderSize, snapshotHeaderSize+len(m.producers)*snapshotEntrySize)
	binary.BigEndian.PutUint16(buf, snapshotVersion)
	for _, id := range slices.Sorted(maps.Keys(m.producers)) {
		buf = appendProducer(buf, m.producers[id])
	}
	entries := (len(buf) - snapshotHeaderSize) / snapshotEntrySize
	binary.BigEndian.PutUint32(buf[snapshotCountPos:], uint32(entries))
	putCRC(buf)
	return buf
}

func putCRC(buf []byte) {
	binary.BigEndian.PutUint32(buf[snapshotCRCPos:], crc32.Checksum(buf[snapshotCountPos:], castagnoli))
}

// appendProducer writes an entry for each remembered batch, the newest last.
//
// Kafka writes the newest alone. After a restart from such a snapshot a producer with
// several batches in flight is lost: those before the newest were appended, but are not
// known as duplicates, and their retry is out of order for ever. Kafka and its tools
// read our entries one over the other and are left with the newest, as they expect.
func appendProducer(buf []byte, p *Producer) []byte {
	batches := p.Batches()
	if len(batches) == 0 {
		return appendEntry(buf, p, BatchMeta{LastOffset: None, LastSequence: None, TimestampMs: p.LastTimestampMs}, p.TxnFirstOffset)
	}
	last := len(batches) - 1
	for _, b := range batches[:last] {
		buf = appendEntry(buf, p, b, None)
	}
	newest := batches[last]
	newest.TimestampMs = p.LastTimestampMs // a marker may have come later
	return appendEntry(buf, p, newest, p.TxnFirstOffset)
}

func appendEntry(buf []byte, p *Producer, b BatchMeta, txnFirstOffset int64) []byte {
	be := binary.BigEndian
	buf = be.AppendUint64(buf, uint64(p.ID))
	buf = be.AppendUint16(buf, uint16(p.Epoch))
	buf = be.AppendUint32(buf, uint32(b.LastSequence))
	buf = be.AppendUint64(buf, uint64(b.LastOffset))
	buf = be.AppendUint32(buf, uint32(b.OffsetDelta))
	buf = be.AppendUint64(buf, uint64(b.TimestampMs))
	buf = be.AppendUint32(buf, uint32(p.CoordinatorEpoch))
	return be.AppendUint64(buf, uint64(txnFirstOffset))
}

// ReadSnapshot reads a snapshot file. Errors are *CorruptSnapshotError or the file
// system's.
func ReadSnapshot(fsys vfs.FS, name string) ([]*Producer, error) {
	data, err := vfs.ReadFile(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("read producer snapshot: %w", err)
	}
	producers, pos, reason := decodeSnapshot(data)
	if reason != "" {
		return nil, &CorruptSnapshotError{File: name, Pos: int64(pos), Reason: reason}
	}
	return producers, nil
}

// decodeSnapshot returns a reason, and where, if data is no snapshot.
func decodeSnapshot(data []byte) (producers []*Producer, pos int, reason string) {
	if len(data) < snapshotHeaderSize {
		return nil, len(data), "it is shorter than its header"
	}
	be := binary.BigEndian
	if v := be.Uint16(data); v != snapshotVersion {
		return nil, 0, fmt.Sprintf("version %d is not known, want %d", v, snapshotVersion)
	}
	if got, want := be.Uint32(data[snapshotCRCPos:]), crc32.Checksum(data[snapshotCountPos:], castagnoli); got != want {
		return nil, snapshotCRCPos, fmt.Sprintf("CRC %08x, but its bytes give %08x", got, want)
	}
	entries := data[snapshotHeaderSize:]
	count := int64(be.Uint32(data[snapshotCountPos:]))
	if count*snapshotEntrySize != int64(len(entries)) {
		return nil, snapshotCountPos, fmt.Sprintf("%d entries announced in %d bytes", count, len(entries))
	}
	producers = make([]*Producer, 0, count)
	for ; len(entries) > 0; entries = entries[snapshotEntrySize:] {
		producers = appendDecoded(producers, decodeProducer(entries))
	}
	return producers, 0, ""
}

// appendDecoded adds a producer, or what its next entry says of it.
func appendDecoded(producers []*Producer, p *Producer) []*Producer {
	if len(producers) == 0 || producers[len(producers)-1].ID != p.ID {
		return append(producers, p)
	}
	known := producers[len(producers)-1]
	if newest, ok := p.Last(); ok && known.Epoch == p.Epoch {
		batches := *known
		batches.addBatch(newest)
		p.batches, p.numBatches = batches.batches, batches.numBatches
	}
	producers[len(producers)-1] = p
	return producers
}

func decodeProducer(b []byte) *Producer {
	be := binary.BigEndian
	p := &Producer{
		ID:               int64(be.Uint64(b)),
		Epoch:            int16(be.Uint16(b[8:])),
		LastTimestampMs:  int64(be.Uint64(b[26:])),
		CoordinatorEpoch: int32(be.Uint32(b[34:])),
		TxnFirstOffset:   max(None, int64(be.Uint64(b[38:]))),
	}
	if lastOffset := int64(be.Uint64(b[14:])); lastOffset >= 0 {
		p.addBatch(BatchMeta{
			LastOffset:   lastOffset,
			TimestampMs:  p.LastTimestampMs,
			LastSequence: int32(be.Uint32(b[10:])),
			OffsetDelta:  int32(be.Uint32(b[22:])),
		})
	}
	return p
}
