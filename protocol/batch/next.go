package batch

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// magic2 is the only record format that this broker reads and writes (KIP-98).
const magic2 = 2

// Next cuts the first batch off buf and returns it with what follows it.
//
// The view has at least HeaderSize bytes and exactly Size of them, so that every
// accessor is safe on it; its CRC has not been looked at. The error is
//
//   - io.EOF if buf is empty,
//   - io.ErrUnexpectedEOF if buf ends before the batch does (a cut tail),
//   - of kind kafkaerr.CorruptMessage if the length or the magic cannot be right.
//
// On an error rest is buf as it came. Next neither copies nor allocates.
func Next(buf []byte) (v View, rest []byte, err error) {
	if len(buf) < HeaderSize {
		return nil, buf, shortNext(buf)
	}
	if buf[posMagic] != magic2 {
		return nil, buf, badMagic(int8(buf[posMagic]))
	}
	length := int32(binary.BigEndian.Uint32(buf[posLength:]))
	if length < HeaderSize-PrefixSize {
		return nil, buf, badLength(length)
	}
	if int64(length)+PrefixSize > int64(len(buf)) {
		return nil, buf, io.ErrUnexpectedEOF
	}
	size := PrefixSize + int(length)
	return View(buf[:size:size]), buf[size:], nil
}

// shortNext explains why buf, which is shorter than a header, holds no batch.
func shortNext(buf []byte) error {
	if len(buf) == 0 {
		return io.EOF
	}
	if len(buf) >= PrefixSize {
		if length := int32(binary.BigEndian.Uint32(buf[posLength:])); length < HeaderSize-PrefixSize {
			return badLength(length)
		}
	}
	if len(buf) > posMagic && buf[posMagic] != magic2 {
		return badMagic(int8(buf[posMagic]))
	}
	return io.ErrUnexpectedEOF
}

func badLength(length int32) error {
	return fmt.Errorf("record batch length %d is below the header's %d bytes: %w",
		length, HeaderSize-PrefixSize, kafkaerr.CorruptMessage)
}

func badMagic(magic int8) error {
	return fmt.Errorf("record batch has magic %d, not %d: %w", magic, magic2, kafkaerr.CorruptMessage)
}

// Check reports damage: a magic other than 2, a length field that disagrees with the
// view, or a wrong CRC. The error is of kind kafkaerr.CorruptMessage. It does not look
// at the records inside; the CRC covers them.
func (v View) Check() error {
	switch {
	case len(v) < HeaderSize:
		return fmt.Errorf("record batch of %d bytes is shorter than a header: %w", len(v), kafkaerr.CorruptMessage)
	case v.Magic() != magic2:
		return badMagic(v.Magic())
	case v.Size() != len(v):
		return fmt.Errorf("record batch claims %d bytes in %d: %w", v.Size(), len(v), kafkaerr.CorruptMessage)
	}
	return v.checkCRC()
}

func (v View) checkCRC() error {
	if crc := v.ComputeCRC(); crc != v.CRC() {
		return fmt.Errorf("record batch at offset %d has CRC %08x, but its bytes give %08x: %w",
			v.BaseOffset(), v.CRC(), crc, kafkaerr.CorruptMessage)
	}
	return nil
}
