package epoch

import (
	"errors"
	"fmt"
	"os"

	"github.com/klamm-mq/klamm/logstore/checkpoint"
	"github.com/klamm-mq/klamm/logstore/vfs"
)

// PendingFlush is a cache's part in a sync of many files: the checkpoint's new content
// in a temporary file.
//
//	f, err := c.BeginFlush()   // nil: nothing to do
//	err = f.File().Sync()      // or with others, by vfs.Syncer
//	err = f.Finish(err)        // puts it in place; then sync the directory
type PendingFlush struct {
	c       *Cache
	changes uint64
	entries []Entry
	file    vfs.File
}

// tempSuffix is that of vfs.WriteFileAtomic, so that one leftover name serves both.
const tempSuffix = ".tmp"

// BeginFlush writes the checkpoint's new content beside the old one, without sync; nil
// if nothing changed. The caller syncs File and calls Finish exactly once; no other
// flush runs meanwhile.
func (c *Cache) BeginFlush() (*PendingFlush, error) {
	changes := c.changes.Load()
	if changes == c.flushed.Load() {
		return nil, nil
	}
	f, err := c.fs.OpenFile(c.file()+tempSuffix, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("flush leader epochs: %w", err)
	}
	entries := c.Entries()
	if _, err := f.WriteAt(checkpoint.EncodeEpochs(entries), 0); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("flush leader epochs: %w", err)
	}
	return &PendingFlush{c: c, changes: changes, entries: entries, file: f}, nil
}

// File is what must be synced.
func (f *PendingFlush) File() vfs.File { return f.file }

// Finish reports the sync. With nil the new content takes the place of the old; it is
// durable when the caller has synced the partition directory, and Settle says so.
func (f *PendingFlush) Finish(err error) error {
	closeErr := f.file.Close()
	if err := errors.Join(err, closeErr); err != nil {
		return err
	}
	name := f.c.file()
	if err := f.c.fs.Rename(name+tempSuffix, name); err != nil {
		return fmt.Errorf("flush leader epochs: %w", err)
	}
	return nil
}

// Settle notes that the new content is durable.
func (f *PendingFlush) Settle() { f.c.settle(f.changes, f.entries) }
