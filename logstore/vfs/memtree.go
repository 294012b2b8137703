package vfs

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// memory is a file system in memory: what MemFS and CrashFS are views of.
type memory struct {
	mu       sync.Mutex // guards everything here and every node; never held during a hook
	root     *node
	locks    map[*node]*memLock
	now      func() time.Time
	capacity int64 // bytes of all files; 0 = no limit
	used     int64
	life     uint64 // number of crashes so far; handles of an earlier life are dead
	crash    *crash // what a power cut would leave; nil in a MemFS
}

// node is a file or a directory.
type node struct {
	mode     fs.FileMode
	modTime  time.Time
	children map[string]*node // not nil in a directory
	data     []byte           // of a file; bytes between length and capacity are zero
	linked   bool             // reachable by a name; only then its bytes count as used
	disk     *disk            // what a power cut would leave; nil in a MemFS
}

func newMemory() *memory {
	m := &memory{locks: map[*node]*memLock{}, now: time.Now}
	m.root = m.newNode(fs.ModeDir | 0o755)
	return m
}

func (m *memory) newNode(mode fs.FileMode) *node {
	n := &node{mode: mode, modTime: m.now()}
	if mode.IsDir() {
		n.children = map[string]*node{}
	}
	if m.crash != nil {
		n.disk = m.crash.newDisk()
	}
	return n
}

func (n *node) isDir() bool { return n.children != nil }

// nameChange gives a name in a directory to a node, or to none.
type nameChange struct {
	dir  *node
	name string
	to   *node
}

// rebind does changes that happen together, such as the two halves of a rename.
func (m *memory) rebind(changes ...nameChange) {
	for _, c := range changes {
		if old := c.dir.children[c.name]; old != nil {
			m.setLinked(old, false)
		}
		if c.to == nil {
			delete(c.dir.children, c.name)
		} else {
			c.dir.children[c.name] = c.to
		}
		c.dir.modTime = m.now()
	}
	for _, c := range changes {
		if c.to != nil {
			m.setLinked(c.to, true)
		}
	}
	if m.crash != nil {
		m.crash.noteNames(changes)
	}
}

func (m *memory) setLinked(n *node, linked bool) {
	if n.linked == linked {
		return
	}
	n.linked = linked
	if linked {
		m.used += int64(len(n.data))
	} else {
		m.used -= int64(len(n.data))
	}
}

// elements splits a name; relative names are relative to the root.
func elements(name string) []string {
	clean := strings.Trim(filepath.ToSlash(filepath.Clean("/"+name)), "/")
	if clean == "" {
		return nil
	}
	return strings.Split(clean, "/")
}

func (m *memory) lookup(name string) (*node, error) {
	return m.walk(elements(name))
}

func (m *memory) walk(path []string) (*node, error) {
	n := m.root
	for _, element := range path {
		if !n.isDir() {
			return nil, syscall.ENOTDIR
		}
		if n = n.children[element]; n == nil {
			return nil, syscall.ENOENT
		}
	}
	return n, nil
}

// parent finds the directory that holds, or would hold, name.
func (m *memory) parent(name string) (dir *node, base string, err error) {
	path := elements(name)
	if len(path) == 0 {
		return nil, "", syscall.EINVAL
	}
	dir, err = m.walk(path[:len(path)-1])
	if err == nil && !dir.isDir() {
		err = syscall.ENOTDIR
	}
	return dir, path[len(path)-1], err
}

func (m *memory) mkdirAll(name string, perm fs.FileMode) error {
	dir := m.root
	for _, element := range elements(name) {
		child := dir.children[element]
		if child == nil {
			child = m.newNode(fs.ModeDir | perm.Perm())
			m.rebind(nameChange{dir, element, child})
		}
		if !child.isDir() {
			return syscall.ENOTDIR
		}
		dir = child
	}
	return nil
}

func (m *memory) remove(name string) error {
	dir, base, err := m.parent(name)
	if err != nil {
		return err
	}
	n := dir.children[base]
	if n == nil {
		return syscall.ENOENT
	}
	if len(n.children) > 0 {
		return syscall.ENOTEMPTY
	}
	m.rebind(nameChange{dir, base, nil})
	return nil
}

func (m *memory) removeAll(name string) error {
	dir, base, err := m.parent(name)
	if errors.Is(err, syscall.ENOENT) || err == nil && dir.children[base] == nil {
		return nil
	}
	if err != nil {
		return err
	}
	m.removeTree(dir, base)
	return nil
}

// removeTree removes name by name, since that is how a crash may interrupt it.
func (m *memory) removeTree(dir *node, base string) {
	n := dir.children[base]
	for _, child := range sortedNames(n.children) {
		m.removeTree(n, child)
	}
	m.rebind(nameChange{dir, base, nil})
}

func (m *memory) rename(from, to string) error {
	fromDir, fromBase, err := m.parent(from)
	if err != nil {
		return err
	}
	toDir, toBase, err := m.parent(to)
	if err != nil {
		return err
	}
	n, old := fromDir.children[fromBase], toDir.children[toBase]
	switch {
	case n == nil:
		return syscall.ENOENT
	case n == old:
		return nil
	case n.isDir() && isPrefix(elements(from), elements(to)):
		return syscall.EINVAL
	case old != nil && old.isDir() && !n.isDir():
		return syscall.EISDIR
	case old != nil && !old.isDir() && n.isDir():
		return syscall.ENOTDIR
	case old != nil && len(old.children) > 0:
		return syscall.ENOTEMPTY
	}
	m.rebind(nameChange{fromDir, fromBase, nil}, nameChange{toDir, toBase, n})
	return nil
}

func isPrefix(prefix, path []string) bool {
	return len(prefix) <= len(path) && slices.Equal(prefix, path[:len(prefix)])
}

// write stores p at off. On a full file system it stores what fits, as real ones do.
func (m *memory) write(n *node, p []byte, off int64) (int, error) {
	missing := m.missing(n, off+int64(len(p)))
	stored := p[:max(0, int64(len(p))-missing)]
	if len(stored) > 0 {
		end := off + int64(len(stored))
		m.resize(n, max(end, int64(len(n.data))))
		copy(n.data[off:], stored)
		if m.crash != nil {
			m.crash.noteWrite(n, off, end)
		}
	}
	if len(stored) < len(p) {
		return len(stored), syscall.ENOSPC
	}
	return len(stored), nil
}

func (m *memory) truncate(n *node, size int64) error {
	if m.missing(n, size) > 0 {
		return syscall.ENOSPC
	}
	if m.crash != nil {
		m.crash.noteTruncate(n, size)
	}
	m.resize(n, size)
	return nil
}

// missing is by how many bytes the file system is too small for n to reach size.
func (m *memory) missing(n *node, size int64) int64 {
	if m.capacity == 0 || !n.linked {
		return 0
	}
	growth := max(0, size-int64(len(n.data)))
	return min(growth, max(0, m.used+growth-m.capacity))
}

func (m *memory) resize(n *node, size int64) {
	old := int64(len(n.data))
	if size < old {
		clear(n.data[size:])
		n.data = n.data[:size]
	} else {
		n.data = slices.Grow(n.data, int(size-old))[:size]
	}
	if n.linked {
		m.used += size - old
	}
	n.modTime = m.now()
}

func sortedNames(children map[string]*node) []string {
	return slices.Sorted(maps.Keys(children))
}
