package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/klamm-mq/klamm/logstore/producerstate"
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/offset"
)

// DeletedSegment is a segment that retention removed.
type DeletedSegment struct {
	BaseOffset int64
	SizeBytes  int64
	Reason     string
}

// Reasons for which retention removes a segment.
const (
	reasonLogStart = "log start"
	reasonSize     = "retention.bytes"
	reasonTime     = "retention.ms"
)

// Retain removes the oldest segments that nobody may read any more: those below the
// log start, and, with cleanup.policy=delete, those beyond retention.bytes and
// retention.ms. Nothing at or above the high watermark goes. If all segments go, a new
// empty one is begun first (Kafka's UnifiedLog.deleteOldSegments).
//
// The log start is durable before the first file goes: else a power cut could bring
// some of the files back, with a hole between them. So is what the log begins with then (see
// syncNewStart), with a snapshot of the producers whose records go: a retry of theirs would
// else be out of order for ever.
func (l *Log) Retain(now time.Time, hw offset.HighWatermark) ([]DeletedSegment, error) {
	victims, err := l.retire(now, int64(hw))
	if err != nil || len(victims) == 0 {
		return nil, err
	}
	return l.dir.deleteSegments(l, victims)
}

// victim is a segment that has left the log and still has its files.
type victim struct {
	seg    *segment.Segment
	size   int64
	reason string
}

// retire takes the segments out of the log and moves the log start behind them.
func (l *Log) retire(now time.Time, hw int64) ([]victim, error) {
	if err := l.usable(); err != nil {
		return nil, err
	}
	if err := l.lockSettled(); err != nil {
		return nil, err
	}
	defer l.writer.Unlock()
	victims, err := l.deletable(now, hw)
	if err != nil || len(victims) == 0 {
		return nil, err
	}
	if len(victims) == l.NumSegments() {
		if err := l.ready(now); err != nil {
			return nil, err
		}
		if err := l.roll(now, l.end()); err != nil {
			return nil, err
		}
		l.dir.noteMoved(l)
	}
	segs := l.segments()[len(victims):]
	l.advanceStart(segs[0].BaseOffset())
	l.setSegments(segs)
	return victims, nil
}

// deletable applies the three rules one after the other, as Kafka does; each goes on
// where the one before has stopped. Callers hold writer.
func (l *Log) deletable(now time.Time, hw int64) ([]victim, error) {
	c, b := l.config.Load(), l.bounds()
	var victims []victim
	take := func(reason string, breached func(i int) (bool, error)) error {
		for i := len(victims); i < len(b.segs) && b.upperBound(i) <= hw; i++ {
			if i == len(b.segs)-1 && b.endPos == 0 {
				return nil // the last segment is empty: nothing to gain
			}
			yes, err := breached(i)
			if err != nil || !yes {
				return err
			}
			victims = append(victims, victim{seg: b.segs[i], size: b.segs[i].Size(), reason: reason})
		}
		return nil
	}
	err := take(reasonLogStart, func(i int) (bool, error) {
		return i+1 < len(b.segs) && b.segs[i+1].BaseOffset() <= b.start, nil
	})
	if err == nil && c.Delete && c.RetentionBytes >= 0 {
		surplus := b.sizeFrom(len(victims)) - c.RetentionBytes
		err = take(reasonSize, func(i int) (bool, error) {
			surplus -= b.segs[i].Size()
			return surplus >= 0, nil
		})
	}
	if err == nil && c.Delete && c.RetentionMs >= 0 {
		err = take(reasonTime, func(i int) (bool, error) { return expired(b.segs[i], now, c.RetentionMs) })
	}
	if err != nil {
		return nil, l.readError("retain", err)
	}
	return victims, nil
}

// expired compares with the segment's largest timestamp, or with the time of its last
// write if no record has one.
func expired(s *segment.Segment, now time.Time, retentionMs int64) (bool, error) {
	largest, err := s.MaxTimestamp()
	if err != nil {
		return false, fmt.Errorf("look for the largest timestamp: %w", err)
	}
	ts := largest.TimestampMs
	if ts < 0 {
		ts = s.LastModified().UnixMilli()
	}
	return now.UnixMilli()-ts > retentionMs, nil
}

