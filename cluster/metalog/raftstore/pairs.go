package raftstore

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"slices"
)

var errBadPairs = errors.New("damaged")

// appendPairs encodes a small map: CRC-32C of the rest, then for each key, in order, key
// and value with their lengths as uvarints in front.
func appendPairs(dst []byte, pairs map[string][]byte) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	for _, k := range slices.Sorted(maps.Keys(pairs)) {
		dst = appendBytes(dst, []byte(k))
		dst = appendBytes(dst, pairs[k])
	}
	binary.BigEndian.PutUint32(dst[start:], crc32.Checksum(dst[start+4:], castagnoli()))
	return dst
}

func parsePairs(b []byte) (map[string][]byte, error) {
	if len(b) < 4 || crc32.Checksum(b[4:], castagnoli()) != binary.BigEndian.Uint32(b) {
		return nil, errBadPairs
	}
	pairs := map[string][]byte{}
	for b = b[4:]; len(b) > 0; {
		key, rest, ok := cutBytes(b)
		value, rest, ok2 := cutBytes(rest)
		if !ok || !ok2 {
			return nil, errBadPairs
		}
		pairs[string(key)], b = value, rest
	}
	return pairs, nil
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

func cutBytes(b []byte) (head, rest []byte, ok bool) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return nil, nil, false
	}
	return b[n : n+int(size)], b[n+int(size):], true
}
