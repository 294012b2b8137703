package checkpoint

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// FlushedFile holds, per partition, the end of what a sync has reported durable. Bad
// bytes below it are damage, above it a torn tail.
const FlushedFile = "flushed-offset-checkpoint"

// TopicIDPartition is the key of the flushed-offset checkpoint.
type TopicIDPartition struct {
	TopicID   uuid.UUID
	Partition int32
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// crcPrefix begins the last line of the flushed-offset checkpoint; eight hexadecimal
// digits follow.
const crcPrefix = "crc32c "

// ReadFlushed reads the flushed-offset checkpoint. Errors are *FormatError, also for a
// wrong CRC, or the file system's.
func ReadFlushed(fsys vfs.FS, name string) (map[TopicIDPartition]int64, error) {
	data, err := readFile(fsys, name)
	if err != nil {
		return nil, err
	}
	body, err := checkCRCLine(name, data)
	if err != nil {
		return nil, err
	}
	offsets := make(map[TopicIDPartition]int64)
	err = decode(name, body, func(fields [][]byte) error {
		if len(fields) != 3 {
			return errors.New("want topic id, partition, offset")
		}
		id, err := uuid.Parse(string(fields[0]))
		if err != nil {
			return err
		}
		partition, err := parse("partition", fields[1], 32)
		if err != nil {
			return err
		}
		o, err := parse("offset", fields[2], 64)
		if err != nil {
			return err
		}
		offsets[TopicIDPartition{TopicID: id, Partition: int32(partition)}] = o
		return nil
	})
	if err != nil {
		return nil, err
	}
	return offsets, nil
}

// checkCRCLine cuts the last line off and checks that it fits what is before it.
func checkCRCLine(name string, data []byte) ([]byte, error) {
	if len(data) == 0 {
		return nil, nil
	}
	lines := bytes.Count(bytes.TrimSpace(data), []byte{'\n'}) + 1
	at := bytes.LastIndex(data, []byte(crcPrefix))
	if at < 0 {
		return nil, &FormatError{File: name, Line: lines, Reason: "the CRC line is missing"}
	}
	body, line := data[:at], bytes.TrimSpace(data[at:])
	if want := crcLine(body); string(line) != want {
		return nil, &FormatError{File: name, Line: lines, Reason: fmt.Sprintf("%q does not fit the lines above, which give %q", line, want)}
	}
	return body, nil
}

func crcLine(body []byte) string {
	return fmt.Sprintf("%s%08x", crcPrefix, crc32.Checksum(body, castagnoli))
}

// WriteFlushed replaces the flushed-offset checkpoint, durably.
func WriteFlushed(fsys vfs.FS, name string, offsets map[TopicIDPartition]int64) error {
	keys := make([]TopicIDPartition, 0, len(offsets))
	for key := range offsets {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b TopicIDPartition) int {
		return cmp.Or(bytes.Compare(a.TopicID[:], b.TopicID[:]), cmp.Compare(a.Partition, b.Partition))
	})
	var line []byte
	data := encode(len(keys), func(yield func([]byte)) {
		for _, key := range keys {
			line = append(line[:0], key.TopicID.String()...)
			line = append(line, ' ')
			line = strconv.AppendInt(line, int64(key.Partition), 10)
			line = append(line, ' ')
			line = strconv.AppendInt(line, offsets[key], 10)
			yield(line)
		}
	})
	data = append(data, crcLine(data)...)
	return vfs.WriteFileAtomic(fsys, name, append(data, '\n'))
}
