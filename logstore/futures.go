package logstore

import (
	"errors"
	"math"
	"os"

	"github.com/klamm-mq/klamm/logstore/checkpoint"
)

// Copies in the making, as a start finds them. Each is opened like a log, with marks of its
// own, and goes on to be made by whoever moves the log (see Move). A directory never holds
// the log of a partition beside a copy of it.

// createFuture begins an empty copy. A start that finds one begins no empty log. So where the
// directory has to remember that the log was here before, the copy is made durable, and only
// then is that forgotten: the power may fail in between, and the log's disk be away afterwards.
func (d *Dir) createFuture(from *Log) (*Log, error) {
	id := from.id
	name, err := futureDirName(d.o.Rand, id.Topic, id.Partition)
	if err != nil {
		return nil, err
	}
	if err := d.mayBegin(id, true); err != nil {
		return nil, err
	}
	l := d.newLog(id, d.file(name), from.Config().ofCopy())
	l.future = true
	l.beginEmpty(d.clock())
	if err := l.bear(); err != nil {
		return nil, err
	}
	if err := d.takeOverMemory(l); err != nil {
		err = l.ioError("begin a copy of", err)
		l.abandon()
		return nil, errors.Join(err, d.o.FS.RemoveAll(l.path))
	}
	if !d.register(l) {
		return nil, errors.New("the directory has a copy of it already")
	}
	return l, nil
}

// takeOverMemory ends the memory of a log that was here before: its copy is that from now on.
func (d *Dir) takeOverMemory(l *Log) error {
	d.marks.lock()
	flushed := d.marks.flushed[l.id.key()]
	d.marks.unlock()
	if flushed > 0 {
		f, err := l.openPartitionMetadata(os.O_RDWR)
		if err == nil {
			err = l.syncBirth(f)
		}
		if err != nil {
			return err
		}
	}
	if err := d.forgetStale(l.id); err != nil {
		d.marks.lock()
		d.marks.setFlushed(l.id, flushed)
		d.marks.unlock()
		return err
	}
	d.mu.Lock()
	delete(d.failed, l.id.key())
	d.mu.Unlock()
	return nil
}

// ofCopy is the configuration of a copy. It is flushed by whoever makes it, and loses what
// its original loses, nothing else.
func (c Config) ofCopy() Config {
	c.Durability, c.FlushMessages, c.FlushMs = DurabilityReplicated, math.MaxInt64, math.MaxInt64
	c.Delete, c.Compact = false, false
	c.WriteAheadBytes = 0 // it gets large appends
	return c
}

// passOverFutures takes out the copies beside which the log itself is found: the crash of a
// move cannot leave them.
func (j *openJob) passOverFutures() {
	whole := map[string]bool{}
	for _, dir := range j.dirs {
		if !dir.future {
			whole[dir.name] = true
		}
	}
	dirs := j.dirs[:0]
	for _, dir := range j.dirs {
		if dir.future && whole[partitionDirName(dir.topic, dir.partition)] {
			j.useless(ID{Topic: dir.topic, Partition: dir.partition}, j.d.file(dir.name), errors.New("the log itself is here"))
			continue
		}
		dirs = append(dirs, dir)
	}
	j.dirs = dirs
}

// useless remembers a copy that is to be thrown away: the log that it was made of is still
// there.
func (j *openJob) useless(id ID, path string, why error) {
	j.d.o.Logger.Warn("unfinished copy of a partition is thrown away", "dir", path, "cause", why)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.discarded = append(j.discarded, failedDir{id: id, path: path, err: why})
}

// discard throws away what is useless. A flushed offset stays: that of a log which was here
// before is not to be forgotten (see createFuture), and one of the copy itself is forgotten
// when metadata names the place of the log. The other marks have lost their name.
func (j *openJob) discard() error {
	d := j.d
	if len(j.discarded) == 0 {
		return nil
	}
	for _, f := range j.discarded {
		if _, err := readDir(d.o.FS, f.path); err != nil { // gives its files their names back
			return err
		}
		to, err := d.rename(f.path, f.id.Topic, f.id.Partition, deleteSuffix)
		if err != nil {
			return err
		}
		d.retired = append(d.retired, retiredDir{path: to, dueMs: j.p.Now.UnixMilli()})
	}
	return d.o.FS.SyncDir(d.o.Path)
}

// bears tells whether a log or a copy of that partition is in use here, by its name.
func (d *Dir) bears(id ID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, shelf := range []map[checkpoint.TopicIDPartition]*Log{d.logs, d.futures} {
		for _, l := range shelf { // not sorted: it is asked for each of thousands of moves
			if l.id.name() == id.name() {
				return true
			}
		}
	}
	return false
}
