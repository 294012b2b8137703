package batch

import (
	"encoding/binary"
	"errors"
	"io"
	"math/bits"

	"github.com/pierrec/lz4/v4"
)

// An lz4 frame, as far as Kafka uses it (Lz4BlockInputStream, Lz4BlockOutputStream):
// blocks are independent, dictionaries and skippable frames are not known, and what
// follows the end mark is ignored.
//
//	┌─────────────┬─────┬────┬────────────────┬────┬──────────┬───────┬──────────┬───┬──────┬──────────────────┐
//	│ 04 22 4d 18 │ FLG │ BD │ content size?  │ HC │ length   │ block │ xxh32?   │ … │ 0    │ content xxh32?   │
//	└──────4──────┴──1──┴─1──┴───────8────────┴─1──┴────4─────┴───────┴────4─────┴───┴──4───┴────────4─────────┘
const (
	lz4Magic            = 0x184d2204
	lz4Version          = 1 << 6
	lz4VersionMask      = 3 << 6
	lz4Independent      = 1 << 5
	lz4BlockChecksum    = 1 << 4
	lz4HasContentSize   = 1 << 3
	lz4ContentChecksum  = 1 << 2
	lz4FlagReserved     = 3
	lz4BlockSize64K     = 4
	lz4Uncompressed     = 1 << 31
	lz4WriteBlock       = 64 << 10
	lz4MinDescriptor    = 2
	lz4ContentSizeBytes = 8
)

var (
	errLZ4Header   = errors.New("lz4: bad frame header")
	errLZ4Block    = errors.New("lz4: bad block")
	errLZ4Checksum = errors.New("lz4: checksum differs")
)

// lz4Decoder reads one lz4 frame.
type lz4Decoder struct {
	in       []byte
	maxBlock int
	checked  bool // blocks carry checksums
	trailer  bool // a checksum of the content follows the end mark; nobody verifies it
	done     bool
	out      []byte // room for one block
	left     []byte // what was not read of the block
}

func (d *lz4Decoder) Reset(payload []byte) error {
	d.in, d.left, d.done = payload, nil, false
	if cap(d.out) > maxKeptBuffer {
		d.out = nil
	}
	if payload == nil {
		return nil
	}
	return d.header()
}

func (d *lz4Decoder) header() error {
	if len(d.in) < 6 {
		return io.ErrUnexpectedEOF
	}
	if binary.LittleEndian.Uint32(d.in) != lz4Magic {
		return errLZ4Header
	}
	flags, bd := d.in[4], d.in[5]
	size := bd >> 4 & 7
	if flags&lz4VersionMask != lz4Version || flags&lz4Independent == 0 || flags&lz4FlagReserved != 0 ||
		bd&0x8f != 0 || size < lz4BlockSize64K {
		return errLZ4Header
	}
	d.checked = flags&lz4BlockChecksum != 0
	d.trailer = flags&lz4ContentChecksum != 0
	d.maxBlock = 1 << (8 + 2*size)
	return d.descriptor(flags)
}

// descriptor checks the checksum behind flags, block size and content size.
func (d *lz4Decoder) descriptor(flags byte) error {
	n := lz4MinDescriptor
	if flags&lz4HasContentSize != 0 {
		n += lz4ContentSizeBytes
	}
	if len(d.in) < 4+n+1 {
		return io.ErrUnexpectedEOF
	}
	if byte(xxh32(d.in[4:4+n])>>8) != d.in[4+n] {
		return errLZ4Checksum
	}
	d.in = d.in[4+n+1:]
	return nil
}

func (d *lz4Decoder) Read(p []byte) (int, error) {
	for len(d.left) == 0 {
		if d.done {
			return 0, io.EOF
		}
		if err := d.nextBlock(); err != nil {
			return 0, err
		}
	}
	n := copy(p, d.left)
	d.left = d.left[n:]
	return n, nil
}

func (d *lz4Decoder) nextBlock() error {
	if len(d.in) < 4 {
		return io.ErrUnexpectedEOF
	}
	word := binary.LittleEndian.Uint32(d.in)
	size := int(word &^ lz4Uncompressed)
	d.in = d.in[4:]
	if size == 0 {
		return d.end()
	}
	if size > d.maxBlock {
		return errLZ4Block
	}
	if len(d.in) < size {
		return io.ErrUnexpectedEOF
	}
	block := d.in[:size]
	d.in = d.in[size:]
	if err := d.checkBlock(block); err != nil {
		return err
	}
	return d.decode(block, word&lz4Uncompressed != 0)
}

func (d *lz4Decoder) end() error {
	if d.trailer && len(d.in) < 4 {
		return io.ErrUnexpectedEOF
	}
	d.done = true
	return nil
}

func (d *lz4Decoder) checkBlock(block []byte) error {
	if !d.checked {
		return nil
	}
	if len(d.in) < 4 {
		return io.ErrUnexpectedEOF
	}
	want := binary.LittleEndian.Uint32(d.in)
	d.in = d.in[4:]
	if xxh32(block) != want {
		return errLZ4Checksum
	}
	return nil
}

func (d *lz4Decoder) decode(block []byte, plain bool) error {
	if plain {
		d.left = block
		return nil
	}
	// 255 is the most that one byte of lz4 can stand for, so that a small block need
	// not get the 4 MiB its frame may name.
	room := min(d.maxBlock, 255*len(block))
	if cap(d.out) < room {
		d.out = make([]byte, room)
	}
	n, err := lz4.UncompressBlock(block, d.out[:room])
	if err != nil {
		return errLZ4Block
	}
	d.left = d.out[:n]
	return nil
}

// Primes of xxHash32.
const (
	xxPrime1 uint32 = 2654435761
	xxPrime2 uint32 = 2246822519
	xxPrime3 uint32 = 3266489917
	xxPrime4 uint32 = 668265263
	xxPrime5 uint32 = 374761393
)

// xxh32 is xxHash32 with seed 0, the checksum of lz4 frames.
func xxh32(b []byte) uint32 {
	h := xxPrime5
	n := uint32(len(b))
	if len(b) >= 16 {
		h, b = xxStripes(b)
	}
	h += n
	for ; len(b) >= 4; b = b[4:] {
		h += binary.LittleEndian.Uint32(b) * xxPrime3
		h = bits.RotateLeft32(h, 17) * xxPrime4
	}
	for _, c := range b {
		h += uint32(c) * xxPrime5
		h = bits.RotateLeft32(h, 11) * xxPrime1
	}
	h = (h ^ h>>15) * xxPrime2
	h = (h ^ h>>13) * xxPrime3
	return h ^ h>>16
}

// xxStripes hashes whole stripes of 16 bytes and returns what is left.
func xxStripes(b []byte) (uint32, []byte) {
	p1 := xxPrime1 // a variable, since the sum of the constants overflows
	acc := [4]uint32{p1 + xxPrime2, xxPrime2, 0, -p1}
	for ; len(b) >= 16; b = b[16:] {
		for i := range acc {
			acc[i] += binary.LittleEndian.Uint32(b[4*i:]) * xxPrime2
			acc[i] = bits.RotateLeft32(acc[i], 13) * xxPrime1
		}
	}
	return bits.RotateLeft32(acc[0], 1) + bits.RotateLeft32(acc[1], 7) +
		bits.RotateLeft32(acc[2], 12) + bits.RotateLeft32(acc[3], 18), b
}
