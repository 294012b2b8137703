package checkpoint

import (
	"cmp"
	"errors"
	"slices"
	"strconv"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

// Names of Kafka's offset checkpoints in a log directory.
const (
	RecoveryPointFile = "recovery-point-offset-checkpoint"
	HighWatermarkFile = "replication-offset-checkpoint"
	LogStartFile      = "log-start-offset-checkpoint"
	CleanerFile       = "cleaner-offset-checkpoint"
)

// TopicPartition is the key of Kafka's offset checkpoints.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// ReadOffsets reads one of Kafka's offset checkpoints: offsets by partition. Errors
// are *FormatError or the file system's. A partition listed twice has its last offset.
func ReadOffsets(fsys vfs.FS, name string) (map[TopicPartition]int64, error) {
	data, err := readFile(fsys, name)
	if err != nil {
		return nil, err
	}
	if err := checkSum(name, data); err != nil {
		return nil, err
	}
	offsets := make(map[TopicPartition]int64)
	err = decode(name, data, func(fields [][]byte) error {
		if len(fields) != 3 {
			return errors.New("want topic, partition, offset")
		}
		partition, err := parse("partition", fields[1], 32)
		if err != nil {
			return err
		}
		o, err := parse("offset", fields[2], 64)
		if err != nil {
			return err
		}
		offsets[TopicPartition{Topic: string(fields[0]), Partition: int32(partition)}] = o
		return nil
	})
	if err != nil {
		return nil, err
	}
	return offsets, nil
}

// WriteOffsets replaces an offset checkpoint, durably. Lines are sorted, so that equal
// contents are equal bytes.
func WriteOffsets(fsys vfs.FS, name string, offsets map[TopicPartition]int64) error {
	keys := make([]TopicPartition, 0, len(offsets))
	for key := range offsets {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b TopicPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	var line []byte
	data := encode(len(keys), func(yield func([]byte)) {
		for _, key := range keys {
			line = append(line[:0], key.Topic...)
			line = append(line, ' ')
			line = strconv.AppendInt(line, int64(key.Partition), 10)
			line = append(line, ' ')
			line = strconv.AppendInt(line, offsets[key], 10)
			yield(line)
		}
	})
	return vfs.WriteFileAtomic(fsys, name, withSum(data))
}
