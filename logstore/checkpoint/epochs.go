package checkpoint

import (
	"errors"
	"strconv"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

// LeaderEpochFile is the name of a partition's leader-epoch checkpoint.
const LeaderEpochFile = "leader-epoch-checkpoint"

// EpochEntry says at which offset a leader epoch began.
type EpochEntry struct {
	Epoch       int32
	StartOffset int64
}

// ReadEpochs reads a leader-epoch checkpoint in the order of the file. Errors are
// *FormatError or the file system's.
func ReadEpochs(fsys vfs.FS, name string) ([]EpochEntry, error) {
	data, err := readFile(fsys, name)
	if err != nil {
		return nil, err
	}
	if err := checkSum(name, data); err != nil {
		return nil, err
	}
	var entries []EpochEntry
	err = decode(name, data, func(fields [][]byte) error {
		if len(fields) != 2 {
			return errors.New("want epoch, start offset")
		}
		epoch, err := parse("epoch", fields[0], 32)
		if err != nil {
			return err
		}
		start, err := parse("start offset", fields[1], 64)
		if err != nil {
			return err
		}
		if epoch < 0 || start < 0 {
			return errors.New("epoch and start offset are never negative")
		}
		entries = append(entries, EpochEntry{Epoch: int32(epoch), StartOffset: start})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}

// EncodeEpochs is the content of a leader-epoch checkpoint.
func EncodeEpochs(entries []EpochEntry) []byte {
	var line []byte
	return withSum(encode(len(entries), func(yield func([]byte)) {
		for _, e := range entries {
			line = strconv.AppendInt(line[:0], int64(e.Epoch), 10)
			line = append(line, ' ')
			line = strconv.AppendInt(line, e.StartOffset, 10)
			yield(line)
		}
	}))
}

// WriteEpochs replaces a leader-epoch checkpoint, durably.
func WriteEpochs(fsys vfs.FS, name string, entries []EpochEntry) error {
	return vfs.WriteFileAtomic(fsys, name, EncodeEpochs(entries))
}
