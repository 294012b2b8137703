package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/klamm-mq/klamm/logstore/checkpoint"
	"github.com/klamm-mq/klamm/logstore/epoch"
	"github.com/klamm-mq/klamm/logstore/producerstate"
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// How a log is opened.
//
// After a clean stop every log ends at its recovery point, so nothing is read. After
// anything else, the batches from the recovery point on are read and checked. The first
// one that is bad ends the log, and what decides whether that is lawful is the offset
// up to which the directory's checkpoints vouch for the files, persisted:
//
//	              recovery point      persisted
//	  |-----------------|-----------------|- - - - -
//	    not looked at         damage          torn tail
//
// A torn tail is what a power cut leaves of writes that nobody was promised: it is cut
// off, even if good batches follow. Damage is not touched; the log fails with file and
// position (decision D24).
//
// Besides checksums, what counts as bad is: an offset or a leader epoch that falls
// back, which shows bytes from before a truncation under newer ones, and a segment that
// does not begin where the one before ends, whose missing neighbour was lost with its
// directory entry. That goes for the segments that are not looked at as well (segments.go).

// opening is one partition directory on its way to a Log.
type opening struct {
	d    *Dir
	l    *Log
	now  time.Time
	from int64 // the recovery point
	// persisted is what the checkpoints vouch for. unknown says why they cannot be
	// trusted to be complete: then every bad byte is damage.
	persisted int64
	unknown   error
	clean     bool
	known     []checkpoint.Segment // of an earlier run

	segs        []*segment.Segment
	snapshots   []int64
	txnIndexes  []int64            // segments that have one
	mended      []*segment.Segment // whose transaction index was built again
	hasTxns     bool               // transactional or control batches were scanned
	lastEpoch   int32
	dirInDoubt  bool // its newest files may be younger than its last sync
	epochsLost  bool // their checkpoint is of no use: all batches are scanned
	metaInDoubt bool // no round of an earlier process has synced partition.metadata
	beyond      bool // something above persisted was kept, or something was cut off
}

// openLog opens a partition's log. A *CorruptionError leaves its files as they are.
func (d *Dir) openLog(now time.Time, id ID, path string, c Config, future bool) (*opening, error) {
	o := &opening{d: d, now: now, clean: d.cleanStop, unknown: d.marks.flushedUnknown}
	if future {
		c = c.ofCopy()
	}
	o.l = d.newLog(id, path, c)
	o.l.future = future
	return o, o.open()
}

// open finds out what there is, and makes the log of it.
func (o *opening) open() error {
	d, id := o.d, o.l.id
	o.from = d.marks.recovery[id.name()]
	o.persisted = d.marks.persisted(id)
	if o.known == nil {
		o.known = d.marks.segments[id.key()]
	}
	if o.clean {
		// The stop flushed everything, so the recovery points say it all.
		o.persisted, o.unknown = o.from, nil
	}
	if err := o.list(); err != nil {
		return err
	}
	if err := o.loadEpochs(); err != nil {
		return err
	}
	if err := o.findEnd(); err != nil {
		o.abandon()
		return err
	}
	if d.distrust {
		if err := o.rewrite(); err != nil {
			o.abandon()
			return err
		}
	}
	if err := o.install(); err != nil {
		o.abandon()
		return err
	}
	return nil
}

// newLog is a log without segments.
func (d *Dir) newLog(id ID, path string, c Config) *Log {
	l := &Log{dir: d, id: id, path: path, segOptions: d.segmentOptions(c)}
	l.closed = true // until it is ready to be used
	l.onRegionError = l.regionFailed
	l.config.Store(&c)
	l.marks.ceiling, l.marks.cleaned = noCeiling, notCleaned
	l.recovery.pending, l.recovery.backup = noPending, noPending
	l.producers = producerstate.New(producerstate.Options{FS: d.o.FS, Dir: path, CurrentExpiration: d.producerIDExpiration})
	return l
}

func (o *opening) abandon() {
	for _, s := range o.segs {
		s.Abandon()
	}
}

