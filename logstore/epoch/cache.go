package epoch

import (
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/klamm-mq/klamm/internal/invariant"
	"github.com/klamm-mq/klamm/logstore/checkpoint"
	"github.com/klamm-mq/klamm/logstore/vfs"
)

// Undefined is the epoch, and the offset, of an answer that is not known.
const Undefined = -1

// Entry says at which offset a leader epoch began.
type Entry = checkpoint.EpochEntry

// Cache holds the leader epochs of one partition's log. Reads are safe at any time;
// changes are serialised by the caller, and so are Flushes, but a Flush may run while
// the cache changes.
type Cache struct {
	fs  vfs.FS
	dir atomic.Pointer[string]

	// entries rise strictly in epoch and in start offset. The slice is never changed
	// in place, except that appends may use its spare room.
	entries atomic.Pointer[[]Entry]

	// changes counts the changes of entries, after they were made; flushed is the
	// count that the checkpoint holds, and written what it holds.
	changes, flushed atomic.Uint64
	written          atomic.Pointer[[]Entry]
}

// New returns an empty cache for a partition directory that has no checkpoint yet.
func New(fs vfs.FS, dir string) *Cache {
	c := &Cache{fs: fs}
	c.dir.Store(&dir)
	none := new([]Entry)
	c.entries.Store(none)
	c.written.Store(none)
	return c
}

// Rebuild is New where there is a checkpoint that cannot be read: Flush replaces it, with
// whatever entries there are by then.
func Rebuild(fs vfs.FS, dir string) *Cache {
	c := New(fs, dir)
	c.written.Store(&[]Entry{{Epoch: Undefined, StartOffset: Undefined}}) // unlike all entries
	c.changes.Add(1)
	return c
}

// Load reads the checkpoint of a partition directory; a missing one is empty. Entries
// out of order are resolved as if they had been assigned one after the other.
func Load(fs vfs.FS, dir string) (*Cache, error) {
	c := New(fs, dir)
	entries, err := checkpoint.ReadEpochs(fs, c.file())
	if err != nil {
		return nil, fmt.Errorf("load leader epochs: %w", err)
	}
	for _, e := range entries {
		c.Assign(e.Epoch, e.StartOffset)
	}
	c.written.Store(&entries)
	if slices.Equal(entries, c.Entries()) {
		c.written.Store(c.entries.Load())
		c.flushed.Store(c.changes.Load())
	}
	return c, nil
}

func (c *Cache) file() string { return filepath.Join(*c.dir.Load(), checkpoint.LeaderEpochFile) }

func (c *Cache) load() []Entry { return *c.entries.Load() }

func (c *Cache) store(entries []Entry) {
	c.entries.Store(&entries)
	c.changes.Add(1)
}

// SetDir follows a rename of the partition directory.
func (c *Cache) SetDir(dir string) { c.dir.Store(&dir) }

// Entries is all of them, oldest first. The slice must not be changed.
func (c *Cache) Entries() []Entry {
	entries := c.load()
	return entries[:len(entries):len(entries)]
}

// Latest is the newest epoch that has an entry.
func (c *Cache) Latest() (Entry, bool) {
	entries := c.load()
	if len(entries) == 0 {
		return Entry{}, false
	}
	return entries[len(entries)-1], true
}

// Earliest is the oldest epoch that has an entry.
func (c *Cache) Earliest() (Entry, bool) {
	entries := c.load()
	if len(entries) == 0 {
		return Entry{}, false
	}
	return entries[0], true
}

// Previous is the newest entry below epoch.
func (c *Cache) Previous(epoch int32) (Entry, bool) {
	entries := c.load()
	i := above(entries, epoch-1)
	if i == 0 {
		return Entry{}, false
	}
	return entries[i-1], true
}

// above is the index of the first entry with a larger epoch.
func above(entries []Entry, epoch int32) int {
	return sort.Search(len(entries), func(i int) bool { return entries[i].Epoch > epoch })
}

