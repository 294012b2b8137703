package logstore

import (
	"cmp"
	"errors"

	"github.com/klamm-mq/klamm/internal/invariant"
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/offset"
)

// FlushRound is one group commit of a directory.
//
//	BeginFlush   notes the ends of the logs that want a flush, and holds their files
//	Sync         makes the files durable, then the partition directories, then the
//	             directory itself; the only part that blocks
//	Finish       reports the noted ends as flushed
//
// What is appended after BeginFlush belongs to the next round, even if the sync
// happens to cover it. There is one round at a time. The three steps are apart so that
// a simulation can put a crash, or appends, between them.
type FlushRound struct {
	d     *Dir
	parts []flushPart
	files []vfs.File
	metas []vfs.File // of files, partition.metadata of new logs, to be closed
	news  []*Log     // whose metas are among them
	dirs  []*Log     // whose directories have new files
	paths []string   // of dirs
	root  bool       // new partition directories
	err   error
}

// flushPart is one log's share.
type flushPart struct {
	log   *Log
	noted int64
	segs  []*segment.Flush
}

// FlushedLog is a log whose flushed end moved.
type FlushedLog struct {
	Log     *Log
	Flushed offset.Flushed
}

// wantFlush puts a log on the list of the next round.
func (d *Dir) wantFlush(l *Log) {
	if l.queued.Swap(true) {
		return
	}
	d.mu.Lock()
	d.wanted = append(d.wanted, l)
	d.mu.Unlock()
}

// BeginFlush starts a round over the logs that want one; nil if none does or the
// directory is offline.
func (d *Dir) BeginFlush() *FlushRound {
	d.mu.Lock()
	if d.flushing {
		d.mu.Unlock() // whoever dies of it may close the directory on the way out
		invariant.Check(false, "two flush rounds at once in %s", d.o.Path)
	}
	if len(d.wanted) == 0 || d.Err() != nil {
		d.mu.Unlock()
		return nil
	}
	r := d.spareRound
	if r == nil {
		r = &FlushRound{d: d}
	}
	d.spareRound = nil
	wanted := d.wanted
	d.wanted = d.spareWanted
	d.flushing = true
	r.root, d.rootUnsynced = d.rootUnsynced, false
	d.mu.Unlock()

	for i, l := range wanted {
		l.queued.Store(false)
		r.add(l)
		wanted[i] = nil
	}
	d.mu.Lock()
	d.spareWanted = wanted[:0]
	d.mu.Unlock()
	return r
}

// add takes one log into the round: every segment that may hold bytes between the
// flushed end and the end noted now, rolled ones included, and the one that ends at the
// flushed end: a roll cuts off what was written ahead.
func (r *FlushRound) add(l *Log) {
	l.mu.Lock()
	if l.closed || l.failure != nil {
		l.mu.Unlock()
		return
	}
	m := &l.marks
	m.noted = min(m.end, m.ceiling)
	noted, from, segs := m.noted, m.flushed, l.segs
	part := r.newPart(l, noted)
	if l.dirUnsynced {
		r.dirs, r.paths = append(r.dirs, l), append(r.paths, l.path)
		l.dirUnsynced = false
	}
	newLog := l.metaUnsynced
	l.metaUnsynced = false
	l.mu.Unlock()
	if newLog {
		r.addMetadata(l)
	}

	var err error
	part.segs, err = beginFlushes(part.segs, segs, from)
	r.err = cmp.Or(r.err, err)
	for _, f := range part.segs {
		r.files = append(r.files, f.File())
	}
}

// beginFlushes adds the flushes of the segments that may hold bytes above an offset, and of the
// one that ends there. After an error they are not whole.
func beginFlushes(flushes []*segment.Flush, segs []*segment.Segment, from int64) (_ []*segment.Flush, first error) {
	for i := len(segs) - 1; i >= 0; i-- {
		f, err := segs[i].BeginFlush()
		if err != nil && !errors.Is(err, segment.ErrClosed) {
			first = cmp.Or(first, err) // a closed one was truncated away: nothing of it is noted
		}
		if f != nil {
			flushes = append(flushes, f)
		}
		if segs[i].BaseOffset() < from {
			break
		}
	}
	return flushes, first
}

// addMetadata takes in the file that says which topic a new log belongs to.
func (r *FlushRound) addMetadata(l *Log) {
	r.news = append(r.news, l)
	f, err := l.openOwnMetadata()
	switch {
	case err == nil:
		r.files, r.metas = append(r.files, f), append(r.metas, f)
	case !errors.Is(err, ErrClosed): // deleted meanwhile
		r.err = cmp.Or(r.err, err)
	}
}

