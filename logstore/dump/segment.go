package dump

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"sort"

	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// segmentCheck walks one segment, and holds its indexes against what it has seen.
type segmentCheck struct {
	*checker
	dir  string
	base int64
	name string // of the log file
	last bool   // no segment follows

	mayBeTorn bool  // a crash may have cut it
	promised  int64 // below this offset nothing may be cut

	next    int64 // the offset that is expected
	epoch   int32
	batches []batchAt
	aborts  map[int64]int64 // producer by offset of its abort marker
	lost    bool            // the end of the last batch is not known
	opaque  bool            // there are batches whose header does not tell everything
	gaps    int
	gapPos  int64
	gapText string
	tail    tail
}

// batchAt is what indexes may say of a batch.
type batchAt struct {
	pos, base, last int64
	maxTimestampMs  int64
}

func newSegmentCheck(c *checker, dir string, base int64) *segmentCheck {
	return &segmentCheck{
		checker: c, dir: dir, base: base, name: filepath.Join(dir, segment.FileName(base, segment.LogSuffix)),
		next: base, epoch: -1, aborts: map[int64]int64{},
	}
}

// run returns the offset at which the segment ends.
func (s *segmentCheck) run() int64 {
	s.report.Segments++
	end, err := walk(s.FS, s.name, func(b found) error {
		s.batch(b)
		return nil
	})
	if err != nil {
		s.unreadable(s.name, err)
		return s.next
	}
	s.tail = end
	s.report.Bytes += end.pos
	switch {
	case end.reason != "" && s.mayBeTorn && s.next >= s.promised:
		s.note(Problem{File: s.name, Pos: end.pos, Reason: end.reason + unfinished})
	case end.reason != "":
		s.damage(Problem{File: s.name, Pos: end.pos, Reason: end.reason})
	}
	if s.gaps > 0 {
		s.gap(s.name, s.gapPos, fmt.Sprintf("%d gaps between offsets, the first: %s", s.gaps, s.gapText))
	}
	s.indexes()
	return s.next
}

func (s *segmentCheck) batch(b found) {
	s.report.Batches++
	s.opaque = s.opaque || b.view == nil
	if s.lost && b.base() >= s.next {
		s.next, s.lost = b.base(), false
	}
	bad := func(format string, args ...any) {
		s.damage(Problem{File: s.name, Pos: b.pos, Reason: fmt.Sprintf(format, args...)})
	}
	switch {
	case b.bad != "":
		s.badCRC(b)
		return
	case b.last() < s.next || b.base() < s.base:
		bad("offsets %d to %d follow an end of %d", b.base(), b.last(), s.next)
	case b.last() < b.base() || b.last()-s.base > math.MaxInt32:
		bad("offsets %d to %d do not fit into a segment that begins at %d", b.base(), b.last(), s.base)
	case b.base() > s.next:
		s.foundGap(b)
	}
	at := batchAt{pos: b.pos, base: b.base(), last: b.last()}
	if b.view != nil {
		at.maxTimestampMs = b.view.MaxTimestamp()
		s.records(b, bad)
	}
	s.batches = append(s.batches, at)
	s.next = max(s.next, b.last()+1)
}

// unfinished is what a crash explains and the next start repairs.
const unfinished = ": the unfinished end of a crash, which the next start cuts off"

func (s *segmentCheck) badCRC(b found) {
	s.lost, s.opaque = true, true
	s.batches = append(s.batches, batchAt{pos: b.pos, base: s.next, last: s.next})
	if s.mayBeTorn && b.base() >= s.promised {
		s.note(Problem{File: s.name, Pos: b.pos, Reason: b.bad + unfinished})
		return
	}
	s.damage(Problem{File: s.name, Pos: b.pos, Reason: b.bad})
}

func (s *segmentCheck) foundGap(b found) {
	if b.view == nil {
		return // the older formats do not tell where a compressed batch begins
	}
	if s.gaps == 0 {
		s.gapPos, s.gapText = b.pos, fmt.Sprintf("offsets %d to %d", s.next, b.base()-1)
	}
	s.gaps++
}

// records looks into a batch with a good CRC. Records that are not what the header says
// were so when a client sent them; Kafka does not look at all of it.
func (s *segmentCheck) records(b found, bad func(string, ...any)) {
	v := b.view
	if v.LeaderEpoch() < s.epoch {
		bad("leader epoch %d follows %d", v.LeaderEpoch(), s.epoch)
	}
	s.epoch = max(s.epoch, v.LeaderEpoch())
	it := batch.NewSkimmer(v, s.Codecs)
	defer it.Close()
	odd := func(format string, args ...any) {
		s.note(Problem{File: s.name, Pos: b.pos, Reason: fmt.Sprintf(format, args...)})
	}
	before := v.BaseOffset() - 1
	for it.Next() {
		s.report.Records++
		if o := it.Record.Offset; o <= before || o > v.LastOffset() {
			odd("record %d has offset %d, outside of %d to %d", it.Index(), o, before+1, v.LastOffset())
			return
		}
		before = it.Record.Offset
	}
	if err := it.Err(); err != nil {
		odd("%v", err)
		return
	}
	if !v.IsControl() {
		return
	}
	if m, ok, err := batch.EndTxnMarkerOf(v, s.Codecs); err == nil && ok && m.Type == batch.ControlAbort {
		s.aborts[v.LastOffset()] = v.ProducerID()
	}
}