// list reads the directory: segments, snapshots, and leftovers, which it removes.
func (o *opening) list() error {
	entries, err := readDir(o.d.o.FS, o.l.path)
	if err != nil {
		return fmt.Errorf("list %s: %w", o.l.path, err)
	}
	mended, err := o.mendSwaps(entries)
	if err != nil {
		return err
	}
	if mended {
		if entries, err = o.d.o.FS.ReadDir(o.l.path); err != nil {
			return fmt.Errorf("list %s: %w", o.l.path, err)
		}
	}
	var indexes []string
	logs := map[int64]bool{}
	for _, e := range entries {
		name := e.Name()
		base, suffix, ok := segment.ParseFileName(name)
		switch {
		case ok && suffix == segment.LogSuffix:
			info, err := e.Info()
			if err != nil {
				return fmt.Errorf("look at %s: %w", o.l.file(name), err)
			}
			logs[base] = true
			o.segs = append(o.segs, segment.OpenSized(o.l.path, base, info.Size(), info.ModTime(), o.now, o.l.segOptions))
		case ok:
			indexes = append(indexes, name)
		default:
			if err := o.other(name); err != nil {
				return err
			}
		}
	}
	slices.SortFunc(o.segs, func(a, b *segment.Segment) int { return int(max(-1, min(1, a.BaseOffset()-b.BaseOffset()))) })
	for _, name := range indexes {
		base, suffix, _ := segment.ParseFileName(name)
		if !logs[base] {
			if err := o.remove(name); err != nil {
				return err
			}
		} else if suffix == segment.TxnIndexSuffix {
			o.txnIndexes = append(o.txnIndexes, base)
		}
	}
	o.l.producers.SetSnapshots(o.snapshots)
	return nil
}

// other deals with files that belong to no segment. Those of an interrupted deletion are removed
// as in Kafka's LogLoader.
func (o *opening) other(name string) error {
	if at, ok := producerstate.ParseSnapshotName(name); ok {
		o.snapshots = append(o.snapshots, at)
		return nil
	}
	if strings.HasSuffix(name, ".deleted") || strings.HasSuffix(name, segment.CleanedSuffix) || strings.HasSuffix(name, segment.SwapSuffix) {
		return o.remove(name)
	}
	return nil
}

