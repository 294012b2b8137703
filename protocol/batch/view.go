package batch

import (
	"encoding/binary"
	"hash/crc32"
)

// View is the bytes of one whole RecordBatch of magic 2, header first. Accessors read
// the header in place and do not check anything; Check does.
type View []byte

// Layout of the header: position of each field in a View.
const (
	posBaseOffset      = 0
	posLength          = 8
	posLeaderEpoch     = 12
	posMagic           = 16
	posCRC             = 17
	posAttributes      = 21
	posLastOffsetDelta = 23
	posBaseTimestamp   = 27
	posMaxTimestamp    = 35
	posProducerID      = 43
	posProducerEpoch   = 51
	posBaseSequence    = 53
	posRecordCount     = 57

	// HeaderSize is the size of a batch without records.
	HeaderSize = 61
	// PrefixSize is base offset and length: what must be read to know a batch's size.
	PrefixSize = 12
)

// Bits of the attributes field.
const (
	codecMask        = 0x07
	logAppendTimeBit = 0x08
	transactionalBit = 0x10
	controlBit       = 0x20
	deleteHorizonBit = 0x40
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (v View) i16(pos int) int16 { return int16(binary.BigEndian.Uint16(v[pos:])) }
func (v View) i32(pos int) int32 { return int32(binary.BigEndian.Uint32(v[pos:])) }
func (v View) i64(pos int) int64 { return int64(binary.BigEndian.Uint64(v[pos:])) }

func (v View) BaseOffset() int64      { return v.i64(posBaseOffset) }
func (v View) LeaderEpoch() int32     { return v.i32(posLeaderEpoch) }
func (v View) Magic() int8            { return int8(v[posMagic]) }
func (v View) CRC() uint32            { return binary.BigEndian.Uint32(v[posCRC:]) }
func (v View) Attributes() int16      { return v.i16(posAttributes) }
func (v View) LastOffsetDelta() int32 { return v.i32(posLastOffsetDelta) }
func (v View) BaseTimestamp() int64   { return v.i64(posBaseTimestamp) }
func (v View) MaxTimestamp() int64    { return v.i64(posMaxTimestamp) }
func (v View) ProducerID() int64      { return v.i64(posProducerID) }
func (v View) ProducerEpoch() int16   { return v.i16(posProducerEpoch) }
func (v View) BaseSequence() int32    { return v.i32(posBaseSequence) }
func (v View) RecordCount() int32     { return v.i32(posRecordCount) }

// Size is the number of bytes that the header claims for the whole batch.
func (v View) Size() int { return PrefixSize + int(v.i32(posLength)) }

// LastOffset is the offset of the last record, which may have been compacted away.
func (v View) LastOffset() int64 { return v.BaseOffset() + int64(v.LastOffsetDelta()) }

// NextOffset is the offset after the batch.
func (v View) NextOffset() int64 { return v.LastOffset() + 1 }

// LastSequence is the sequence number of the last record; it wraps from 2^31-1 to 0.
// It is -1 if the batch has no sequence numbers.
func (v View) LastSequence() int32 {
	if v.BaseSequence() < 0 {
		return -1
	}
	return IncrementSequence(v.BaseSequence(), v.LastOffsetDelta())
}

func (v View) IsLogAppendTime() bool  { return v.Attributes()&logAppendTimeBit != 0 }
func (v View) IsTransactional() bool  { return v.Attributes()&transactionalBit != 0 }
func (v View) IsControl() bool        { return v.Attributes()&controlBit != 0 }
func (v View) HasDeleteHorizon() bool { return v.Attributes()&deleteHorizonBit != 0 }
func (v View) HasProducerID() bool    { return v.ProducerID() >= 0 }

// Records is the payload behind the header, compressed or not.
func (v View) Records() []byte { return v[HeaderSize:] }

// SetBaseOffset and SetLeaderEpoch patch fields that the CRC does not cover.
func (v View) SetBaseOffset(o int64)  { binary.BigEndian.PutUint64(v[posBaseOffset:], uint64(o)) }
func (v View) SetLeaderEpoch(e int32) { binary.BigEndian.PutUint32(v[posLeaderEpoch:], uint32(e)) }

// ComputeCRC is the CRC-32C of everything from the attributes on.
func (v View) ComputeCRC() uint32 { return crc32.Checksum(v[posAttributes:], castagnoli) }

// IncrementSequence adds n to a sequence number, wrapping from 2^31-1 to 0.
func IncrementSequence(seq, n int32) int32 {
	return int32((int64(seq) + int64(n)) & (1<<31 - 1))
}
