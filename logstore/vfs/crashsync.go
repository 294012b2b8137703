package vfs

import "os"

// A sync takes place in three steps, so that the hook runs without the lock: begin
// notes what is to become durable, the disk works (the hook), end makes it durable.
// Between them the process may be killed, and others write.

// syncFile is File.Sync.
func (c *crash) syncFile(f *memFile) error {
	return c.sync(f.view, "sync", f.name, []*memFile{f})
}

// syncAll is Syncer.SyncAll. Files of other file systems are synced by themselves.
func (c *crash) syncAll(v view, dir string, files []File) error {
	var own []*memFile
	for _, file := range files {
		if f, ok := file.(*memFile); ok && f.view.m == c.m {
			own = append(own, f)
		} else if err := file.Sync(); err != nil {
			return err
		}
	}
	return c.sync(v, "syncall", dir, own)
}

func (c *crash) sync(v view, op, name string, files []*memFile) error {
	last := make([]*fileChange, len(files))
	begin := func() error {
		for i, f := range files {
			if f.closed {
				return os.ErrClosed
			}
			c.freeze(f.node)
			if n := len(f.node.disk.changes); n > 0 {
				last[i] = f.node.disk.changes[n-1]
			}
		}
		return nil
	}
	end := func(failed bool) {
		for i, f := range files {
			switch {
			case last[i] == nil:
			case failed:
				last[i].pages = nil
			default:
				c.settle(f.node, last[i])
			}
		}
	}
	return c.point(v, op, name, begin, end)
}

// syncDir is FS.SyncDir. With a rename between directories comes whatever happened
// before it in the other one.
func (c *crash) syncDir(v view, name string, dir *node) error {
	var taken []*nameOp
	begin := func() error {
		taken = c.opsOf(dir)
		return nil
	}
	end := func(failed bool) {
		for _, op := range taken {
			if !op.settled && !failed {
				op.apply()
			}
			op.settled = true
		}
		c.forgetSettled()
	}
	return c.point(v, "syncdir", name, begin, end)
}

// opsOf lists, oldest first, the open operations on dir and those they build on.
func (c *crash) opsOf(dir *node) []*nameOp {
	dirs := map[*node]bool{dir: true}
	taken := make([]bool, len(c.ops))
	for i := len(c.ops) - 1; i >= 0; i-- {
		for _, ch := range c.ops[i].changes {
			taken[i] = taken[i] || dirs[ch.dir]
		}
		for _, ch := range c.ops[i].changes {
			dirs[ch.dir] = dirs[ch.dir] || taken[i]
		}
	}
	var ops []*nameOp
	for i, op := range c.ops {
		if taken[i] {
			ops = append(ops, op)
		}
	}
	return ops
}

func (c *crash) forgetSettled() {
	open := c.ops[:0]
	for _, op := range c.ops {
		if !op.settled {
			open = append(open, op)
		}
	}
	clear(c.ops[len(open):])
	c.ops = open
}

// point runs one sync point of the process v.
func (c *crash) point(v view, op, name string, begin func() error, end func(failed bool)) error {
	if err := v.enter(); err != nil {
		return err
	}
	if err := begin(); err != nil {
		c.m.mu.Unlock()
		return err
	}
	c.points++
	point, hook := SyncPoint{N: c.points, Op: op, Name: name}, c.onSync
	c.m.mu.Unlock()

	failure := callHook(hook, point)
	if err := v.enter(); err != nil {
		return err
	}
	end(failure != nil)
	c.m.mu.Unlock()
	if failure != nil {
		return failure
	}

	point.Done = true
	if err := callHook(hook, point); err != nil {
		return err
	}
	return v.stillAlive()
}

func callHook(hook func(SyncPoint) error, point SyncPoint) error {
	if hook == nil {
		return nil
	}
	return hook(point)
}

func (v view) stillAlive() error {
	if err := v.enter(); err != nil {
		return err
	}
	v.m.mu.Unlock()
	return nil
}