func (o *opening) remove(name string) error {
	o.d.o.Logger.Info("leftover file removed", "file", o.l.file(name))
	if err := o.d.o.FS.Remove(o.l.file(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", o.l.file(name), err)
	}
	return nil
}

// loadEpochs reads the leader epochs. A checkpoint that cannot be read is built again
// from all batches.
func (o *opening) loadEpochs() error {
	epochs, err := epoch.Load(o.d.o.FS, o.l.path)
	if err == nil {
		o.l.epochs = epochs
		return nil
	}
	if !isFormatError(err) {
		return unreadable(o.l.file(checkpoint.LeaderEpochFile), err)
	}
	o.d.o.Logger.Error("leader epochs cannot be read: all segments are scanned", "log", o.l.path, "err", err)
	o.l.epochs = epoch.Rebuild(o.d.o.FS, o.l.path)
	o.clean, o.from, o.epochsLost = false, 0, true
	return nil
}

// findEnd decides where the log begins and ends.
func (o *opening) findEnd() error {
	l := o.l
	start := o.d.marks.start[l.id.name()]
	o.metaInDoubt = !o.clean && o.persisted == 0
	if len(o.segs) == 0 {
		return o.startWithoutSegments(start)
	}
	if err := o.dropBelow(start); err != nil {
		return err
	}
	l.marks.start = max(start, o.segs[0].BaseOffset())
	if !o.knowsEpochs() {
		o.clean, o.from, o.epochsLost = false, l.marks.start, true
	}
	end := o.from
	o.clean = o.clean && o.plausibleEnd(end)
	unread := len(o.segs)
	if !o.clean {
		unread = o.firstToScan()
	}
	unread, err := o.checkSegments(start, unread)
	if err != nil {
		return err
	}
	if !o.clean {
		if end, err = o.scan(unread); err != nil {
			return err
		}
		l.tailKnown = true
	}
	l.marks.end, l.marks.endPos = end, o.segs[len(o.segs)-1].Size()
	if l.marks.start > end {
		return o.startAfresh(l.marks.start)
	}
	return nil
}

// knowsEpochs tells whether an epoch is left of the records that would not be read now. The
// checkpoint of epochs may be ahead of that of the log start: what was deleted is back after a
// kill, and the epochs begin where the next record would.
func (o *opening) knowsEpochs() bool {
	first, known := o.l.epochs.Earliest()
	return o.l.marks.start >= o.from || known && first.StartOffset < o.from
}

// plausibleEnd: a log can end at an offset if that lies in its last segment. The rest
// is seen when the log is first changed (Log.checkTail).
func (o *opening) plausibleEnd(end int64) bool {
	last := o.segs[len(o.segs)-1]
	return end > last.BaseOffset() && last.Size() > 0 || end == last.BaseOffset() && last.Size() == 0
}

// dropBelow removes the segments that end at or below the log start: retention was
// interrupted, or a power cut has brought them back.
func (o *opening) dropBelow(start int64) error {
	for len(o.segs) > 1 && o.segs[1].BaseOffset() <= start {
		if err := o.segs[0].Delete(); err != nil {
			return err
		}
		o.segs = o.segs[1:]
	}
	return nil
}

// startWithoutSegments is a log whose creation was cut off, or whose files are gone.
func (o *opening) startWithoutSegments(start int64) error {
	if o.persisted > start || o.unknown != nil && o.from > start {
		return o.damage(o.l.path, -1, start, errors.New("no segment is left"))
	}
	return o.startAfresh(start)
}

// startAfresh begins an empty log at its start: all that was in it was deleted.
func (o *opening) startAfresh(start int64) error {
	for _, s := range o.segs {
		if err := s.Delete(); err != nil {
			return err
		}
	}
	seg, err := o.l.createSegment(start, o.now)
	if err != nil {
		return err
	}
	o.segs = []*segment.Segment{seg}
	o.l.marks.start, o.l.marks.end, o.l.marks.endPos = start, start, 0
	o.l.epochs.Clear()
	o.l.tailKnown = true
	o.dirInDoubt, o.beyond = true, true
	return nil
}

func (o *opening) damage(file string, pos, at int64, cause error) error {
	return &CorruptionError{File: file, Pos: pos, Offset: at, Err: cause}
}

// badSpot is where a scan had to stop.
type badSpot struct {
	seg   int // of o.segs; the good part of it stays
	file  string
	pos   int64
	cause error
}

// firstToScan is the segment with the recovery point.
func (o *opening) firstToScan() int {
	first := max(floor(o.segs, o.from), 0)
	o.from = max(o.from, o.segs[first].BaseOffset())
	if first > 0 && o.from == o.segs[first].BaseOffset() {
		first-- // it must end here: it may have been cut before the roll
	}
	return first
}

// scan reads everything from the recovery point on, which lies in the first segment that is
// given, and cuts off a torn tail. It returns the log end.
func (o *opening) scan(first int) (end int64, err error) {
	o.l.epochs.TruncateFromEnd(o.from)
	o.lastEpoch = -1
	if e, ok := o.l.epochs.Latest(); ok {
		o.lastEpoch = e.Epoch
	}
	end, bad, err := o.scanFrom(first)
	if err != nil {
		return 0, err
	}
	// What lies below the log start is nobody's any more.
	missing := end < o.persisted && o.persisted > o.l.marks.start
	if missing || bad != nil && o.unknown != nil {
		return 0, o.lost(end, bad)
	}
	if bad != nil {
		if err := o.cut(end, bad); err != nil {
			return 0, err
		}
	}
	for _, s := range o.segs[first:] { // what was written ahead
		if err := s.DropTail(); err != nil {
			return 0, err
		}
	}
	if err := o.forgetSnapshots(min(end, max(o.from, o.l.marks.start))); err != nil {
		return 0, err
	}
	o.beyond = o.beyond || end > o.persisted
	// The last file may be younger than the last round that synced the directory.
	last := o.segs[len(o.segs)-1]
	o.dirInDoubt = o.dirInDoubt || last.BaseOffset() >= o.persisted
	return end, nil
}

// forgetSnapshots removes the producer snapshots above an offset, durably before anything
// is appended. If a power cut brought one back from above the end later, when other records
// have taken the offsets of those that it knows, it would pass for the newest state: a retry
// would then be acknowledged as a duplicate of a record that is not there.
//
// Nor is one above the recovery point believed that now lies below the end: a start whose
// sync of the directory failed may have removed it, without the disk knowing. What the
// batches say, from the recovery point on, is beyond doubt.
func (o *opening) forgetSnapshots(above int64) error {
	known := len(o.l.producers.Snapshots())
	if err := o.l.producers.DeleteSnapshotsAbove(above); err != nil {
		return err
	}
	if len(o.l.producers.Snapshots()) < known {
		o.dirInDoubt, o.beyond = true, true
	}
	return nil
}

// lost is the error for a log that is not whole up to persisted.
func (o *opening) lost(end int64, bad *badSpot) error {
	if bad == nil {
		last := o.segs[len(o.segs)-1]
		return o.damage(last.Path(), last.Size(), end,
			fmt.Errorf("the log ends at offset %d, but it was flushed up to %d", end, o.persisted))
	}
	cause := fmt.Errorf("%w; the log was flushed up to offset %d", bad.cause, o.persisted)
	if end >= o.persisted {
		cause = fmt.Errorf("%w; it may be a torn tail, but %w", bad.cause, o.unknown)
	}
	return o.damage(bad.file, bad.pos, end, cause)
}

// scanFrom scans segment by segment until the end or the first bad spot.
func (o *opening) scanFrom(first int) (end int64, bad *badSpot, err error) {
	end = o.segs[first].BaseOffset()
	for i := first; i < len(o.segs); i++ {
		if i > first && o.segs[i].BaseOffset() < end {
			if _, err := o.dropCovered(i-1, end); err != nil {
				return end, nil, err
			}
		}
		s := o.segs[i]
		if i > first && s.BaseOffset() != end {
			return end, &badSpot{
				seg: i - 1, file: s.Path(), pos: 0,
				cause: fmt.Errorf("segment begins at offset %d, but the one before ends at %d", s.BaseOffset(), end),
			}, nil
		}
		r, err := o.scanSegment(s)
		if err != nil {
			return 0, nil, err
		}
		s.MarkUnflushed() // also where nothing was scanned: it may have been cut
		if r.Damage == nil && r.FileSize > r.ValidSize {
			o.d.o.Logger.Debug("zeros that were written ahead are cut off", "log", o.l.path, "segment", s.BaseOffset(), "bytes", r.FileSize-r.ValidSize)
		}
		end = max(r.NextOffset, s.BaseOffset())
		if bad := spotOf(i, r.Damage); bad != nil {
			return end, bad, nil
		}
	}
	return end, nil, nil
}

func spotOf(seg int, d *segment.CorruptionError) *badSpot {
	if d == nil {
		return nil
	}
	return &badSpot{seg: seg, file: d.File, pos: d.Pos, cause: errors.New(d.Reason)}
}

// errStaleEpoch ends a scan at a batch from before a truncation.
var errStaleEpoch = errors.New("leader epoch falls back")

// unreadable makes the error of a read the damage of one file: the other logs of the
// directory can be used.
func unreadable(file string, err error) error {
	var corrupt *segment.CorruptionError
	if err == nil || isBusy(err) || errors.As(err, &corrupt) {
		return err
	}
	return &CorruptionError{File: file, Pos: -1, Offset: -1, Err: err}
}

func (o *opening) scanSegment(s *segment.Segment) (segment.Recovered, error) {
	var stale struct{ offset, pos int64 }
	r, err := s.Recover(segment.RecoverParams{FromOffset: o.from, OnBatch: func(v batch.View, pos int64) error {
		if e := v.LeaderEpoch(); e >= 0 && e < o.lastEpoch {
			stale.offset, stale.pos = v.BaseOffset(), pos
			return fmt.Errorf("%w from %d to %d at offset %d", errStaleEpoch, o.lastEpoch, e, v.BaseOffset())
		}
		o.lastEpoch = max(o.lastEpoch, v.LeaderEpoch())
		o.l.assignEpoch(v.LeaderEpoch(), v.BaseOffset())
		o.hasTxns = o.hasTxns || v.IsTransactional() || v.IsControl()
		return nil
	}})
	if !errors.Is(err, errStaleEpoch) {
		return r, unreadable(s.Path(), err)
	}
	// The scan has accepted the batch already: scan again, and take it off.
	why := err
	if r, err = s.Recover(segment.RecoverParams{FromOffset: o.from}); err != nil {
		return r, err
	}
	if stale.offset >= o.persisted && o.unknown == nil {
		if _, err = s.TruncateTo(o.now, stale.offset); err != nil {
			return r, err
		}
	}
	r.NextOffset, r.ValidSize = stale.offset, stale.pos
	r.Damage = &segment.CorruptionError{File: s.Path(), Pos: stale.pos, Reason: why.Error()}
	return r, nil
}

// cut removes a torn tail: the bad part of one segment, and all later ones.
func (o *opening) cut(end int64, bad *badSpot) error {
	var bytes int64
	for _, s := range o.segs[bad.seg+1:] {
		bytes += s.Size()
		if err := s.Delete(); err != nil {
			return err
		}
		o.dirInDoubt = true
	}
	o.segs = o.segs[:bad.seg+1]
	if err := o.segs[bad.seg].DropTail(); err != nil {
		return err
	}
	o.beyond = true
	o.d.metrics.tornTail()
	o.d.o.Logger.Warn("torn tail cut off: nobody was promised what it held", "log", o.l.path,
		"end", end, "flushed", o.persisted, "file", bad.file, "pos", bad.pos, "laterSegmentBytes", bytes, "cause", bad.cause)
	return nil
}

// install makes the opened log ready for use. Only what was persisted counts as flushed
// until syncRecovered has run.
func (o *opening) install() error {
	l := o.l
	l.segs = o.segs
	l.openedClean = o.clean
	l.recovery.point = min(o.from, l.marks.end)
	if slices.Contains(l.producers.Snapshots(), o.from) {
		l.recovery.backed, l.recovery.backup = true, o.from
	}
	l.marks.flushed = min(o.persisted, l.marks.end)
	l.marks.noted = l.marks.flushed
	l.marks.checkpointedHW = o.d.marks.hw[l.id.name()]
	if cleaned, known := o.d.marks.cleaned[l.id.name()]; known && cleaned <= l.marks.end {
		l.marks.cleaned = cleaned
	}
	l.marks.securedStart = l.marks.start
	l.marks.unflushedSinceMs = o.now.UnixMilli()
	if !o.clean {
		l.recovery.bytes = o.bytesFrom(l.recovery.point)
		l.recovery.sinceMs = o.now.UnixMilli()
		latest, _ := l.producers.LatestSnapshot()
		l.recovery.bare = l.recovery.point > max(latest, l.marks.start)
		l.recovery.due = o.epochsLost // else a kill has all batches scanned once more
	}
	l.epochs.TruncateFromEnd(l.marks.end)
	l.epochs.TruncateFromStart(l.marks.start)
	if !o.clean && l.marks.start == l.marks.end {
		// The checkpoint may be older than the batches that retention took away, and nothing
		// is left that would show it. A log that is empty may say that it knows no epoch; it
		// must not say that an early one reached up to its end.
		l.epochs.Clear()
	}
	if err := o.mendTransactionIndexes(); err != nil {
		return err
	}
	if o.hasTxns {
		return o.rebuildTransactions()
	}
	return nil
}

// bytesFrom is how much lies above an offset, roughly: whole segments.
func (o *opening) bytesFrom(at int64) int64 {
	if at >= o.l.marks.end {
		return 0
	}
	var n int64
	for _, s := range o.segs[max(floor(o.segs, at), 0):] {
		n += s.Size()
	}
	return n
}

// rebuildTransactions adds the aborted transactions that ended above the recovery point
// to the transaction indexes; the scan has removed what they held of them.
func (o *opening) rebuildTransactions() error {
	l := o.l
	from := max(o.from, l.marks.start)
	if err := l.loadProducersUpTo(o.now, l.marks.start, from); err != nil {
		return err
	}
	for _, s := range o.segs[max(floor(o.segs, from), 0):] {
		err := s.ForEachBatch(from, l.marks.end, func(v batch.View, _ int64) error {
			done, ended := l.updateProducers(v)
			if !ended || !done.Aborted || slices.Contains(o.mended, s) {
				return nil
			}
			return s.AppendAbortedTxn(abortedTxn(done))
		})
		if err != nil {
			return unreadable(s.Path(), err)
		}
	}
	l.producers.SetEndOffset(l.marks.end)
	l.loaded = true
	l.noteProducers()
	return nil
}
