package vfs

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"time"
)

// ErrCrashed answers every use of a handle whose process was killed.
var ErrCrashed = errors.New("the process that opened this was killed")

// CrashFS is a file system in memory on which processes are killed and the power
// fails. The package comment says what survives. The methods of FS act for whichever
// process lives at the moment of the call; a program that may outlive its own death
// (goroutines that nobody stops) is given Process instead.
type CrashFS struct{ m *memory }

// NewCrash returns an empty file system; src decides what survives a power cut.
func NewCrash(src rand.Source) *CrashFS {
	m := newMemory()
	m.crash = &crash{m: m, rand: rand.New(src), pageSize: 4096, unsynced: map[*node]struct{}{}}
	m.root = m.newNode(m.root.mode)
	return &CrashFS{m: m}
}

// crash is what a CrashFS has beyond a MemFS. Guarded by memory.mu.
type crash struct {
	m        *memory
	rand     *rand.Rand
	pageSize int64
	nodes    uint64             // number of nodes so far
	ops      []*nameOp          // changes of names that no sync has made durable, oldest first
	unsynced map[*node]struct{} // files with changes that no sync has made durable
	onSync   func(SyncPoint) error
	points   int // number of sync points so far
}

// Process is the file system for one process: with the next Kill or power cut every
// call through it, and through its handles, answers ErrCrashed.
func (c *CrashFS) Process() FS { return c.process() }

func (c *CrashFS) process() view {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	return view{m: c.m, life: c.m.life}
}

func (c *CrashFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	return c.process().OpenFile(name, flag, perm)
}

func (c *CrashFS) MkdirAll(dir string, perm fs.FileMode) error {
	return c.process().MkdirAll(dir, perm)
}

func (c *CrashFS) Remove(name string) error                  { return c.process().Remove(name) }
func (c *CrashFS) RemoveAll(name string) error               { return c.process().RemoveAll(name) }
func (c *CrashFS) Rename(from, to string) error              { return c.process().Rename(from, to) }
func (c *CrashFS) Stat(name string) (fs.FileInfo, error)     { return c.process().Stat(name) }
func (c *CrashFS) ReadDir(dir string) ([]fs.DirEntry, error) { return c.process().ReadDir(dir) }
func (c *CrashFS) SetModTime(name string, t time.Time) error {
	return c.process().SetModTime(name, t)
}
func (c *CrashFS) SyncDir(dir string) error              { return c.process().SyncDir(dir) }
func (c *CrashFS) OpenSyncer(dir string) (Syncer, error) { return c.process().OpenSyncer(dir) }
func (c *CrashFS) Lock(name string) (io.Closer, error)   { return c.process().Lock(name) }
func (c *CrashFS) Space(dir string) (Space, error)       { return c.process().Space(dir) }

// SetCapacity limits the bytes of all files together; writes beyond it store what fits
// and fail with ENOSPC. 0 is no limit.
func (c *CrashFS) SetCapacity(bytes int64) { c.m.setCapacity(bytes) }

// SetClock replaces time.Now for the time stamps of files.
func (c *CrashFS) SetClock(now func() time.Time) { c.m.setClock(now) }

// SetPageSize replaces 4096 as the unit in which bytes reach the disk, so that a test
// can see torn writes of a few bytes. Call it before the first write.
func (c *CrashFS) SetPageSize(bytes int) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.m.crash.pageSize = int64(bytes)
}

// SyncPoint is one request to make something durable.
type SyncPoint struct {
	N    int    // 1 for the first of this file system
	Op   string // "sync", "syncdir" or "syncall"
	Name string // of the file or directory
	Done bool   // false before it, true after
}

// OnSync has fn called before and after each sync, on the syncing goroutine and
// without a lock: it may sleep (the sync then takes that long, and what is written
// meanwhile is not part of it), kill the process or cut the power. An error returned
// before the sync makes it fail as a real disk does: the dirty pages are dropped and
// marked clean, so that they read well until the power fails and a repeated sync
// succeeds without writing them. An error returned after the sync is answered although
// the bytes are safe.
func (c *CrashFS) OnSync(fn func(SyncPoint) error) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.m.crash.onSync = fn
}

// SyncPoints is the number of sync points so far.
func (c *CrashFS) SyncPoints() int {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	return c.m.crash.points
}

// Kill ends the process: everything written stays, synced or not, but its handles and
// locks are gone. A later power cut may still take what is unsynced.
func (c *CrashFS) Kill() {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.m.endLife()
}

// Writeback makes a random part of what is unsynced durable, as the kernel may do at
// any moment.
func (c *CrashFS) Writeback() {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.m.crash.writeback()
}

// PowerCut ends the process and loses a random part of what is unsynced: nothing, all
// or something between.
func (c *CrashFS) PowerCut() {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.m.crash.writeback()
	c.m.crash.cut()
}

// PowerCutLosingAll ends the process and loses everything that is unsynced.
func (c *CrashFS) PowerCutLosingAll() {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.m.crash.cut()
}

// endLife kills all handles. Locks die with them.
func (m *memory) endLife() {
	m.life++
	clear(m.locks)
}

// cut makes the live tree what the disk holds.
func (c *crash) cut() {
	c.m.endLife()
	c.ops = nil
	clear(c.unsynced)
	c.m.used = 0
	c.m.root = c.restore(c.m.root)
	c.m.root.linked = true
}

// restore builds the node that is found on disk in place of n, and all below it.
func (c *crash) restore(n *node) *node {
	r := &node{mode: n.mode, modTime: n.modTime, linked: true}
	if !n.isDir() {
		r.disk, r.data = c.recover(n.disk)
		c.m.used += int64(len(r.data))
		return r
	}
	r.children = map[string]*node{}
	r.disk = c.newDisk()
	for _, name := range sortedNames(n.disk.names) {
		child := c.restore(n.disk.names[name])
		r.children[name] = child
		r.disk.names[name] = child
	}
	return r
}
