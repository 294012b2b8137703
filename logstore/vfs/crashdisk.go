package vfs

import (
	"cmp"
	"maps"
	"slices"
)

// disk is what has reached the disk of one node.
type disk struct {
	id    uint64           // order of creation, so that random choices repeat
	names map[string]*node // of a directory
	pages map[int64][]byte // of a file, each a whole page; absent ones are zeros
	size  int64

	// changes have not reached the disk for certain, oldest first. All but the last
	// belong to syncs that run or failed; the last collects what is written now.
	changes []*fileChange
}

// fileChange is what happened to a file between the starts of two syncs.
type fileChange struct {
	floor  int64              // smallest size the file had; the truncation reaches the disk first
	cut    bool               // there was a truncation
	dirty  map[int64]struct{} // pages written since
	pages  map[int64][]byte   // their bytes when the sync began; nil until then
	size   int64              // the file's size when the sync began
	frozen bool               // a sync has begun: later writes go to the next change
}

// nameOp is one change of a directory that reaches the disk as a whole. A rename is
// one even between directories: journals keep it so.
type nameOp struct {
	changes []nameChange
	settled bool // durable, or dropped by a failed sync
}

func (c *crash) newDisk() *disk {
	c.nodes++
	return &disk{id: c.nodes, names: map[string]*node{}, pages: map[int64][]byte{}}
}

func (c *crash) noteNames(changes []nameChange) {
	c.ops = append(c.ops, &nameOp{changes: changes})
}

// current is the change that collects writes to n, whose size is still that before them.
func (c *crash) current(n *node) *fileChange {
	d := n.disk
	if len(d.changes) == 0 || d.changes[len(d.changes)-1].frozen {
		d.changes = append(d.changes, &fileChange{floor: int64(len(n.data)), dirty: map[int64]struct{}{}})
		c.unsynced[n] = struct{}{}
	}
	return d.changes[len(d.changes)-1]
}

func (c *crash) noteWrite(n *node, off, end int64) {
	ch := c.current(n)
	for page := off / c.pageSize; page*c.pageSize < end; page++ {
		ch.dirty[page] = struct{}{}
	}
}

func (c *crash) noteTruncate(n *node, size int64) {
	ch := c.current(n)
	if size >= int64(len(n.data)) {
		return
	}
	ch.floor, ch.cut = min(ch.floor, size), true
	for page := range ch.dirty {
		if page*c.pageSize >= size {
			delete(ch.dirty, page)
		}
	}
	if size%c.pageSize != 0 {
		ch.dirty[size/c.pageSize] = struct{}{}
	}
}

// freeze ends the current change, if there is one: it is what a sync that begins now
// will make durable.
func (c *crash) freeze(n *node) {
	changes := n.disk.changes
	if len(changes) == 0 || changes[len(changes)-1].frozen {
		return
	}
	ch := changes[len(changes)-1]
	ch.frozen = true
	ch.pages = c.dirtyPages(n, ch)
	ch.size = int64(len(n.data))
}

func (c *crash) dirtyPages(n *node, ch *fileChange) map[int64][]byte {
	pages := make(map[int64][]byte, len(ch.dirty))
	for page := range ch.dirty {
		bytes := make([]byte, c.pageSize)
		if pos := page * c.pageSize; pos < int64(len(n.data)) {
			copy(bytes, n.data[pos:])
		}
		pages[page] = bytes
	}
	return pages
}

// settle makes the changes up to last durable.
func (c *crash) settle(n *node, last *fileChange) {
	d := n.disk
	end := slices.Index(d.changes, last) + 1 // 0 if a later sync has already done it
	for _, ch := range d.changes[:end] {
		d.truncate(ch.floor, c.pageSize)
		maps.Copy(d.pages, ch.pages)
		d.size = ch.size
	}
	d.changes = slices.Delete(d.changes, 0, end)
	if len(d.changes) == 0 {
		delete(c.unsynced, n)
	}
}

