package logstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klamm-mq/klamm/logstore/checkpoint"
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/uuid"
	"golang.org/x/sync/errgroup"
)

// OpenLogsParams say how logs are opened at start.
type OpenLogsParams struct {
	Now     time.Time
	Threads int             // num.recovery.threads.per.data.dir, at least 1
	Config  func(ID) Config // of a partition; nil = DefaultConfig
	// Progress is called after each log, one call at a time; nil = nobody asks.
	Progress func(done, total int)
}

// FailedLog is a partition directory that cannot be used.
type FailedLog struct {
	ID  ID    // Topic is "" or TopicID zero where it is not known
	Err error // a *CorruptionError where it is one
}

// OpenReport tells what start found.
type OpenReport struct {
	Opened []*Log
	// Futures are copies that an earlier run has begun to make (see Move).
	Futures  []*Log
	Failed   []FailedLog
	SetAside []string // names of directories that were renamed to -stray
}

// OpenLogs opens all logs of the directory, once, before anything else is done with it.
// After a clean stop it reads no batches; otherwise it recovers each log from its
// recovery point and makes durable what it keeps, so that all of it counts as flushed.
// Logs that are damaged are in the report; an error means that the directory itself
// cannot be used.
func (d *Dir) OpenLogs(ctx context.Context, p OpenLogsParams) (OpenReport, error) {
	d.noteTime(p.Now)
	if p.Config == nil {
		p.Config = func(ID) Config { return DefaultConfig() }
	}
	report, err := d.openLogs(ctx, p)
	if err != nil {
		d.noteFailedStart(err)
		return report, fmt.Errorf("open logs in %s: %w", d.o.Path, err)
	}
	return report, nil
}

func (d *Dir) openLogs(ctx context.Context, p OpenLogsParams) (OpenReport, error) {
	if err := d.beginDistrust(); err != nil {
		return OpenReport{}, err
	}
	entries, err := readDir(d.o.FS, d.o.Path)
	if err != nil {
		return OpenReport{}, err
	}
	// From here on things change, so a crash is no clean stop any more.
	if d.cleanStop || d.distrust {
		if err := checkpoint.RemoveCleanShutdown(d.o.FS, d.o.Path, d.file(checkpoint.CleanShutdownFile)); err != nil {
			return OpenReport{}, err
		}
	}
	j := &openJob{d: d, p: p}
	for _, e := range entries {
		if e.IsDir() {
			j.add(e.Name())
		}
	}
	j.passOverFutures()
	if len(j.left) > 0 {
		d.o.Logger.Warn("directories that were set aside are left alone", "dir", d.o.Path, "count", len(j.left), "first", j.left[0])
	}
	if err := j.run(ctx); err != nil {
		return j.report, err
	}
	if err := j.setAside(); err != nil {
		return j.report, err
	}
	j.settle()
	if err := d.marks.write(cleanedMarks); err != nil && !isNoSpace(err) {
		return j.report, err
	}
	if err := j.discard(); err != nil {
		return j.report, err
	}
	if err := j.findMissing(); err != nil {
		return j.report, err
	}
	j.report.sort()
	if err := d.endDistrust(); err != nil {
		return j.report, err
	}
	d.opened = true
	return j.report, nil
}

// openJob opens the partition directories of one log directory, several at a time.
type openJob struct {
	d    *Dir
	p    OpenLogsParams
	dirs []partitionName

	mu        sync.Mutex
	done      int
	opened    []*opening
	stray     []strayDirectory
	discarded []failedDir // copies in the making that are of no use
	left      []string    // paths of directories that are nobody's any more
	report    OpenReport
}

type partitionName struct {
	name      string // of the directory
	topic     string
	partition int32
	future    bool
}

// strayDirectory is a partition's directory that does not say which topic's.
type strayDirectory struct {
	partitionName
	why error
}

// add sorts a directory by its name.
func (j *openJob) add(name string) {
	d := j.d
	switch kind, topic, partition := parseDirName(name); kind {
	case partitionDir:
		j.dirs = append(j.dirs, partitionName{name: name, topic: topic, partition: partition})
	case futureDir:
		j.dirs = append(j.dirs, partitionName{name: name, topic: topic, partition: partition, future: true})
	case deletedDir:
		d.retired = append(d.retired, retiredDir{
			path: d.file(name), dueMs: j.p.Now.UnixMilli() + DefaultConfig().FileDeleteDelayMs,
		})
	case strayDir:
		j.left = append(j.left, d.file(name))
	default:
		d.o.Logger.Debug("directory holds no partition", "dir", d.file(name))
	}
}