// Assign notes that epoch began at startOffset and reports whether that was news. An
// epoch that has an entry keeps it, unless the new one begins earlier. Entries that
// would no longer rise, because they have a larger epoch or begin later, are dropped:
// they describe a history that was truncated.
func (c *Cache) Assign(epoch int32, startOffset int64) bool {
	invariant.Check(epoch >= 0 && startOffset >= 0, "leader epoch %d at offset %d", epoch, startOffset)
	entries := c.load()
	if last, ok := c.Latest(); ok && last.Epoch == epoch && startOffset >= last.StartOffset {
		return false
	}
	keep := len(entries)
	for keep > 0 && (entries[keep-1].Epoch >= epoch || entries[keep-1].StartOffset >= startOffset) {
		keep--
	}
	entry := Entry{Epoch: epoch, StartOffset: startOffset}
	if keep == len(entries) {
		c.store(append(entries, entry))
	} else {
		c.store(append(slices.Clone(entries[:keep]), entry))
	}
	return true
}

// EndOffsetFor answers OffsetsForLeaderEpoch: the largest epoch not above the one asked
// for, and the offset after its last record. logEnd is the end of the latest epoch.
// Both are Undefined if the epoch is newer than all that are known, or none is. If it
// is older than all, the answer is the epoch itself and where the oldest begins, since
// what was there is gone.
func (c *Cache) EndOffsetFor(epoch int32, logEnd int64) (foundEpoch int32, endOffset int64) {
	entries := c.load()
	if epoch == Undefined || len(entries) == 0 {
		return Undefined, Undefined
	}
	if entries[len(entries)-1].Epoch == epoch {
		return epoch, logEnd
	}
	next := above(entries, epoch)
	switch next {
	case len(entries):
		return Undefined, Undefined
	case 0:
		return epoch, entries[0].StartOffset
	default:
		return entries[next-1].Epoch, entries[next].StartOffset
	}
}

// EpochForOffset is the epoch in which the record at an offset was written; false if
// the offset is older than all epochs known.
func (c *Cache) EpochForOffset(offset int64) (int32, bool) {
	entries := c.load()
	i := sort.Search(len(entries), func(i int) bool { return entries[i].StartOffset > offset })
	if i == 0 {
		return Undefined, false
	}
	return entries[i-1].Epoch, true
}

// TruncateFromEnd drops the epochs that began at or above endOffset.
func (c *Cache) TruncateFromEnd(endOffset int64) {
	entries := c.load()
	keep := sort.Search(len(entries), func(i int) bool { return entries[i].StartOffset >= endOffset })
	if endOffset < 0 || keep == len(entries) {
		return
	}
	// Cloned: an append into the room that is given up would change what readers see.
	c.store(slices.Clone(entries[:keep]))
}

// TruncateFromStart drops the epochs that ended at or below startOffset. The one that
// the offset is in then begins there.
func (c *Cache) TruncateFromStart(startOffset int64) {
	entries := c.load()
	after := sort.Search(len(entries), func(i int) bool { return entries[i].StartOffset > startOffset })
	if after == 0 || (after == 1 && entries[0].StartOffset == startOffset) {
		return
	}
	kept := slices.Clone(entries[after-1:])
	kept[0].StartOffset = startOffset
	c.store(kept)
}

// Clear drops everything.
func (c *Cache) Clear() {
	if len(c.load()) > 0 {
		c.store(nil)
	}
}

// Dirty reports whether there are changes that Flush has not written.
func (c *Cache) Dirty() bool { return c.changes.Load() != c.flushed.Load() }

// DirtyBelow reports whether the checkpoint says anything else of the epochs that began
// below an offset. Of a log that ends there they are all that a start needs: an epoch that
// begins at the end has no record, and is forgotten.
func (c *Cache) DirtyBelow(offset int64) bool {
	return c.Dirty() && !slices.Equal(below(c.load(), offset), below(*c.written.Load(), offset))
}

func below(entries []Entry, offset int64) []Entry {
	return entries[:sort.Search(len(entries), func(i int) bool { return entries[i].StartOffset >= offset })]
}

// Flush writes the checkpoint, durably, if anything changed. After an error the cache
// stays dirty. It takes no lock, so that nobody waits for the disk.
func (c *Cache) Flush() error {
	changes := c.changes.Load()
	if changes == c.flushed.Load() {
		return nil
	}
	entries := c.Entries()
	if err := checkpoint.WriteEpochs(c.fs, c.file(), entries); err != nil {
		return fmt.Errorf("flush leader epochs: %w", err)
	}
	c.settle(changes, entries)
	return nil
}

// settle notes what the checkpoint holds.
func (c *Cache) settle(changes uint64, entries []Entry) {
	c.written.Store(&entries)
	c.flushed.Store(changes)
}
