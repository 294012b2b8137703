package dump

import (
	"encoding/binary"
	"fmt"

	"github.com/klamm-mq/klamm/logstore/producerstate"
	"github.com/klamm-mq/klamm/logstore/vfs"
)

// Sizes of entries, see FORMAT.md.
const (
	offsetEntrySize = 8
	timeEntrySize   = 12
	txnEntrySize    = 34
)

// indexEntry is an entry of an offset or time index: which offset, and where in the
// index, in the log (offset index) and in time (time index).
type indexEntry struct {
	indexPos    int64
	offset      int64
	logPos      int64
	timestampMs int64
}

// eachEntry cuts a file into entries of one size. It stops at the zeros of a preallocated
// file, and answers where bytes are left over, -1 if nowhere.
func eachEntry(fsys vfs.FS, name string, size int, fn func(pos int64, b []byte) error) (leftOver int64, err error) {
	data, err := vfs.ReadFile(fsys, name)
	if err != nil {
		return -1, fmt.Errorf("read %s: %w", name, err)
	}
	for pos := 0; pos+size <= len(data); pos += size {
		if allZero(data[pos:]) && (pos > 0 || len(data) > size) {
			return -1, nil
		}
		if err := fn(int64(pos), data[pos:pos+size]); err != nil {
			return -1, err
		}
	}
	if rest := len(data) % size; rest != 0 {
		return int64(len(data) - rest), nil
	}
	return -1, nil
}

func allZero(data []byte) bool {
	for _, b := range data {
		if b != 0 {
			return false
		}
	}
	return true
}

func leftOverReason(size int) string {
	return fmt.Sprintf("less than an entry of %d bytes is left", size)
}

func (d *dumper) leftOver(pos int64, size int) error {
	if pos < 0 {
		return nil
	}
	return d.damaged(Problem{Pos: pos, Reason: leftOverReason(size)})
}

func offsetEntry(base, pos int64, b []byte) indexEntry {
	be := binary.BigEndian
	return indexEntry{indexPos: pos, offset: base + int64(be.Uint32(b)), logPos: int64(be.Uint32(b[4:]))}
}

func timeEntry(base, pos int64, b []byte) indexEntry {
	be := binary.BigEndian
	return indexEntry{indexPos: pos, timestampMs: int64(be.Uint64(b)), offset: base + int64(be.Uint32(b[8:]))}
}

func (d *dumper) offsetIndex() error {
	base := d.baseOffset()
	rest, err := eachEntry(d.FS, d.name, offsetEntrySize, func(pos int64, b []byte) error {
		e := offsetEntry(base, pos, b)
		return d.emit("index", Field{"offset", e.offset}, Field{"pos", e.logPos})
	})
	if err != nil {
		return err
	}
	return d.leftOver(rest, offsetEntrySize)
}

func (d *dumper) timeIndex() error {
	base := d.baseOffset()
	rest, err := eachEntry(d.FS, d.name, timeEntrySize, func(pos int64, b []byte) error {
		e := timeEntry(base, pos, b)
		return d.emit("timeindex", Field{"timestamp", e.timestampMs}, Field{"offset", e.offset})
	})
	if err != nil {
		return err
	}
	return d.leftOver(rest, timeEntrySize)
}

// abortedTxn is an entry of the transaction index.
type abortedTxn struct {
	pos                                             int64
	version                                         int16
	producerID, firstOffset, lastOffset, lastStable int64
}

func txnEntry(pos int64, b []byte) abortedTxn {
	be := binary.BigEndian
	return abortedTxn{
		pos: pos, version: int16(be.Uint16(b)), producerID: int64(be.Uint64(b[2:])),
		firstOffset: int64(be.Uint64(b[10:])), lastOffset: int64(be.Uint64(b[18:])), lastStable: int64(be.Uint64(b[26:])),
	}
}

func (d *dumper) txnIndex() error {
	rest, err := eachEntry(d.FS, d.name, txnEntrySize, func(pos int64, b []byte) error {
		t := txnEntry(pos, b)
		if t.version != 0 {
			return d.damaged(Problem{Pos: pos, Reason: fmt.Sprintf("version %d is not known", t.version)})
		}
		return d.emit("aborted", Field{"producer_id", t.producerID}, Field{"first_offset", t.firstOffset},
			Field{"last_offset", t.lastOffset}, Field{"last_stable_offset", t.lastStable})
	})
	if err != nil {
		return err
	}
	return d.leftOver(rest, txnEntrySize)
}

func (d *dumper) snapshot() error {
	producers, err := producerstate.ReadSnapshot(d.FS, d.name)
	if err != nil {
		return d.unreadable(err)
	}
	for _, p := range producers {
		var batches [][]Field
		for _, b := range p.Batches() {
			batches = append(batches, []Field{
				{"first_sequence", b.FirstSequence()},
				{"last_sequence", b.LastSequence},
				{"first_offset", b.FirstOffset()},
				{"last_offset", b.LastOffset},
				{"timestamp", b.TimestampMs},
			})
		}
		if err := d.emit("producer",
			Field{"producer_id", p.ID}, Field{"producer_epoch", p.Epoch}, Field{"coordinator_epoch", p.CoordinatorEpoch},
			Field{"last_timestamp", p.LastTimestampMs}, Field{"txn_first_offset", p.TxnFirstOffset}, Field{"batches", batches},
		); err != nil {
			return err
		}
	}
	return nil
}
