package batch

import "encoding/binary"

// Variable-length integers as in records: little groups of 7 bits, zigzag for signed
// values. The decoders follow Kafka's ByteUtils to the bit: a varint has at most 5
// bytes, a varlong 10, and surplus bits of the last byte are dropped.
//
// They return the number of bytes used, 0 if buf ends too early, or a negative number
// if the encoding is too long.

const (
	maxVarintLen  = 5
	maxVarlongLen = 10
)

func varint(buf []byte) (int32, int) {
	if len(buf) > 0 && buf[0] < 0x80 {
		return unzigzag32(uint32(buf[0])), 1
	}
	return longVarint(buf)
}

func longVarint(buf []byte) (int32, int) {
	var u uint32
	for i := range min(len(buf), maxVarintLen) {
		b := buf[i]
		u |= uint32(b&0x7f) << (7 * i)
		if b < 0x80 {
			return unzigzag32(u), i + 1
		}
	}
	if len(buf) < maxVarintLen {
		return 0, 0
	}
	return 0, -maxVarintLen
}

func varlong(buf []byte) (int64, int) {
	if len(buf) > 0 && buf[0] < 0x80 {
		return unzigzag64(uint64(buf[0])), 1
	}
	return longVarlong(buf)
}

func longVarlong(buf []byte) (int64, int) {
	var u uint64
	for i := range min(len(buf), maxVarlongLen) {
		b := buf[i]
		u |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return unzigzag64(u), i + 1
		}
	}
	if len(buf) < maxVarlongLen {
		return 0, 0
	}
	return 0, -maxVarlongLen
}

func unzigzag32(u uint32) int32 { return int32(u>>1) ^ -int32(u&1) }
func unzigzag64(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// appendVarint appends n zigzag-encoded; it serves varints and varlongs alike.
func appendVarint(dst []byte, n int64) []byte { return binary.AppendVarint(dst, n) }

// varintLen is the encoded size of n.
func varintLen(n int64) int {
	u := uint64(n<<1) ^ uint64(n>>63)
	size := 1
	for ; u >= 0x80; u >>= 7 {
		size++
	}
	return size
}
