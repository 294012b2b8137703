package logstore

import (
	"time"

	"github.com/klamm-mq/klamm/logstore/segment"
)

// What Config.WriteAheadBytes and HotBytes should be where it pays, as measured
// (docs/performance.md). 32 KiB are the most that Linux has at hand as one piece of memory,
// with pages of 4 KiB (PAGE_ALLOC_COSTLY_ORDER): for larger ones it moves others' pages about.
const (
	DefaultWriteAhead = 32 << 10
	DefaultHotBytes   = 256 << 10
)

// writeAhead prepares the active segment for an append of n bytes, if that pays (see
// segment/ahead.go). What goes wrong is no failure of the log, whose appends find out for
// themselves. Callers hold writer.
func (l *Log) writeAhead(now time.Time, c *Config, seg *segment.Segment, n int) {
	if c.WriteAheadBytes <= 0 {
		return
	}
	written, err := seg.WriteAhead(segment.AheadParams{
		Now: now, AppendBytes: n, BlockBytes: int(c.WriteAheadBytes), HotBytes: int(c.HotBytes),
		MaxBytes: int64(c.SegmentBytes), Reserve: l.dir.space.reservable(),
	})
	if err != nil {
		l.dir.o.Logger.Debug("nothing is written ahead for a while", "log", l.path, "err", err)
	}
	if written > 0 {
		l.ahead.Store(true)
		l.dir.noteAppended(written)
	}
}

// cutAhead cuts off what is behind the end of the active segment. Callers hold writer.
func (l *Log) cutAhead(seg *segment.Segment) error {
	if err := seg.DropTail(); err != nil {
		return l.ioError("cut the prepared end of", err)
	}
	l.ahead.Store(false)
	return nil
}

// cutColdAhead does so if nothing was appended for so long. It reports whether a flush is due:
// the cut needs one, so that whoever believes the file's size, as after a clean stop, may.
func (l *Log) cutColdAhead(now time.Time, coldAfter time.Duration) (flushDue bool, err error) {
	l.writer.Lock()
	defer l.writer.Unlock()
	seg := l.active()
	if l.usable() != nil || now.Sub(seg.LastModified()) < coldAfter {
		return false, nil
	}
	return true, l.cutAhead(seg)
}

// cutColdAheads lets a flush of the logs follow of which zeros were cut off, and reports
// whether there are any.
func (d *Dir) cutColdAheads(now time.Time, coldAfter time.Duration) bool {
	flushDue := false
	for _, l := range d.movedLogs() {
		if !l.ahead.Load() {
			continue
		}
		due, err := l.cutColdAhead(now, coldAfter)
		if err != nil {
			d.o.Logger.Warn("prepared end stays for now", "log", l.path, "err", err)
		} else if due {
			d.wantFlush(l)
			flushDue = true
		}
	}
	return flushDue
}

// cutAheads is for a clean stop, before its flush: none may be left.
func (d *Dir) cutAheads(logs []*Log) error {
	for _, l := range logs {
		if !l.ahead.Load() || l.usable() != nil {
			continue
		}
		l.writer.Lock()
		err := l.cutAhead(l.active())
		l.writer.Unlock()
		if err != nil {
			return err
		}
		d.wantFlush(l)
	}
	return nil
}
