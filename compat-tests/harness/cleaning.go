package harness

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Cleaning are settings with which compacted topics are compacted while they are in use,
// those that the broker and its clients make for themselves as well: segments of a second,
// cleaned as soon as they have ended.
func Cleaning() []string {
	return []string{"log.roll.ms=1000", "log.cleaner.backoff.ms=200", "log.cleaner.min.cleanable.ratio=0.01", "log.cleaner.delete.retention.ms=1000"}
}

// CleanUpTo is how far the cleaner has come in a partition of a log directory, -1 if
// nothing has been cleaned. Klamm and Kafka note it in the same format.
func CleanUpTo(dir, topic string, partition int) (int64, error) {
	content, err := os.ReadFile(filepath.Join(dir, "cleaner-offset-checkpoint"))
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return -1, err
	}
	for line := range strings.Lines(string(content)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == topic && f[1] == strconv.Itoa(partition) {
			return strconv.ParseInt(f[2], 10, 64)
		}
	}
	return -1, nil
}
