package checkpoint

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// SegmentsFile holds how long the log files of segments are, and up to which offset they
// reach: what a start would else have to read of each. It promises nothing: an entry that does
// not fit the files only means that they have to be looked at.
const SegmentsFile = "segment-checkpoint"

// Segment is what is known of the log file of a segment that has ended.
type Segment struct {
	Base int64 // offset
	Size int64 // bytes
	End  int64 // the offset at which the next segment begins, or the log ended
}

// ReadSegments reads the segment checkpoint; those of one partition are in the order of their
// offsets. Errors are *FormatError, also for a wrong CRC, or the file system's.
func ReadSegments(fsys vfs.FS, name string) (map[TopicIDPartition][]Segment, error) {
	data, err := readFile(fsys, name)
	if err != nil {
		return nil, err
	}
	body, err := checkCRCLine(name, data)
	if err != nil {
		return nil, err
	}
	segments := make(map[TopicIDPartition][]Segment)
	err = decode(name, body, func(fields [][]byte) error {
		key, s, err := parseSegment(fields)
		if n := len(segments[key]); err == nil && n > 0 && segments[key][n-1].Base >= s.Base {
			err = errors.New("segments are out of order")
		}
		segments[key] = append(segments[key], s)
		return err
	})
	if err != nil {
		return nil, err
	}
	return segments, nil
}

func parseSegment(fields [][]byte) (key TopicIDPartition, s Segment, err error) {
	if len(fields) != 5 {
		return key, s, errors.New("want topic id, partition, base offset, size, end offset")
	}
	if key.TopicID, err = uuid.Parse(string(fields[0])); err != nil {
		return key, s, err
	}
	partition, err := parse("partition", fields[1], 32)
	key.Partition = int32(partition)
	for i, field := range []struct {
		what string
		into *int64
	}{{"base offset", &s.Base}, {"size", &s.Size}, {"end offset", &s.End}} {
		if err == nil {
			*field.into, err = parse(field.what, fields[2+i], 64)
		}
	}
	return key, s, err
}

// WriteSegments replaces the segment checkpoint, durably.
func WriteSegments(fsys vfs.FS, name string, segments map[TopicIDPartition][]Segment) error {
	n := 0
	for _, of := range segments {
		n += len(of)
	}
	keys := slices.SortedFunc(maps.Keys(segments), func(a, b TopicIDPartition) int {
		return cmp.Or(bytes.Compare(a.TopicID[:], b.TopicID[:]), cmp.Compare(a.Partition, b.Partition))
	})
	var line []byte
	data := encode(n, func(yield func([]byte)) {
		for _, key := range keys {
			line = append(line[:0], key.TopicID.String()...)
			line = append(line, ' ')
			line = strconv.AppendInt(line, int64(key.Partition), 10)
			head := len(line)
			for _, s := range segments[key] {
				line = line[:head]
				for _, v := range []int64{s.Base, s.Size, s.End} {
					line = strconv.AppendInt(append(line, ' '), v, 10)
				}
				yield(line)
			}
		}
	})
	data = append(data, crcLine(data)...)
	return vfs.WriteFileAtomic(fsys, name, append(data, '\n'))
}