// truncate also drops pages that have arrived before the size that shows them.
func (d *disk) truncate(size, pageSize int64) {
	d.size = min(d.size, size)
	truncatePages(d.pages, size, pageSize)
}

// truncate keeps the end of a running sync from undoing a later truncation that has
// reached the disk meanwhile.
func (ch *fileChange) truncate(size, pageSize int64) {
	ch.size = min(ch.size, size)
	truncatePages(ch.pages, size, pageSize)
}

func truncatePages(pages map[int64][]byte, size, pageSize int64) {
	for page, bytes := range pages {
		switch pos := page * pageSize; {
		case pos >= size:
			delete(pages, page)
		case pos+pageSize > size:
			bytes = slices.Clone(bytes) // maps share pages
			clear(bytes[size-pos:])
			pages[page] = bytes
		}
	}
}

// recover is the disk and the bytes of a file after a power cut. What lies beyond the
// size is forgotten, as file systems forget it when they recover.
func (c *crash) recover(old *disk) (*disk, []byte) {
	d := c.newDisk()
	maps.Copy(d.pages, old.pages)
	d.size = old.size
	truncatePages(d.pages, d.size, c.pageSize)
	data := make([]byte, d.size)
	for page, bytes := range d.pages {
		copy(data[page*c.pageSize:], bytes)
	}
	return d, data
}

// writeback lets a random part of what is unsynced reach the disk.
func (c *crash) writeback() {
	luck := c.newLuck()
	for _, op := range c.ops {
		if !op.settled && luck.hit() {
			op.apply()
		}
	}
	files := slices.SortedFunc(maps.Keys(c.unsynced), func(a, b *node) int {
		return cmp.Compare(a.disk.id, b.disk.id)
	})
	for _, n := range files {
		c.writebackFile(n, luck)
	}
}

// writebackFile picks what reaches the disk of each change. Pages do so in any order;
// a page written after a truncation lies in other blocks, so it does only after the
// truncation has; the size may grow before the pages below it arrive.
func (c *crash) writebackFile(n *node, luck luck) {
	d := n.disk
	for i, ch := range d.changes {
		pages, size := ch.pages, ch.size
		if !ch.frozen {
			pages, size = c.dirtyPages(n, ch), int64(len(n.data))
		}
		if ch.cut {
			if !luck.hit() {
				return
			}
			d.truncate(ch.floor, c.pageSize)
			for _, earlier := range d.changes[:i] {
				earlier.truncate(ch.floor, c.pageSize)
			}
		}
		for _, page := range slices.Sorted(maps.Keys(pages)) {
			if luck.hit() {
				d.pages[page] = pages[page]
			}
		}
		d.size = luck.between(d.size, size, c.pageSize)
	}
}

func (op *nameOp) apply() {
	for _, ch := range op.changes {
		if ch.to == nil {
			delete(ch.dir.disk.names, ch.name)
		} else {
			ch.dir.disk.names[ch.name] = ch.to
		}
	}
}

// luck decides what reaches the disk in one writeback. Often it is all or nothing,
// since between those two lies nearly every draw of a long list of coins.
type luck struct {
	c    *crash
	mood int
}

const (
	none = iota
	all
	some // and whatever is above
)

func (c *crash) newLuck() luck { return luck{c, c.rand.IntN(6)} }

func (l luck) hit() bool {
	switch l.mood {
	case none:
		return false
	case all:
		return true
	}
	return l.c.rand.IntN(2) == 0
}

// between picks a size from old to wanted: one of them or an end of page between them.
func (l luck) between(old, wanted, pageSize int64) int64 {
	if wanted <= old {
		return wanted
	}
	firstPage, lastPage := old/pageSize+1, (wanted-1)/pageSize
	switch {
	case l.mood == none:
		return old
	case l.mood == all || l.hit():
		return wanted
	case l.hit() || lastPage < firstPage:
		return old
	}
	return (firstPage + l.c.rand.Int64N(lastPage-firstPage+1)) * pageSize
}