// indexes checks those that are there. A missing one is built again by the next start.
func (s *segmentCheck) indexes() {
	var before *indexEntry
	s.index(segment.IndexSuffix, offsetEntrySize, func(pos int64, b []byte) (int64, string) {
		e := offsetEntry(s.base, pos, b)
		defer func() { before = &e }()
		return e.offset, s.wrongOffset(before, e)
	})
	before = nil
	s.index(segment.TimeIndexSuffix, timeEntrySize, func(pos int64, b []byte) (int64, string) {
		e := timeEntry(s.base, pos, b)
		defer func() { before = &e }()
		return e.offset, s.wrongTime(before, e)
	})
	s.index(segment.TxnIndexSuffix, txnEntrySize, func(pos int64, b []byte) (int64, string) {
		t := txnEntry(pos, b)
		return t.lastOffset, s.wrongTxn(t)
	})
}

// index reports the first wrong entry of an index. One behind the end of a log that a
// crash has cut is a note.
func (s *segmentCheck) index(suffix string, size int, check func(pos int64, b []byte) (offset int64, wrong string)) {
	name := filepath.Join(s.dir, segment.FileName(s.base, suffix))
	wrongBefore := false
	rest, err := eachEntry(s.FS, name, size, func(pos int64, b []byte) error {
		offset, wrong := check(pos, b)
		beyond := offset >= s.next
		if wrong == "" || wrongBefore || beyond && s.tail.reason != "" { // the log's end is the problem
			return nil
		}
		wrongBefore = true
		p := Problem{File: name, Pos: pos, Reason: wrong}
		if s.mayBeTorn && beyond {
			s.note(p)
		} else {
			s.damage(p)
		}
		return nil
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		s.unreadable(name, err)
	case rest >= 0 && s.mayBeTorn:
		s.note(Problem{File: name, Pos: rest, Reason: leftOverReason(size)})
	case rest >= 0:
		s.damage(Problem{File: name, Pos: rest, Reason: leftOverReason(size)})
	}
}

// wrongOffset: an entry holds the last offset of a batch, and where to begin to look for
// what follows: at that batch, or before it where several were appended at once.
func (s *segmentCheck) wrongOffset(before *indexEntry, e indexEntry) string {
	if before != nil && (e.offset <= before.offset || e.logPos <= before.logPos) {
		return fmt.Sprintf("offset %d at position %d follows offset %d at %d", e.offset, e.logPos, before.offset, before.logPos)
	}
	i := sort.Search(len(s.batches), func(i int) bool { return s.batches[i].pos >= e.logPos })
	if i == len(s.batches) || s.batches[i].pos != e.logPos {
		return fmt.Sprintf("offset %d is said to be at position %d, where no batch begins", e.offset, e.logPos)
	}
	if s.opaque {
		return ""
	}
	j := s.batchOf(e.offset)
	if j < i || s.batches[j].last != e.offset {
		return fmt.Sprintf("position %d is said to lead to offset %d, but a batch with offsets %d to %d is there",
			e.logPos, e.offset, s.batches[i].base, s.batches[i].last)
	}
	return ""
}

// wrongTime: an entry holds the largest timestamp so far and an offset of the batch that
// has it.
func (s *segmentCheck) wrongTime(before *indexEntry, e indexEntry) string {
	if before != nil && (e.offset < before.offset || e.timestampMs < before.timestampMs) {
		return fmt.Sprintf("timestamp %d at offset %d follows %d at %d", e.timestampMs, e.offset, before.timestampMs, before.offset)
	}
	if s.opaque {
		return ""
	}
	i := s.batchOf(e.offset)
	switch {
	case i < 0:
		return fmt.Sprintf("timestamp %d is said to be at offset %d, which is in no batch", e.timestampMs, e.offset)
	case s.batches[i].maxTimestampMs != e.timestampMs:
		return fmt.Sprintf("timestamp %d is said to be at offset %d, whose batch has %d", e.timestampMs, e.offset, s.batches[i].maxTimestampMs)
	}
	return ""
}

func (s *segmentCheck) wrongTxn(t abortedTxn) string {
	switch producer, isAbort := s.aborts[t.lastOffset]; {
	case t.version != 0:
		return fmt.Sprintf("version %d is not known", t.version)
	case !isAbort:
		return fmt.Sprintf("producer %d is said to have aborted at offset %d, where no such marker is", t.producerID, t.lastOffset)
	case producer != t.producerID:
		return fmt.Sprintf("producer %d is said to have aborted at offset %d, where producer %d did", t.producerID, t.lastOffset, producer)
	case t.firstOffset > t.lastOffset:
		return fmt.Sprintf("the transaction begins at offset %d, behind its end at %d", t.firstOffset, t.lastOffset)
	}
	return ""
}

// batchOf finds the batch that holds an offset, -1 if none does.
func (s *segmentCheck) batchOf(offset int64) int {
	i := sort.Search(len(s.batches), func(i int) bool { return s.batches[i].last >= offset })
	if i == len(s.batches) || s.batches[i].base > offset {
		return -1
	}
	return i
}
