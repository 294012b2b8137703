package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/klamm-mq/klamm/logstore/checkpoint"
	"github.com/klamm-mq/klamm/logstore/epoch"
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
)

// A log that is created is unborn: it is in memory alone. It can be used like any other, and
// gets its directory and files with its first change, from the keeper soon after, or from an
// orderly stop:
//
//	unborn   [0, 0), no producers, no marks in the checkpoints, no directory
//	born     directory, partition.metadata, empty segment; in the page cache
//	         the round that covers its first byte makes the names durable
//
// So thousands of topics are created in the time that it takes to decide on them. Nothing is
// promised of an unborn log that a crash could take: a start makes a new one for a
// partition that has no directory and no flushed offset, as it does after a crash that came
// just after creation. Leader epochs that it knows all begin at 0, where the next one begins,
// too. One that is deleted while it is unborn leaves no trace.

const (
	// birthDelay is how long a log stays unborn that nobody uses: whoever creates many is not
	// disturbed meanwhile.
	birthDelay = 500 * time.Millisecond
	// birthQuiet has passed since the last log was created when any is born, but no log that
	// is due waits for that longer than birthPatience.
	birthQuiet    = 200 * time.Millisecond
	birthPatience = 5 * time.Second
	// maxBirths bounds the births of one tick, so that checkpoints do not wait for long;
	// birthPause follows if there are more.
	maxBirths  = 64
	birthPause = 5 * time.Millisecond
	// birthRetry is the pause after a birth for which there was no room, or no descriptor.
	birthRetry = time.Second
)

// unbornLog waits in Dir.unborn for its birth, or has been born by its first change.
type unbornLog struct {
	log *Log
	at  time.Time // when it is due
}

// due is when the log is born if none should be before quiet.
func (u unbornLog) due(quiet time.Time) time.Time {
	switch last := u.at.Add(birthPatience); {
	case quiet.Before(u.at):
		return u.at
	case quiet.Before(last):
		return quiet
	default:
		return last
	}
}

// CreateLog makes an empty log of a partition that this broker has never had. It touches
// no file, unless an earlier log of that name has left marks. It refuses a partition that
// could not be opened, or whose directory is missing although it held flushed records
// (decision D19), with that error; any other existing directory of that name is an error
// that wraps fs.ErrExist.
func (d *Dir) CreateLog(now time.Time, id ID, c Config) (*Log, error) {
	d.noteTime(now)
	if err := d.mayCreate(id); err != nil {
		return nil, fmt.Errorf("create log %s: %w", id, err)
	}
	l := d.newLog(id, d.file(partitionDirName(id.Topic, id.Partition)), c)
	if err := d.forgetStale(id); err != nil {
		return nil, l.ioError("create log", err)
	}
	l.beginEmpty(now)
	if !d.register(l) {
		return nil, fmt.Errorf("create log %s: %w", id, fs.ErrExist)
	}
	d.mu.Lock()
	d.unborn = append(d.unborn, unbornLog{l, now.Add(birthDelay)})
	d.noBirths = now.Add(birthQuiet)
	d.mu.Unlock()
	return l, nil
}

// beginEmpty makes an unborn log of one that nobody knows yet.
func (l *Log) beginEmpty(now time.Time) {
	l.segs = []*segment.Segment{segment.New(l.path, 0, now, l.segOptions)}
	l.epochs = epoch.New(l.dir.o.FS, l.path)
	l.loaded, l.tailKnown, l.unborn = true, true, true
	l.noteProducers()
}

func (d *Dir) mayCreate(id ID) error { return d.mayBegin(id, false) }

// mayBegin tells whether there may be an empty log of a partition here; again: also of one that
// was here before, and is missing.
func (d *Dir) mayBegin(id ID, again bool) error {
	if err := d.Err(); err != nil {
		return err
	}
	d.mu.Lock()
	f, failed := d.failed[id.key()]
	d.mu.Unlock()
	if failed && (!again || f.path != "") {
		return f.err
	}
	return d.isFree(d.file(partitionDirName(id.Topic, id.Partition)))
}

// isFree is fs.ErrExist if there is something of that name.
func (d *Dir) isFree(path string) error {
	_, err := d.o.FS.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil:
		return fs.ErrExist
	}
	return err
}

func (l *Log) isUnborn() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.unborn
}

