package checkpoint

import (
	"bytes"
	"hash/crc32"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

// Kafka's formats have no room for a checksum, but a changed digit in them is worth one: a
// log start that is too high deletes records, here and, if this replica leads, everywhere. Kafka
// passes over white space at the end of a line, as earlier releases of ours do. So the last
// entry is followed by the CRC-32C of everything before it, a bit each, the highest first: a
// space is 0, a tab is 1. A file without it, as Kafka writes it, is believed.
const (
	sumBits = 32
	zeroBit = ' '
	oneBit  = '\t'
)

// withSum adds the checksum to what encode has made. Without entries there is no place for it,
// and nothing to protect.
func withSum(data []byte) []byte {
	if bytes.Count(data, []byte{'\n'}) <= 2 {
		return data
	}
	text := data[:len(data)-1]
	return append(append(text, sumOf(text)...), '\n')
}

func sumOf(text []byte) []byte {
	sum := crc32.Checksum(text, castagnoli)
	bits := make([]byte, sumBits)
	for i := range bits {
		bits[i] = zeroBit
		if sum>>(sumBits-1-i)&1 == 1 {
			bits[i] = oneBit
		}
	}
	return bits
}

// checkSum compares the checksum, if there is one. A file that does not end with a line end was
// cut off.
func checkSum(name string, data []byte) error {
	line := bytes.TrimRight(data, "\r\n")
	text := bytes.TrimRight(line, string([]byte{zeroBit, oneBit}))
	var reason string
	switch sum := line[len(text):]; {
	case len(line) == len(data) && len(data) > 0:
		reason = "the last line has no end"
	case len(sum) > 0 && !bytes.Equal(sum, sumOf(text)):
		reason = "the checksum in the white space at the end does not fit the lines above"
	default:
		return nil
	}
	return &FormatError{File: name, Line: bytes.Count(line, []byte{'\n'}) + 1, Reason: reason}
}

// LacksSum reports whether a checkpoint has entries, but no checksum: it is Kafka's, or of an
// early release of ours.
func LacksSum(fsys vfs.FS, name string) (bool, error) {
	data, err := readFile(fsys, name)
	if err != nil {
		return false, err
	}
	line := bytes.TrimRight(data, "\r\n")
	summed := bytes.HasSuffix(line, []byte{zeroBit}) || bytes.HasSuffix(line, []byte{oneBit})
	return bytes.Count(line, []byte{'\n'}) >= 2 && !summed, nil
}
