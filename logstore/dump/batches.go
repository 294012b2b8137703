package dump

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// Where the fields of any batch are, and where those of the formats before version 2.
//
//	0        8        12      16  17  18          22
//	+--------+--------+-------+---+---+-----------+-----
//	| offset | length | crc   |mag|att| key length| …      magic 0; 1 has a timestamp at 18
//	+--------+--------+-------+---+---+-----------+-----
const (
	prefixSize    = batch.PrefixSize
	magicPos      = 16
	legacyMinSize = 14 // crc, magic, attributes, two lengths
	readAhead     = 256 << 10
)

// found is one batch of a file.
type found struct {
	pos    int64
	size   int64
	offset int64 // the base offset; of a message before magic 2 the last one
	magic  int8
	// view is the batch of magic 2, valid until the next is read; else nil.
	view batch.View
	// bad is why the bytes are not what was written, "" if they are.
	bad string
}

// tail is how a walk ended.
type tail struct {
	pos int64 // behind the last batch
	// reason is what is wrong behind it, "" if nothing is.
	reason string
	// zeros counts bytes of a preallocated file that have never been written.
	zeros int64
}

// walk visits the batches of a file. The error is the file system's or visit's.
func walk(fsys vfs.FS, name string, visit func(found) error) (tail, error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return tail{}, fmt.Errorf("open %s: %w", name, err)
	}
	defer func() { _ = f.Close() }() // only read from
	size, err := f.Size()
	if err != nil {
		return tail{}, fmt.Errorf("size of %s: %w", name, err)
	}
	w := walker{in: bufio.NewReaderSize(io.NewSectionReader(f, 0, size), readAhead), size: size}
	for {
		b, reason, err := w.next()
		switch {
		case err != nil:
			return tail{}, fmt.Errorf("read %s: %w", name, err)
		case reason != "":
			return w.end(name, reason)
		case b.size == 0:
			return tail{pos: w.pos}, nil
		}
		if err := visit(b); err != nil {
			return tail{}, err
		}
		w.pos += b.size
	}
}

type walker struct {
	in   *bufio.Reader
	size int64 // of the file
	pos  int64
	buf  []byte
}

// next reads a batch; its size is 0 at the end of the file. The reason is why there is
// none although there are bytes.
func (w *walker) next() (b found, reason string, err error) {
	left := w.size - w.pos
	if left == 0 {
		return found{}, "", nil
	}
	if left <= magicPos {
		return found{}, fmt.Sprintf("the file ends after %d bytes of a batch", left), nil
	}
	head, err := w.in.Peek(magicPos + 1)
	if err != nil {
		return found{}, "", unexpectedEnd(err)
	}
	length := int64(int32(binary.BigEndian.Uint32(head[8:])))
	b = found{pos: w.pos, size: prefixSize + length, offset: int64(binary.BigEndian.Uint64(head)), magic: int8(head[magicPos])}
	least := int64(legacyMinSize)
	if b.magic >= 2 {
		least = batch.HeaderSize - prefixSize
	}
	switch {
	case b.magic < 0 || b.magic > 2:
		return b, fmt.Sprintf("magic %d is not known", b.magic), nil
	case length < least:
		return b, fmt.Sprintf("length %d is below the %d bytes of a header", length, least), nil
	case b.size > left:
		return b, fmt.Sprintf("the file ends after %d of a batch's %d bytes", left, b.size), nil
	}
	if int64(cap(w.buf)) < b.size {
		w.buf = make([]byte, b.size)
	}
	w.buf = w.buf[:b.size]
	if _, err := io.ReadFull(w.in, w.buf); err != nil {
		return b, "", unexpectedEnd(err)
	}
	b.check(w.buf)
	return b, "", nil
}

// unexpectedEnd is for a file that has become shorter while it was read.
func unexpectedEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (b *found) check(raw []byte) {
	if b.magic == 2 {
		b.view = batch.View(raw)
		if err := b.view.Check(); err != nil {
			b.bad = fmt.Sprintf("CRC %08x, but the bytes give %08x", b.view.CRC(), b.view.ComputeCRC())
		}
		return
	}
	if stored, sum := binary.BigEndian.Uint32(raw[12:]), crc32.ChecksumIEEE(raw[16:]); stored != sum {
		b.bad = fmt.Sprintf("CRC %08x, but the bytes give %08x", stored, sum)
	}
}

// end tells zeros that have never been written from bytes that are no batch.
func (w *walker) end(name, reason string) (tail, error) {
	for {
		c, err := w.in.ReadByte()
		if errors.Is(err, io.EOF) {
			return tail{pos: w.pos, zeros: w.size - w.pos}, nil
		}
		if err != nil {
			return tail{}, fmt.Errorf("read %s: %w", name, err)
		}
		if c != 0 {
			return tail{pos: w.pos, reason: reason}, nil
		}
	}
}

// base is the first offset, as far as the header tells.
func (b found) base() int64 { return b.offset }

// last is the last offset.
func (b found) last() int64 {
	if b.view == nil {
		return b.offset
	}
	return b.view.LastOffset()
}

// entry describes a batch.
func (b found) entry() Entry {
	e := Entry{"batch", []Field{{"pos", b.pos}, {"size", b.size}, {"base_offset", b.base()}, {"last_offset", b.last()}, {"magic", b.magic}}}
	v := b.view
	if v == nil {
		return e
	}
	e.Fields = append(e.Fields, []Field{
		{"count", v.RecordCount()},
		{"leader_epoch", v.LeaderEpoch()},
		{"codec", v.Codec()},
		{"timestamp_type", timestampType(v)},
		{"base_timestamp", v.BaseTimestamp()},
		{"max_timestamp", v.MaxTimestamp()},
	}...)
	if v.HasProducerID() {
		e.Fields = append(e.Fields, []Field{
			{"producer_id", v.ProducerID()},
			{"producer_epoch", v.ProducerEpoch()},
			{"base_sequence", v.BaseSequence()},
			{"last_sequence", v.LastSequence()},
		}...)
	}
	for _, flag := range []struct {
		name string
		set  bool
	}{{"transactional", v.IsTransactional()}, {"control", v.IsControl()}, {"delete_horizon", v.HasDeleteHorizon()}} {
		if flag.set {
			e.Fields = append(e.Fields, Field{flag.name, true})
		}
	}
	e.Fields = append(e.Fields, Field{"crc", fmt.Sprintf("%08x", v.CRC())})
	return e
}

func timestampType(v batch.View) string {
	if v.IsLogAppendTime() {
		return "LogAppendTime"
	}
	return "CreateTime"
}

// control describes a control record of a partition.
func control(r batch.Record) []Field {
	kind, err := batch.ControlTypeOf(r.Key)
	if err != nil {
		return []Field{{"key", r.Key}, {"value", r.Value}}
	}
	switch {
	case kind == batch.ControlAbort && len(r.Value) >= 6:
		return []Field{{"control", "abort"}, {"coordinator_epoch", int32(binary.BigEndian.Uint32(r.Value[2:]))}}
	case kind == batch.ControlCommit && len(r.Value) >= 6:
		return []Field{{"control", "commit"}, {"coordinator_epoch", int32(binary.BigEndian.Uint32(r.Value[2:]))}}
	}
	return []Field{{"control", int16(kind)}, {"value", r.Value}}
}