// bear gives an unborn log its files. Callers hold writer and have seen that the log is
// usable. After an error it is unborn as before, or has failed: somebody else has put a
// directory of its name there.
func (l *Log) bear() error {
	if !l.unborn {
		return nil
	}
	err := l.createFiles()
	if errors.Is(err, fs.ErrExist) {
		failure := &CorruptionError{File: l.path, Pos: -1, Offset: -1, Err: err}
		l.fail(failure)
		return fmt.Errorf("create files of %s: %w", l.id, failure)
	}
	if err != nil {
		return l.ioError("create files of", err)
	}
	l.mu.Lock()
	l.unborn = false
	l.dirUnsynced, l.metaUnsynced, l.nameless = true, true, true
	l.mu.Unlock()
	l.dir.noteRootUnsynced()
	return nil
}

// createFiles writes partition.metadata before the segment, so that no record is ever
// without its topic. The directories' entries are made durable by the first round.
func (l *Log) createFiles() (err error) {
	fsys := l.dir.o.FS
	if l.torn {
		if err := fsys.RemoveAll(l.path); err != nil {
			return err
		}
		l.torn = false
	}
	if err := l.dir.isFree(l.path); err != nil {
		return err
	}
	if err := fsys.MkdirAll(l.path, 0o755); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			l.torn = fsys.RemoveAll(l.path) != nil // else the next attempt, or the next start
		}
	}()
	if err := l.writePartitionMetadata(); err != nil {
		return err
	}
	return l.active().MakeFiles()
}

// writePartitionMetadata leaves the sync to the first round. A file that a power cut
// tears before that belongs to a log of which nothing was promised.
func (l *Log) writePartitionMetadata() error {
	f, err := l.openPartitionMetadata(os.O_CREATE | os.O_TRUNC | os.O_RDWR)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(checkpoint.EncodePartitionMetadata(l.id.TopicID), 0)
	return errors.Join(err, f.Close())
}

func (l *Log) openPartitionMetadata(flag int) (vfs.File, error) {
	return l.dir.o.FS.OpenFile(l.file(checkpoint.PartitionMetadataFile), flag, 0o644)
}

// openOwnMetadata opens partition.metadata of a log in use, for a sync.
func (l *Log) openOwnMetadata() (f vfs.File, err error) {
	err = l.withNames(func() error {
		f, err = l.openPartitionMetadata(os.O_RDWR)
		return err
	})
	return f, err
}

// bearNow is bear for one who does not change the log otherwise.
func (l *Log) bearNow() error {
	l.writer.Lock()
	defer l.writer.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	return l.bear()
}

// bearDue gives files to the logs whose time has come, a bounded number of them, and tells
// when to call it again; a zero time if no log waits. On a full disk they go on waiting.
func (d *Dir) bearDue(now time.Time) (next time.Time) {
	for range maxBirths {
		l, due := d.nextUnborn(now)
		if l == nil {
			return due
		}
		switch err := l.bearNow(); {
		case err == nil || errors.Is(err, ErrClosed) || errors.Is(err, ErrDirOffline):
		case MayPass(err):
			d.putBackUnborn(unbornLog{l, now.Add(birthRetry)})
			d.o.Logger.Warn("log has no files yet", "log", l.path, "err", err)
			return now.Add(birthRetry)
		default:
			d.o.Logger.Warn("log has no files", "log", l.path, "err", err)
		}
	}
	return now.Add(birthPause)
}

// bearAll gives every log its files, so that what an orderly stop leaves is whole. Where there
// is no room for them, the next start makes them.
func (d *Dir) bearAll() {
	if d.Full() {
		return
	}
	d.mu.Lock()
	waiting := d.unborn
	d.unborn = nil
	d.mu.Unlock()
	for _, u := range waiting {
		if err := u.log.bearNow(); err != nil && !errors.Is(err, ErrClosed) {
			d.o.Logger.Warn("log has no files", "log", u.log.path, "err", err)
			if MayPass(err) {
				return
			}
		}
	}
}

// nextUnborn takes the first log off the queue that is due, or says when one is.
func (d *Dir) nextUnborn(now time.Time) (*Log, time.Time) {
	full := d.Full()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case len(d.unborn) == 0:
		d.unborn = nil
		return nil, time.Time{}
	case full:
		return nil, now.Add(birthRetry)
	}
	if due := d.unborn[0].due(d.noBirths); now.Before(due) {
		return nil, due
	}
	l := d.unborn[0].log
	d.unborn[0] = unbornLog{}
	d.unborn = d.unborn[1:]
	return l, time.Time{}
}

func (d *Dir) putBackUnborn(u unbornLog) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unborn = append(d.unborn, u)
}
