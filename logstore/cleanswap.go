package logstore

import (
	"errors"
	"slices"

	"github.com/klamm-mq/klamm/internal/invariant"
	"github.com/klamm-mq/klamm/logstore/segment"
)

// How a cleaned segment takes the place of those that it was made of. Names are Kafka's, which
// finishes what was begun here, as a start here finishes what Kafka has begun:
//
//	                     0.log    40.log   0.index        0.log.…     0.index.…    a start
//	written, synced      source   source   of 0.log       .cleaned    .cleaned     removes .cleaned
//	indexes renamed      source   source   of 0.log       .cleaned    .swap        removes both
//	log renamed          source   source   of 0.log       .swap       .swap        finishes
//	sources removed,
//	indexes in place     source   -        of cleaned     .swap       -            finishes
//	log in place         cleaned  -        of cleaned     -           -
//
// Each line is durable before the next. Whatever a power cut makes of two neighbours: as long
// as there is a log named .swap, it is whole, its indexes are there under one name or the
// other, and its range [base, its last offset] is what it replaces. Before that nothing has
// been removed.
//
// Readers go from the sources to the cleaned segment when its log is durable as .swap, before
// any source is removed. Its file stays open until it is in place, so that nobody looks for it
// under a name that it is about to lose.
//
// What else takes segments away from a log (truncation, retention) waits for a swap: on the
// disk, until it is through, that would be undone by a start. Who waits for one that was left
// half way, since there was no descriptor or no room, goes on with it. A deletion, a move or a
// stop waits for nothing: each step finds the log closed, and leaves the rest to the next start.

// swap is one of them under way. Its fields are those of whoever runs it.
type swap struct {
	log     *Log
	sources []*segment.Segment
	cleaned *segment.Segment
	end     int64 // where the segment behind the sources begins
	step    int
	// running is closed when nobody runs it any more; nil while nobody does. Guarded by Log.mu.
	running chan struct{}
}

// steps of a swap, in their order. What is done before renamed can be undone.
const renamed = 4

func (s *swap) steps() []func() error {
	syncDir := func() error { return s.log.unlessGone(s.log.dir.o.FS.SyncDir(s.log.path)) }
	named := func(fn func() error) func() error { return func() error { return s.log.withNames(fn) } }
	return []func() error{
		s.forgetEarlyEnd,
		named(func() error { return s.cleaned.MoveIndexes(segment.Swap) }),
		syncDir,
		named(func() error { return s.cleaned.MoveLog(segment.Swap) }),
		syncDir,
		s.show,
		named(s.removeSources),
		named(func() error { return s.cleaned.MoveIndexes(segment.InPlace) }),
		syncDir,
		named(func() error { return s.cleaned.MoveLog(segment.InPlace) }),
		syncDir,
		named(s.cleaned.DropEmptyTxnIndex),
	}
}

// beginSwap makes a swap known, unless the log has changed since its sources were read: then it
// is ErrOvertaken. A truncation may have left them all, and cut the last one. Who has been told
// that the log is no longer compacted finds in it whatever was there.
func (l *Log) beginSwap(sources []*segment.Segment, end int64, cleaned *segment.Segment, truncations int64) (*swap, error) {
	l.writer.Lock()
	defer l.writer.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, ErrClosed
	case !l.config.Load().Compact, l.swap != nil || l.marks.ceiling != noCeiling || l.marks.truncations != truncations || indexOf(l.segs, sources) < 0:
		return nil, ErrOvertaken
	}
	l.swap = &swap{log: l, sources: sources, end: end, cleaned: cleaned, running: make(chan struct{})}
	return l.swap, nil
}

// indexOf is where the sources stand in a row, -1 if they are not all there.
func indexOf(row, sources []*segment.Segment) int {
	i := slices.Index(row, sources[0])
	if i < 0 || i+len(sources) > len(row) || !slices.Equal(row[i:i+len(sources)], sources) {
		return -1
	}
	return i
}

