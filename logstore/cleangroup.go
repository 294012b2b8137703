package logstore

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/klamm-mq/klamm/logstore/compaction"
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// defaultCleanBuffer is how much of a cleaned segment is written at a time.
const defaultCleanBuffer = 256 << 10

// group is what becomes one segment.
type group struct {
	*cleanPass
	sources []*segment.Segment
	first   int // of sources in c.segs
	cleaned *segment.Segment
	changed bool // something is not as it was
}

// clean writes the segment that takes the place of a group, and puts it there.
func (c *cleanPass) clean(pieces []compaction.Piece) error {
	first := floor(c.segs, pieces[0].Base)
	g := &group{cleanPass: c, first: first, sources: c.segs[first : first+len(pieces)]}
	g.changed = len(pieces) > 1 && g.lastFilled() >= 0 // a log without batches replaces nothing
	if err := c.overtaken(); err != nil {
		return err
	}
	if err := g.create(); err != nil {
		return err
	}
	err := g.write()
	c.stats.Segments += len(g.sources)
	c.stats.SegmentsLeft += len(g.sources)
	if err != nil || !g.changed {
		return cmp.Or(err, g.discard())
	}
	return g.replace()
}

func (g *group) create() error {
	l := g.log
	err := l.withNames(func() (err error) {
		l.writer.Lock()
		o := l.segOptions
		l.writer.Unlock()
		g.cleaned, err = segment.CreateCleaned(l.path, g.sources[0].BaseOffset(), g.p.Now, o)
		return err
	})
	if err != nil {
		return l.ioError("clean", err)
	}
	return nil
}

// write makes the cleaned segment, durably. After an error it is thrown away.
func (g *group) write() error {
	err := g.copyBatches()
	if err == nil {
		err = g.finish()
	}
	if err != nil {
		_ = g.discard() // what went wrong first is what counts
	}
	return err
}

// discard throws the cleaned segment away.
func (g *group) discard() error {
	err := g.log.withNames(g.cleaned.Discard)
	g.cleaned.Abandon()
	g.log.dir.checkSpace()
	if err != nil && !errors.Is(err, ErrClosed) {
		return g.log.ioError("clean", err)
	}
	return nil
}

// copyBatches writes what is kept of each source.
func (g *group) copyBatches() error {
	g.buf = g.buf[:0]
	filled := g.lastFilled()
	for i, s := range g.sources {
		aborted, err := g.aborted(g.first+i, s.BaseOffset(), g.end(g.first+i))
		if err != nil {
			return err
		}
		g.filter.AddAborted(aborted)
		size, final := s.Size(), i == filled
		read := int64(0)
		err = g.forEachBatch(s, s.BaseOffset(), func(v batch.View, pos int64) error {
			read = pos + int64(len(v))
			return g.take(v, final && read == size)
		})
		if err == nil && read != size {
			err = ErrOvertaken
		}
		if err != nil {
			return err
		}
	}
	return g.flush()
}

// lastFilled is the last source that has batches, -1 if none has. Kafka leaves segments empty of
// which nothing remains.
func (g *group) lastFilled() int {
	i := len(g.sources) - 1
	for i >= 0 && g.sources[i].Size() == 0 {
		i--
	}
	return i
}

// take adds to the buffer what is kept of a batch. The last one of a group is kept, if empty: the
// next segment begins where it ends, unless Kafka has left a gap there.
func (g *group) take(v batch.View, last bool) error {
	kept, err := g.filter.Batch(v, last)
	if err != nil {
		return err
	}
	if len(kept) != len(v) || len(kept) > 0 && &kept[0] != &v[0] {
		g.changed = true
	}
	limit := cmp.Or(g.p.BufferBytes, defaultCleanBuffer)
	if len(g.buf) > 0 && len(g.buf)+len(kept) > limit {
		if err := g.flush(); err != nil {
			return err
		}
	}
	g.buf = append(g.buf, kept...)
	return g.progress(len(v))
}

// flush writes the buffer.
func (g *group) flush() error {
	n := len(g.buf)
	if n == 0 {
		return nil
	}
	if g.cleaned.Size()+int64(n) > math.MaxInt32 {
		return fmt.Errorf("what is kept of segment %d and its neighbours is larger than a segment can be", g.sources[0].BaseOffset())
	}
	if !g.log.dir.hasRoom(n) {
		return ErrDirFull
	}
	// The file may have to be opened again, and its name be another log's by now.
	if err := g.log.withNames(func() error { return g.cleaned.Append(g.p.Now, g.buf) }); err != nil {
		return g.log.ioError("clean", err)
	}
	g.log.dir.noteAppended(n)
	g.buf = g.buf[:0]
	return g.progress(n)
}

// finish makes the segment whole and durable: what is left is to give it its name. It keeps the
// time of the last write to its sources, by which retention goes where records have none.
func (g *group) finish() error {
	aborted := g.filter.Aborted()
	if !g.changed {
		return nil
	}
	l, s := g.log, g.cleaned
	for _, t := range aborted {
		if err := s.AppendAbortedTxn(t); err != nil {
			return l.ioError("clean", err)
		}
	}
	modified := g.sources[len(g.sources)-1].LastModified()
	err := l.withNames(func() error {
		if err := s.SetModified(modified); err != nil { // not all file systems let everybody
			l.dir.o.Logger.Warn("cleaned segment counts as written now", "log", l.path, "err", err)
		}
		return s.Seal()
	})
	if err == nil {
		err = syncSegment(s)
	}
	if err == nil {
		err = g.syncIndexes()
	}
	if err != nil {
		return l.ioError("clean", err)
	}
	return nil
}

func (g *group) syncIndexes() error {
	var x *segment.IndexSync
	err := g.log.withNames(func() (err error) {
		x, err = g.cleaned.BeginIndexSync()
		return err
	})
	if err != nil {
		return err
	}
	for _, f := range x.Files() {
		err = cmp.Or(err, f.Sync())
	}
	x.Finish(err)
	return err
}

// replace puts the segment in place.
func (g *group) replace() error {
	l := g.log
	s, err := l.beginSwap(g.sources, g.end(g.first+len(g.sources)-1), g.cleaned, g.truncations)
	if err != nil {
		_ = g.discard() // what went wrong first is what counts
		return err
	}
	if err := s.run(); err != nil {
		return err
	}
	g.stats.SegmentsLeft -= len(g.sources) - 1
	l.dir.o.Logger.Debug("segments cleaned", "log", l.path, "base", g.cleaned.BaseOffset(), "sources", len(g.sources), "bytes", g.cleaned.Size())
	return nil
}