// newPart reuses the memory of an earlier round.
func (r *FlushRound) newPart(l *Log, noted int64) *flushPart {
	if n := len(r.parts); n < cap(r.parts) {
		r.parts = r.parts[:n+1]
	} else {
		r.parts = append(r.parts, flushPart{})
	}
	p := &r.parts[len(r.parts)-1]
	p.log, p.noted = l, noted
	return p
}

// Sync makes everything noted durable. It blocks on the disk. Nothing may be called a
// second time after an error: a repeated sync proves nothing.
func (r *FlushRound) Sync() error {
	if r.err != nil {
		return r.err
	}
	if err := r.d.syncer.SyncAll(r.files); err != nil {
		return err
	}
	if err := r.d.syncer.SyncDirs(r.paths); err != nil { // those of deleted logs are gone
		return err
	}
	if r.root {
		return r.d.o.FS.SyncDir(r.d.o.Path)
	}
	return nil
}

// Finish ends the round with the result of Sync. Without an error it returns the logs
// whose flushed end moved. With one nothing moved, and the directory is offline; unless
// descriptors were lacking, then the round is to come again.
func (r *FlushRound) Finish(err error) []FlushedLog {
	d := r.d
	switch {
	case err == nil:
		r.noteNames()
	case isOutOfFiles(err):
		r.putBack()
	default:
		d.fail(err)
	}
	var flushed []FlushedLog
	for i := range r.parts {
		p := &r.parts[i]
		for _, f := range p.segs {
			f.Finish(err)
		}
		if err != nil {
			continue
		}
		if end, moved := p.log.noteFlushed(p.noted); moved {
			flushed = append(flushed, FlushedLog{Log: p.log, Flushed: offset.Flushed(end)})
			d.noteMoved(p.log)
		}
	}
	for _, f := range r.metas {
		_ = f.Close() // synced or lost
	}
	d.metrics.round(len(r.parts), err)
	r.reset()
	d.mu.Lock()
	d.flushing = false
	d.spareRound = r
	d.mu.Unlock()
	return flushed
}

// noteNames: the directories are synced.
func (r *FlushRound) noteNames() {
	for _, l := range r.dirs {
		l.mu.Lock()
		l.nameless = false
		l.mu.Unlock()
	}
}

// putBack makes everything wait for a later round, which the keeper will ask for.
func (r *FlushRound) putBack() {
	r.d.o.Logger.Warn("flush is put off: no descriptor is left", "dir", r.d.o.Path, "logs", len(r.parts))
	for _, l := range r.dirs {
		l.mu.Lock()
		l.dirUnsynced = true
		l.mu.Unlock()
	}
	for _, l := range r.news {
		l.mu.Lock()
		l.metaUnsynced = true
		l.mu.Unlock()
	}
	if r.root {
		r.d.noteRootUnsynced()
	}
	for i := range r.parts {
		r.d.wantFlush(r.parts[i].log)
	}
}

// noteRootUnsynced lets the next round sync the directory itself.
func (d *Dir) noteRootUnsynced() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rootUnsynced = true
}

// hasWantedFlushes tells that a round has something to do.
func (d *Dir) hasWantedFlushes() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.wanted) > 0
}

// noteFlushed raises the flushed end to what the round noted, unless a truncation
// came between: the bytes that are above it now were written after the sync began.
func (l *Log) noteFlushed(noted int64) (end int64, moved bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &l.marks
	noted = min(noted, m.noted)
	if l.closed || noted <= m.flushed {
		return m.flushed, false
	}
	invariant.Check(noted <= m.end, "flushed end %d of %s above its end %d", noted, l.path, m.end)
	m.flushed = noted
	return noted, true
}

// Flush runs one whole round: what the committer does.
func (d *Dir) Flush() []FlushedLog {
	r := d.BeginFlush()
	if r == nil {
		return nil
	}
	return r.Finish(r.Sync())
}

// reset empties the round but keeps its memory.
func (r *FlushRound) reset() {
	for i := range r.parts {
		clear(r.parts[i].segs)
		r.parts[i] = flushPart{segs: r.parts[i].segs[:0]}
	}
	clear(r.files)
	clear(r.metas)
	clear(r.news)
	clear(r.dirs)
	clear(r.paths)
	r.parts, r.files, r.metas = r.parts[:0], r.files[:0], r.metas[:0]
	r.news, r.dirs, r.paths = r.news[:0], r.dirs[:0], r.paths[:0]
	r.root, r.err = false, nil
}