// run goes on with a swap from the step that it has come to. It is over afterwards, unless the
// error may pass: then it is taken up again by whoever waits for it. One that has not been
// committed is undone.
func (s *swap) run() error {
	steps := s.steps()
	var err error
	for ; s.step < len(steps) && err == nil; s.step++ {
		if err = steps[s.step](); err != nil {
			break
		}
	}
	switch {
	case err == nil:
		s.over(false)
		s.log.dropOldSnapshots()
		return nil
	case errors.Is(err, ErrClosed), errors.Is(err, segment.ErrClosed):
		s.cleaned.Abandon()
		s.over(false)
		return ErrClosed
	case s.step < renamed && MayPass(err):
		err = errors.Join(err, s.undo())
		s.over(false)
	default:
		s.over(MayPass(err))
	}
	return s.log.ioError("put a cleaned segment of", err)
}

// forgetEarlyEnd: a segment of Kafka's may end below the next one, and the cleaned one does then. What
// has been noted of the sources would make damage of that. It is noted again after the swap.
func (s *swap) forgetEarlyEnd() error {
	next, err := s.cleaned.NextOffset()
	if err != nil {
		return err
	}
	if next == s.end {
		return nil
	}
	d := s.log.dir
	d.marks.lock()
	defer d.marks.unlock()
	d.marks.setSegments(s.log.id, nil)
	s.log.resegmented.Store(true)
	if err := d.marks.write(segmentMarks); err != nil {
		return d.checkpointError(err)
	}
	return nil
}

// over lets those go on who wait, with the swap left half way or over.
func (s *swap) over(halfWay bool) {
	l := s.log
	l.writer.Lock()
	defer l.writer.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	close(s.running)
	s.running = nil
	if !halfWay {
		l.swap = nil
	}
}

// undo throws the cleaned segment away. Names of it that a power cut brings back are removed by
// the next start: there is no log named .swap.
func (s *swap) undo() error {
	err := s.log.withNames(s.cleaned.Discard)
	s.cleaned.Abandon()
	if errors.Is(err, ErrClosed) {
		return nil
	}
	return err
}

// show lets readers see the cleaned segment instead of its sources. Nobody who uses files by
// their names is in between: captures of recovery points write to those of the sources.
func (s *swap) show() error {
	l := s.log
	l.names.Lock()
	defer l.names.Unlock()
	l.writer.Lock()
	defer l.writer.Unlock()
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return ErrClosed
	}
	i := indexOf(l.segs, s.sources)
	if i >= 0 {
		row := slices.Clone(l.segs[:i])
		row = append(row, s.cleaned)
		l.segs = append(row, l.segs[i+len(s.sources):]...)
		l.swaps++
	}
	l.mu.Unlock()
	invariant.Check(i >= 0, "%s has lost segments from %d on while they were replaced", l.path, s.sources[0].BaseOffset())
	for _, source := range s.sources { // after the row has changed: their readers look again
		source.Abandon()
	}
	l.resegmented.Store(true)
	return nil
}

// removeSources leaves the files of the first one to be replaced by those of its name.
func (s *swap) removeSources() error {
	for _, source := range s.sources[1:] {
		if err := source.Delete(); err != nil {
			return err
		}
	}
	return nil
}

// settleSwap waits for a swap to be over, and goes on with one that was left half way.
func (l *Log) settleSwap() error {
	for {
		l.mu.Lock()
		s := l.swap
		if s == nil {
			l.mu.Unlock()
			return nil
		}
		if running := s.running; running != nil {
			l.mu.Unlock()
			<-running
			continue
		}
		s.running = make(chan struct{})
		l.mu.Unlock()
		if err := s.run(); err != nil {
			return err
		}
	}
}

// lockSettled takes writer while there is no swap.
func (l *Log) lockSettled() error {
	for {
		if err := l.settleSwap(); err != nil {
			return err
		}
		l.writer.Lock()
		if !l.isSwapping() {
			return nil
		}
		l.writer.Unlock()
	}
}

// lockAlone takes names, alone, and writer while there is no swap.
func (l *Log) lockAlone() error {
	for {
		if err := l.settleSwap(); err != nil {
			return err
		}
		l.names.Lock()
		l.writer.Lock()
		if !l.isSwapping() {
			return nil
		}
		l.unlockAlone()
	}
}

func (l *Log) unlockAlone() {
	l.writer.Unlock()
	l.names.Unlock()
}

// swapCount is how many segments of the log have been replaced since it was opened.
func (l *Log) swapCount() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.swaps
}

func (l *Log) isSwapping() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.swap != nil
}
