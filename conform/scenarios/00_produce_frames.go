package scenarios

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// The frames here are put together by hand: their blocks hold oneRecord as it is, which
// every format allows. Checksums are those of exactly these bytes.

// snappyLiteral is a raw block of snappy that holds these bytes, at most 60.
func snappyLiteral(raw []byte) []byte {
	return append([]byte{byte(len(raw)), byte(len(raw)-1) << 2}, raw...)
}

// xerial is the framing of Java's snappy: a header and chunks behind their lengths.
func xerial(version, compatible byte, chunks ...[]byte) []byte {
	out := []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, version, 0, 0, 0, compatible}
	for _, c := range chunks {
		out = binary.BigEndian.AppendUint32(out, uint32(len(c)))
		out = append(out, c...)
	}
	return out
}

func snappyFrames() []crafted {
	block := snappyLiteral(oneRecord())
	framed := xerial(1, 1, block)
	behind := func(b ...byte) []byte { return append(bytes.Clone(framed), b...) }
	return []crafted{
		{"one block", block},
		{"one block, odd bytes behind", append(bytes.Clone(block), 1, 2, 3)},
		{"framed", framed},
		{"framed, version 0", xerial(0, 1, block)},
		{"framed, version 9", xerial(9, 9, block)},
		{"framed, no chunks", xerial(1, 1)},
		{"framed, in two chunks", xerial(1, 1, snappyLiteral(oneRecord()[:3]), snappyLiteral(oneRecord()[3:]))},
		{"framed, chunk length cut", behind(0, 0)},
		{"framed, chunk of length 0", behind(0, 0, 0, 0)},
		{"framed, chunk beyond the end", behind(0, 0, 0, 5, 1)},
		{"framed, chunk of negative length", behind(255, 0, 0, 5, 1)},
		{"framed, header cut", framed[:12]},
		{"decoded length far too large", []byte{0xff, 0xff, 0xff, 0xff, 0x07, 0}},
		{"decoded length one too large", changed(block, 0, 1)},
		{"decoded length one too small", changed(block, 0, 255)},
	}
}

// lz4Frame is a frame of one block behind the flags, the block sizes and their checksum.
func lz4Frame(flags, sizes, checksum byte, behindBlock ...byte) []byte {
	out := []byte{0x04, 0x22, 0x4d, 0x18, flags, sizes, checksum}
	out = binary.LittleEndian.AppendUint32(out, uint32(len(oneRecord()))|1<<31)
	return append(append(out, oneRecord()...), behindBlock...)
}

func lz4Frames() []crafted {
	end, sum := []byte{0, 0, 0, 0}, []byte{0x65, 0x5f, 0x79, 0x9b}
	good := lz4Frame(0x60, 0x40, 0x82, end...)
	emptyFirst := slices.Insert(bytes.Clone(good), 7, 0, 0, 0, 0x80)
	withSum := lz4Frame(0x64, 0x40, 0xa7, append(slices.Clone(end), sum...)...)
	blockSum := lz4Frame(0x70, 0x40, 0xad, append(slices.Clone(sum), end...)...)
	return []crafted{
		{"plain block", good},
		{"no end", good[:len(good)-4]},
		{"content checksum", withSum},
		{"content checksum, cut", withSum[:len(withSum)-2]},
		{"content checksum, wrong", changed(withSum, -1, 1)},
		{"block checksum", blockSum},
		{"block checksum, wrong", changed(blockSum, -5, 1)},
		{"header checksum, wrong", changed(good, 6, 1)},
		{"4 MiB blocks", lz4Frame(0x60, 0x70, 0x73, end...)},
		{"blocks of no known size", lz4Frame(0x60, 0x30, 0xd4, end...)},
		{"reserved bit of the sizes", lz4Frame(0x60, 0xc0, 0x2a, end...)},
		{"dependent blocks", lz4Frame(0x40, 0x40, 0xc0, end...)},
		{"version 0", lz4Frame(0x20, 0x40, 0x03, end...)},
		{"version 2", lz4Frame(0xa0, 0x40, 0x0f, end...)},
		{"reserved flag", lz4Frame(0x62, 0x40, 0xf0, end...)},
		{"empty block before", emptyFirst},
		{"magic", changed(good, 0, 1)},
	}
}

// zstdFrame is a frame of one raw block. The window is 1 KiB shifted by its upper five
// bits.
func zstdFrame(descriptor, window byte, size int, behind ...byte) []byte {
	out := []byte{0x28, 0xb5, 0x2f, 0xfd, descriptor, window}
	block := size<<3 | 1 // raw and the last
	out = append(out, byte(block), byte(block>>8), byte(block>>16))
	return append(append(out, oneRecord()...), behind...)
}

func zstdFrames() []crafted {
	n := len(oneRecord())
	good := zstdFrame(0, 0, n)
	sum := []byte{0xf0, 0xd6, 0x50, 0xae}
	skippable := []byte{0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3}
	return []crafted{
		{"raw block", good},
		{"window of 8 MiB", zstdFrame(0, 13<<3, n)},
		{"window of 16 MiB", zstdFrame(0, 14<<3, n)},
		{"window of 128 MiB", zstdFrame(0, 17<<3, n)},
		{"window of 256 MiB", zstdFrame(0, 18<<3, n)},
		{"checksum", zstdFrame(4, 0, n, sum...)},
		{"checksum, wrong", zstdFrame(4, 0, n, changed(sum, 0, 1)...)},
		{"reserved flag", zstdFrame(8, 0, n)},
		{"block beyond the end", zstdFrame(0, 0, n+1)},
		{"block shorter than its bytes", zstdFrame(0, 0, n-1)},
		{"skippable frame before", append(bytes.Clone(skippable), good...)},
		{"skippable frame behind", append(bytes.Clone(good), skippable...)},
		{"magic", changed(good, 0, 1)},
	}
}
