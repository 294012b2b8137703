package fetchenc

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func appendInt16(dst []byte, v int16) []byte { return binary.BigEndian.AppendUint16(dst, uint16(v)) }

func appendInt32(dst []byte, v int32) []byte { return binary.BigEndian.AppendUint32(dst, uint32(v)) }

func appendInt64(dst []byte, v int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(v)) }

// appendLen writes the length of an array or of bytes; -1 is null.
func (e *encoder) appendLen(dst []byte, n int) []byte {
	if e.flexible {
		return binary.AppendUvarint(dst, uint64(n+1))
	}
	return appendInt32(dst, int32(n))
}

func (e *encoder) appendString(dst []byte, s string) []byte {
	if e.flexible {
		return appendCompactString(dst, s)
	}
	dst = appendInt16(dst, int16(len(s)))
	return append(dst, s...)
}

func appendCompactString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)+1))
	return append(dst, s...)
}

// appendTags ends a struct in flexible versions with the tags that it has.
func (e *encoder) appendTags(dst []byte, tags *kmsg.Tags) []byte {
	if !e.flexible {
		return dst
	}
	return appendTagSection(dst, tags)
}

func appendTagSection(dst []byte, tags *kmsg.Tags) []byte {
	dst = binary.AppendUvarint(dst, uint64(tags.Len()))
	return tags.AppendEach(dst)
}

// appendTagged writes a tagged field: tag, size, content. It writes the content twice,
// the first time to learn its size.
func appendTagged[T any](dst []byte, tag uint64, v T, content func([]byte, T) []byte) []byte {
	dst = binary.AppendUvarint(dst, tag)
	at := len(dst)
	dst = content(dst, v)
	dst = binary.AppendUvarint(dst[:at], uint64(len(dst)-at))
	return content(dst, v)
}