// maxOpenTogether is how many logs are opened between two syncs of what recovery has kept:
// until then, each holds descriptors.
const maxOpenTogether = 256

// run opens all logs, some at a time. Those for which no descriptor was left wait until the
// ones before have been synced and have given theirs up.
func (j *openJob) run(ctx context.Context) error {
	for rest := j.dirs; len(rest) > 0; {
		n, before := min(len(rest), maxOpenTogether), len(j.opened)
		again, err := j.openSome(ctx, rest[:n])
		if err != nil && (len(again) == 0 || len(again) == n) { // the disk's, or not one has fared better
			return err
		}
		if err := cmp.Or(ctx.Err(), j.d.syncRecovered(j.opened[before:])); err != nil {
			return err
		}
		rest = append(again, rest[n:]...)
	}
	return nil
}

// openSome returns the directories that are to be tried again, with the last error of one of
// them; any other error comes without.
func (j *openJob) openSome(ctx context.Context, dirs []partitionName) (again []partitionName, busy error) {
	var g errgroup.Group
	g.SetLimit(max(1, j.p.Threads))
	for _, dir := range dirs {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error {
			err := j.open(dir)
			j.mu.Lock()
			defer j.mu.Unlock()
			if isBusy(err) {
				again, busy = append(again, dir), err
				return nil
			}
			j.done++
			if j.p.Progress != nil {
				j.p.Progress(j.done, len(j.dirs))
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return again, busy
}

// open opens one partition directory. Damage goes into the report; an error is the
// disk's.
func (j *openJob) open(dir partitionName) error {
	d, path := j.d, j.d.file(dir.name)
	topicID, err := d.readTopicID(path)
	if err != nil && dir.future && !isBusy(err) {
		j.useless(ID{Topic: dir.topic, Partition: dir.partition}, path, err)
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) || isFormatError(err) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.stray = append(j.stray, strayDirectory{dir, err})
		return nil
	}
	if err != nil && !isBusy(err) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.report.Failed = append(j.report.Failed, FailedLog{
			ID: ID{Topic: dir.topic, Partition: dir.partition}, Err: unreadable(path, err),
		})
		d.o.Logger.Error("partition cannot be opened", "log", path, "err", err)
		return nil
	}
	if err != nil {
		return err
	}
	id := ID{Topic: dir.topic, TopicID: topicID, Partition: dir.partition}
	o, err := d.openLog(j.p.Now, id, path, j.p.Config(id), dir.future)
	if err != nil && dir.future && !isBusy(err) {
		j.useless(id, path, err)
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err == nil {
		j.opened = append(j.opened, o)
		return nil
	}
	var corrupt *CorruptionError
	var bad *segment.CorruptionError
	switch {
	case errors.As(err, &corrupt):
	case errors.As(err, &bad):
		err = damaged(bad)
	case isNoSpace(err): // something was to be created for it; the others can be read
		d.noteNoSpace(err)
		err = fmt.Errorf("open %s: %w: %w", path, ErrDirFull, err)
	default:
		return err
	}
	j.fail(failedDir{id: id, path: path}, err)
	return nil
}

// readTopicID reads partition.metadata, which a crash may have left under its other name.
func (d *Dir) readTopicID(path string) (uuid.UUID, error) {
	file := filepath.Join(path, checkpoint.PartitionMetadataFile)
	id, err := checkpoint.ReadPartitionMetadata(d.o.FS, file)
	if !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	if _, err := readDir(d.o.FS, path); err != nil {
		return uuid.Zero, err
	}
	return checkpoint.ReadPartitionMetadata(d.o.FS, file)
}

func isFormatError(err error) bool {
	var f *checkpoint.FormatError
	return errors.As(err, &f)
}

func (j *openJob) fail(f failedDir, err error) {
	j.d.o.Logger.Error("partition cannot be opened", "log", f.path, "topicId", f.id.TopicID, "partition", f.id.Partition, "err", err)
	f.err = err
	j.d.failed[f.id.key()] = f
	j.report.Failed = append(j.report.Failed, FailedLog{ID: f.id, Err: err})
}

// setAside renames directories of which nobody knows whose they are. One without records
// is a creation that a crash has torn: it goes. Any other is damaged, and its flushed
// offset lacks a directory from now on. But what only has a name like a partition's, such
// as photos-2024, is somebody else's and is left alone.
func (j *openJob) setAside() error {
	for _, s := range j.stray {
		path := j.d.file(s.name)
		ours, empty, err := j.d.lookInto(path)
		if err != nil {
			return err
		}
		if !ours {
			j.d.o.Logger.Warn("directory has a partition's name but other files, and is left alone", "dir", path)
			continue
		}
		if _, err := readDir(j.d.o.FS, path); err != nil { // gives its files their names back
			return err
		}
		if empty {
			if err := j.d.removeUnfinished(j.p.Now, s.partitionName); err != nil {
				return err
			}
			continue
		}
		j.d.o.Logger.Warn("partition directory does not say whose it is", "dir", path, "err", s.why)
		to, err := j.d.rename(path, s.topic, s.partition, straySuffix)
		if err != nil {
			return err
		}
		j.report.SetAside = append(j.report.SetAside, filepath.Base(to))
	}
	if len(j.stray) == 0 {
		return nil
	}
	return j.d.o.FS.SyncDir(j.d.o.Path)
}

// lookInto reports whether a directory holds what partitions have and nothing else, or at
// least a segment; and whether no segment has a byte.
func (d *Dir) lookInto(path string) (ours, empty bool, err error) {
	entries, err := d.o.FS.ReadDir(path)
	if err != nil {
		return false, false, err
	}
	segments, others := 0, 0
	empty = true
	for _, e := range entries {
		if e.IsDir() || !isPartitionFile(e.Name()) {
			others++
			continue
		}
		if filepath.Ext(strings.TrimSuffix(e.Name(), againSuffix)) != segment.LogSuffix {
			continue
		}
		info, err := d.o.FS.Stat(filepath.Join(path, e.Name()))
		if err != nil {
			return false, false, err
		}
		segments++
		empty = empty && info.Size() == 0
	}
	return others == 0 || segments > 0, empty && others == 0, nil
}

// isPartitionFile knows the files of a partition by name: those of an offset, whatever
// their suffixes, and the two others, also while they are being written.
func isPartitionFile(name string) bool {
	const digits = 20
	if head, _, ok := strings.Cut(name, "."); ok && len(head) == digits && strings.Trim(head, "0123456789") == "" {
		return true
	}
	return strings.HasPrefix(name, checkpoint.PartitionMetadataFile) || strings.HasPrefix(name, checkpoint.LeaderEpochFile)
}

func (d *Dir) removeUnfinished(now time.Time, name partitionName) error {
	to, err := d.rename(d.file(name.name), name.topic, name.partition, deleteSuffix)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.retired = append(d.retired, retiredDir{path: to, dueMs: now.UnixMilli()})
	return nil
}

// findMissing reports the partitions that were flushed once and have no directory now
// (decision D19).
func (j *openJob) findMissing() error {
	have := map[checkpoint.TopicIDPartition]bool{}
	names := map[checkpoint.TopicPartition]bool{}
	for _, o := range j.opened {
		have[o.l.id.key()] = true
		names[o.l.id.name()] = true
	}
	for key, f := range j.d.failed {
		have[key] = true
		names[f.id.name()] = true
	}
	for key, flushed := range j.d.marks.flushed {
		if flushed > 0 && !have[key] {
			j.miss(ID{TopicID: key.TopicID, Partition: key.Partition}, flushed)
		}
	}
	return j.d.forgetAbsent(names, have)
}

// miss reports one of them. It may have been lost, moved to another directory, or deleted by a
// process that was killed meanwhile: metadata tells, so that whoever knows it is to alarm.
func (j *openJob) miss(id ID, flushed int64) {
	err := &CorruptionError{
		File: j.d.o.Path, Pos: -1, Offset: -1,
		Err: fmt.Errorf("the directory of partition %d of topic %s is missing; it was flushed up to offset %d", id.Partition, id.TopicID, flushed),
	}
	j.d.o.Logger.Info("directory of a partition is missing", "dir", j.d.o.Path, "topicId", id.TopicID, "partition", id.Partition, "flushed", flushed)
	j.report.Failed = append(j.report.Failed, FailedLog{ID: id, Err: err})
	j.d.failed[id.key()] = failedDir{id: id, err: err}
}

func (r *OpenReport) sort() {
	slices.SortFunc(r.Opened, compareLogs)
	slices.SortFunc(r.Failed, func(a, b FailedLog) int {
		return slices.Compare([]byte(a.ID.String()+a.ID.TopicID.String()), []byte(b.ID.String()+b.ID.TopicID.String()))
	})
	slices.Sort(r.SetAside)
}

// settle makes the logs usable.
func (j *openJob) settle() {
	d := j.d
	for _, o := range j.opened {
		if name := o.l.id.name(); o.segs[0].BaseOffset() > d.marks.start[name] {
			d.marks.setStart(o.l.id, o.l.marks.start) // of Kafka's, which does not write it
		}
		if d.marks.cleaned[o.l.id.name()] > o.l.marks.end { // it would be believed when the log has grown
			d.marks.setCleaned(o.l.id, 0)
		}
		switch registered := d.register(o.l); {
		case registered && o.l.future:
			j.report.Futures = append(j.report.Futures, o.l)
			if !o.l.settled() {
				d.noteMoved(o.l)
			}
			continue
		case o.l.future:
			o.abandon()
			j.useless(o.l.id, o.l.path, errors.New("there is another one"))
			continue
		case !registered:
			o.abandon()
			j.fail(failedDir{id: o.l.id, path: o.l.path}, &CorruptionError{
				File: o.l.path, Pos: -1, Offset: -1,
				Err: errors.New("another directory says that it holds the same partition of the same topic id"),
			})
			continue
		}
		j.report.Opened = append(j.report.Opened, o.l)
		o.l.noteUncleaned()
		if !o.l.settled() {
			d.noteMoved(o.l)
		}
	}
}

// register makes a log known and usable; false if there is one for its partition.
func (d *Dir) register(l *Log) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	shelf := d.shelf(l)
	if shelf[l.id.key()] != nil {
		return false
	}
	shelf[l.id.key()] = l
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = false
	return true
}

// syncRecovered makes durable what recovery has kept or cut, and only then lets the logs
// count it as flushed: what a killed process wrote may be in the page cache alone. It syncs
// the files that were scanned, then directories. Files that end at the persisted offset are
// among them, since what an earlier process cut off them may be on the disk still; a sync
// of a clean file costs next to nothing.
func (d *Dir) syncRecovered(opened []*opening) error {
	var files, metas []vfs.File
	var flushes []*segment.Flush
	finish := func(err error) error {
		for _, f := range flushes {
			f.Finish(err)
		}
		for _, f := range metas {
			_ = f.Close() // synced or lost
		}
		return err
	}
	for _, o := range opened {
		if o.metaInDoubt {
			f, err := o.l.openPartitionMetadata(os.O_RDWR)
			if err != nil {
				return finish(err)
			}
			metas, files = append(metas, f), append(files, f)
		}
		for _, s := range o.segs {
			f, err := s.BeginFlush()
			if err != nil {
				return finish(err)
			}
			if f == nil {
				continue
			}
			flushes, files = append(flushes, f), append(files, f.File())
		}
	}
	if err := finish(d.keeperSyncer.SyncAll(files)); err != nil {
		return err
	}
	if err := d.syncRecoveredDirs(opened); err != nil {
		return err
	}
	for _, o := range opened {
		o.l.marks.flushed, o.l.marks.noted = o.l.marks.end, o.l.marks.end
	}
	return nil
}

// syncRecoveredDirs syncs the directories of logs whose files may be younger than the
// last round, and leaves those that hold nothing yet to the next round.
func (d *Dir) syncRecoveredDirs(opened []*opening) error {
	var paths []string
	for _, o := range opened {
		switch {
		case !o.dirInDoubt:
		case o.beyond:
			paths = append(paths, o.l.path)
		default:
			o.l.dirUnsynced, d.rootUnsynced = true, true
			o.l.nameless = len(o.segs) == 1
		}
	}
	if len(paths) == 0 {
		return nil
	}
	if err := d.keeperSyncer.SyncDirs(paths); err != nil {
		return err
	}
	return d.o.FS.SyncDir(d.o.Path)
}