// upperBound is the end of what segment i may hold.
func (b *bounds) upperBound(i int) int64 {
	if i+1 < len(b.segs) {
		return b.segs[i+1].BaseOffset()
	}
	return b.end
}

func (b *bounds) sizeFrom(i int) int64 {
	var n int64
	for _, s := range b.segs[i:] {
		n += s.Size()
	}
	return n
}

// deleteSegments removes the files of segments that have left their log. On a disk so
// full that the log start cannot be written, the removal of each is made durable before
// the next: then, too, no hole can come of it.
func (d *Dir) deleteSegments(l *Log, victims []victim) ([]DeletedSegment, error) {
	if err := l.syncNewStart(victims); err != nil && !errors.Is(err, ErrClosed) {
		l.takeBack(victims)
		return nil, l.ioError("retain", err)
	}
	err := d.checkpointLogStarts()
	if err != nil && !isNoSpace(err) {
		l.takeBack(victims)
		return nil, err
	}
	oneByOne := err != nil
	if oneByOne {
		err = d.forgetSegments()
	}
	if oneByOne && err != nil {
		l.takeBack(victims)
		return nil, err
	}
	deleted := make([]DeletedSegment, 0, len(victims))
	for _, v := range victims {
		err := l.deleteSegment(v.seg)
		if err == nil && oneByOne {
			err = l.unlessGone(d.o.FS.SyncDir(l.path))
		}
		if errors.Is(err, ErrClosed) {
			return deleted, nil // the log was deleted, with what is left of the victims
		}
		if err != nil {
			return deleted, l.ioError("retain", err)
		}
		base := v.seg.BaseOffset()
		d.o.Logger.Info("segment deleted", "log", l.path, "base", base, "bytes", v.size, "reason", v.reason)
		deleted = append(deleted, DeletedSegment{BaseOffset: base, SizeBytes: v.size, Reason: v.reason})
	}
	return deleted, nil
}

// takeBack gives a log the victims that cannot be removed now, for lack of a descriptor say.
// They lie below the log start and go with the next Retain; otherwise their files would stay
// until the next start.
func (l *Log) takeBack(victims []victim) {
	l.writer.Lock()
	defer l.writer.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.segs[0].BaseOffset() <= victims[len(victims)-1].seg.BaseOffset() {
		return // deleted, or started afresh
	}
	segs := make([]*segment.Segment, 0, len(victims)+len(l.segs))
	for _, v := range victims {
		segs = append(segs, v.seg)
	}
	l.segs = append(segs, l.segs...)
}

// syncNewStart makes durable what the log begins with from now on: the name of the segment
// that is the first one now, without which a power cut could let the log begin with a later
// one; and what secureStart writes.
func (l *Log) syncNewStart(victims []victim) error {
	if _, err := l.secureStart(victims); err != nil {
		return err
	}
	return l.unlessGone(l.dir.o.FS.SyncDir(l.path))
}

// secureStart makes durable who has produced what lies below the log start, as a snapshot
// at the very log start: a start would find older ones to lie below it, and a producer whose
// newer batches are still there would be out of order for ever when it sends an older one
// again. Only then may the log start itself be persisted (see securedStart). Nothing is to do
// if a recovery point that has a snapshot of its own has passed the log start, and is persisted.
//
// The directory must be synced afterwards if wrote is true. victims are segments below the
// log start that have left the log and still have their files.
func (l *Log) secureStart(victims []victim) (wrote bool, err error) {
	if _, secured := l.startSecured(); secured {
		return false, nil
	}
	l.dir.securing <- struct{}{}
	defer func() { <-l.dir.securing }()
	start, secured := l.startSecured()
	if secured {
		return false, nil
	}
	l.writer.Lock()
	err = l.loadProducers(l.dir.clock())
	snapshots, nobody := slices.Clone(l.producers.Snapshots()), l.producers.IsEmpty()
	l.writer.Unlock()
	if err != nil {
		return false, err
	}
	missing := !nobody
	if missing && slices.Contains(snapshots, start) {
		if err = l.syncSnapshot(start); err == nil || !errors.Is(err, fs.ErrNotExist) {
			missing = false
		}
	}
	if missing { // a crash has torn it, or there was no room for it, or no segment begins here
		wrote, err = true, l.writeStartSnapshot(start, snapshots, victims)
	}
	if err != nil {
		return false, err
	}
	l.mu.Lock()
	l.marks.securedStart = max(l.marks.securedStart, start)
	l.mu.Unlock()
	return wrote, nil
}

