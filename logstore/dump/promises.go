package dump

import (
	"path/filepath"

	"github.com/klamm-mq/klamm/logstore/checkpoint"
	"github.com/klamm-mq/klamm/logstore/vfs"
)

// promises are what the checkpoints of a log directory say that must be there.
type promises struct {
	// known: there are recovery points; without them nothing explains a torn tail.
	known bool
	// binding: the flushed offsets, which only this broker writes, make a shorter log
	// damage. Kafka's recovery points may be above the end of a log after a truncation.
	binding bool
	clean   bool // the last stop was clean: every log ends at a batch

	recovery map[checkpoint.TopicPartition]int64
	flushed  map[checkpoint.TopicIDPartition]int64
	starts   map[checkpoint.TopicPartition]int64
}

// loadPromises reads what can be read; what cannot is found by the check of those files.
func loadPromises(fsys vfs.FS, dir string) promises {
	exists := func(name string) bool {
		_, err := fsys.Stat(filepath.Join(dir, name))
		return err == nil
	}
	p := promises{known: exists(checkpoint.RecoveryPointFile), binding: exists(checkpoint.FlushedFile)}
	if _, clean, err := checkpoint.ReadCleanShutdown(fsys, filepath.Join(dir, checkpoint.CleanShutdownFile)); err == nil {
		p.clean = clean
	}
	if offsets, err := checkpoint.ReadOffsets(fsys, filepath.Join(dir, checkpoint.RecoveryPointFile)); err == nil {
		p.recovery = offsets
	}
	if offsets, err := checkpoint.ReadFlushed(fsys, filepath.Join(dir, checkpoint.FlushedFile)); err == nil {
		p.flushed = offsets
	}
	if offsets, err := checkpoint.ReadOffsets(fsys, filepath.Join(dir, checkpoint.LogStartFile)); err == nil {
		p.starts = offsets
	}
	return p
}

// reached is the offset below which everything has reached the disk.
func (p promises) reached(i identity) int64 {
	if p.clean {
		return p.recovery[i.name]
	}
	return max(p.recovery[i.name], p.flushed[i.id])
}

// mayEndBefore tells whether a crash may have left the log's end unfinished.
func (p promises) mayEndBefore(i identity) bool { return p.known && !p.clean && i.name.Topic != "" }