// startSecured tells whether nothing is to do for the log start.
func (l *Log) startSecured() (start int64, secured bool) {
	up := l.securedLogStart()
	start = int64(l.LogStart())
	return start, up >= start
}

// writeStartSnapshot writes the snapshot that is missing at the log start to be, from the
// batches below it. One that reaches over the log start is not among them: whoever loads the
// snapshot goes on with it.
func (l *Log) writeStartSnapshot(start int64, snapshots []int64, victims []victim) error {
	var p *producerstate.Manager
	for {
		row := l.segments()
		below, err := l.producersBelow(start, snapshots, victims, row)
		if errors.Is(err, segment.ErrClosed) && !l.isClosed() && !slices.Equal(row, l.segments()) {
			continue // a cleaning has replaced what was to be read
		}
		if err != nil {
			return l.readError("load producers of", err)
		}
		p = below
		break
	}
	snapshot, ok := p.EncodeSnapshot()
	if !ok {
		return nil
	}
	if err := l.withNames(func() error { return snapshot.Write(l.dir.o.FS, l.path, false) }); err != nil {
		return err
	}
	if err := l.syncSnapshot(start); err != nil { // before anybody knows it, and may remove it
		return err
	}
	l.writer.Lock()
	l.producers.SnapshotWritten(start)
	l.writer.Unlock()
	return nil
}

// producersBelow is who has produced what lies below an offset.
func (l *Log) producersBelow(start int64, snapshots []int64, victims []victim, row []*segment.Segment) (*producerstate.Manager, error) {
	segs := make([]*segment.Segment, 0, len(victims)+len(row))
	for _, v := range victims {
		segs = append(segs, v.seg)
	}
	segs = append(segs, row...)
	p := producerstate.New(producerstate.Options{FS: l.dir.o.FS, Dir: l.path, Expiration: l.dir.o.ProducerIDExpiration})
	p.SetSnapshots(slices.DeleteFunc(slices.Clone(snapshots), func(at int64) bool { return at > start }))
	if err := p.Load(segs[0].BaseOffset(), start, l.dir.clock()); err != nil {
		return nil, err
	}
	for _, s := range segs {
		from := p.EndOffset()
		if from >= start || s.BaseOffset() >= start {
			break
		}
		err := s.ForEachBatch(from, start, func(b batch.View, _ int64) error {
			if b.NextOffset() <= start {
				_, _, _ = p.Update(b) // a control batch that cannot be read says nothing about producers
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	p.SetEndOffset(start)
	return p, nil
}

func (l *Log) syncSnapshot(at int64) error {
	var f vfs.File
	err := l.withNames(func() (err error) {
		f, err = l.dir.o.FS.OpenFile(l.file(producerstate.SnapshotName(at)), os.O_RDWR, 0)
		return err
	})
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// deleteSegment removes a segment's files and the producer snapshot at its base offset.
func (l *Log) deleteSegment(s *segment.Segment) error {
	return l.withNames(func() error {
		if err := s.Delete(); err != nil {
			return err
		}
		l.writer.Lock()
		defer l.writer.Unlock()
		return l.producers.DeleteSnapshot(s.BaseOffset())
	})
}
