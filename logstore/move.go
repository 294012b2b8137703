package logstore

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/klamm-mq/klamm/internal/invariant"
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/offset"
)

// Move takes a log that is in use to another directory of the same broker (Kafka's future
// replica). It has no goroutine; its methods are called one after the other.
//
//	BeginMove   an empty copy, named -future, or the one that an earlier run has left
//	Copy        appends a piece of what it lacks, and Flush syncs that; again and again
//	Settle      makes durable what has been copied, so that a start need not look at it
//	Finish      nobody changes the log any more: the rest, then the copy becomes the log
//	Cancel      throws the copy away
//	GiveUp      Finish comes too late: it throws the copy away; at any time
//
// The copy is a log that follows its original as a follower does its leader, by offset and
// leader epoch; only that the producers' state is taken over whole in the end, since it may
// know of batches that retention has deleted.
//
// What is copied takes no part in the group commits of the new directory, also when a segment ends:
// who waits for one would wait for all that has been copied since the last.
//
// # Crashes
//
// Until Finish the original is the log, and a start finds a copy to go on with. Finish goes
// through these states, each durable before the next:
//
//	        old directory           new directory
//	1       t-0                     t-0.….-future, whole, its marks in the checkpoints
//	2       t-0                     t-0            the same records
//	3       t-0.….-delete           t-0            the first append may come
//
// A start that finds 2 has two logs with the same records, takes either and removes the
// other before it leads. Whatever else may come to pass with disks, of two logs of one
// partition the one with the later epoch, then the one with the later end, has all that the
// other has (see Log.Outdoes).
//
// A Finish that was given up while a disk hung may be between 1 and 2 for as long as that
// lasts, and the original goes on: a start finds that it has more. Only if then its disk is not
// there, while the other one is back, would the copy pass for the log.
//
// The old directory's flushed offset stays in its checkpoint until ForgetMoved: as long as
// metadata may name that directory, nobody may begin an empty log there when the new one is
// not online (decision D19). If the log moves back before that, the copy takes over that duty:
// the offset goes when the copy has a durable name.
type Move struct {
	from, future *Log
	truncations  int64            // of from that the copy has followed
	swaps        int64            // of from when the copy began; -1 if an earlier run has begun it
	config       *Config          // of from that the copy has
	named        *segment.Segment // the newest of the copy's whose name is durable
	copied       piece
	fate         atomic.Int32
}

// piece is where the bytes that were copied last are in the original. It saves the search for
// the next ones, which would read behind what was asked for.
type piece struct {
	base        int64 // of the segment
	from, to    int64 // in its .log file
	next        int64 // offset that begins at to; 0: nothing is known
	asked       int64 // most bytes that it might have had
	cuts, swaps int64 // of the original when it was read
}

// fates of a Move.
const (
	undecided int32 = iota
	taken           // the copy has become the log
	givenUp         // and must not become it any more
)

// BeginMove begins to copy a log of another directory into d. The error is of kind
// InvalidTopic if the name of its topic is too long, else the storage's.
func (d *Dir) BeginMove(now time.Time, from *Log) (*Move, error) {
	d.noteTime(now)
	id, swaps := from.id, int64(-1)
	d.mu.Lock()
	future := d.futures[id.key()]
	d.mu.Unlock()
	if future == nil {
		var err error
		swaps = from.swapCount()
		if future, err = d.createFuture(from); err != nil {
			return nil, fmt.Errorf("move %s to %s: %w", id, d.o.Path, err)
		}
	}
	return &Move{from: from, future: future, truncations: -1, swaps: swaps}, nil
}

// From is the log that is moved, Future its copy.
func (m *Move) From() *Log { return m.from }

// Future is the copy in the making.
func (m *Move) Future() *Log { return m.future }

// Lag is how many offsets the copy is behind.
func (m *Move) Lag() int64 { return int64(m.from.LogEnd()) - int64(m.future.LogEnd()) }

// TailBytes is roughly how many bytes the copy lacks: as much as the original has behind the
// place where the copy ends.
func (m *Move) TailBytes() int {
	b := m.from.bounds()
	end := int64(m.future.LogEnd())
	if end >= b.end {
		return 0
	}
	if end < b.start {
		end = b.start
	}
	pos, known := m.placeOf(b, end)
	if !known {
		at, err := b.positionOf(end)
		if err != nil {
			return math.MaxInt32
		}
		pos = at.Pos
	}
	n := -pos
	for _, s := range b.segs[max(floor(b.segs, end), 0):] {
		n += s.Size()
	}
	return int(min(n, math.MaxInt32))
}

// placeOf is where an offset begins in the segment that would hold it, if the last piece has
// ended there and the original was not cut or cleaned since.
func (m *Move) placeOf(b bounds, offset int64) (pos int64, known bool) {
	p := &m.copied
	if p.next != offset || offset == 0 || p.cuts != m.from.truncationCount() || p.swaps != m.from.swapCount() {
		return 0, false
	}
	if s := b.segs[max(floor(b.segs, offset), 0)]; s.BaseOffset() != p.base {
		return 0, true // the last piece ended with a segment
	}
	return p.to, true
}

// errGap is a log that ends in records that were compacted away.
var errGap = errors.New("the log ends in a gap that its copy cannot have")

// Copy appends what the copy lacks, up to about maxBytes, and tells how much that was; nothing if
// it lacks nothing. It follows the original also where that has been truncated, has lost its
// beginning, or has another configuration. It asks the disk for what it reads, and no more.
func (m *Move) Copy(now time.Time, maxBytes int) (bytes int, err error) {
	if err := m.follow(now); err != nil {
		return 0, fmt.Errorf("copy %s: %w", m.from.id, err)
	}
	at, end := int64(m.future.LogEnd()), int64(m.from.LogEnd())
	if at >= end {
		invariant.Check(at == end || m.from.truncationCount() != m.truncations, "the copy of %s ends at %d, the log at %d", m.from.path, at, end)
		return 0, nil
	}
	buffers := &m.future.dir.copyBuffers
	buf, _ := buffers.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	defer buffers.Put(buf)
	p := piece{asked: int64(maxBytes), cuts: m.truncations, swaps: m.from.swapCount()}
	records, err := m.read(&p, buf, at, end, maxBytes)
	switch {
	case errors.Is(err, kafkaerr.OffsetOutOfRange):
		return 0, nil // cut meanwhile, at either end: the next call follows
	case err != nil:
		return 0, fmt.Errorf("copy %s: %w", m.from.id, err)
	case len(records) == 0 && m.from.truncationCount() == m.truncations:
		return 0, fmt.Errorf("copy %s: %w", m.from.id, errGap)
	}
	info, err := m.future.AppendBehind(now, records, math.MaxInt32)
	if err != nil && m.from.truncationCount() == m.truncations {
		return 0, fmt.Errorf("copy %s: %w", m.from.id, err)
	}
	if info.AppendedBytes > 0 {
		p.to, p.next = p.from+int64(info.AppendedBytes), info.LastOffset+1
		m.copied = p
	}
	return info.AppendedBytes, nil
}

// read reads batches into buf, which grows as needed; the last one may be cut short.
func (m *Move) read(p *piece, buf *[]byte, from, upTo int64, maxBytes int) ([]byte, error) {
	info, err := m.from.Read(ReadParams{Offset: from, MaxBytes: maxBytes, UpTo: upTo, MinOne: true, Prefetch: true})
	if err != nil || info.Region == nil {
		return nil, err
	}
	defer info.Region.Release()
	p.base, p.from = info.Start.SegmentBase, info.Start.Pos
	n := info.Region.Len()
	if cap(*buf) < n {
		*buf = make([]byte, n)
	}
	*buf = (*buf)[:n]
	_, err = info.Region.ReadAt(*buf, 0)
	return *buf, err
}

// follow takes over what has changed of the original below the end of the copy.
func (m *Move) follow(now time.Time) error {
	if c := m.from.config.Load(); c != m.config {
		m.config = c
		m.future.UpdateConfig(c.ofCopy())
	}
	if n := m.from.truncationCount(); n != m.truncations {
		if err := m.followTruncation(); err != nil {
			return err
		}
		m.truncations = n
	}
	start := int64(m.from.LogStart())
	switch {
	case start > int64(m.future.LogEnd()):
		return m.future.TruncateFullyAndStartAt(start)
	case start > int64(m.future.LogStart()):
		if err := m.future.AdvanceLogStart(start); err != nil {
			return err
		}
		_, err := m.future.Retain(now, m.future.hwOfCopy())
		return err
	}
	return nil
}

// followTruncation cuts off what the original has lost, or has in another leader epoch now
// (KIP-101).
func (m *Move) followTruncation() error {
	for {
		end := int64(m.future.LogEnd())
		if end == int64(m.future.LogStart()) {
			return nil
		}
		to, err := m.agreed(end)
		if err != nil || to >= end {
			return err
		}
		if to <= int64(m.future.LogStart()) {
			return m.future.TruncateFullyAndStartAt(int64(m.from.LogStart()))
		}
		if err := m.future.TruncateTo(to); err != nil {
			return err
		}
	}
}

// agreed is up to where the two may agree, as far as the epoch of the copy's last batch
// tells.
func (m *Move) agreed(end int64) (int64, error) {
	last, ok := m.future.EpochForOffset(end - 1)
	if !ok {
		return 0, nil
	}
	theirs, ok := m.from.EndOffsetForEpoch(last)
	if !ok {
		return 0, nil
	}
	if theirs.Epoch == last {
		return theirs.EndOffset, nil
	}
	ours, ok := m.future.EndOffsetForEpoch(theirs.Epoch)
	if !ok {
		return 0, nil
	}
	return min(ours.EndOffset, theirs.EndOffset), nil
}

// hwOfCopy bounds nothing: what the original has given up may go.
func (l *Log) hwOfCopy() offset.HighWatermark { return offset.HighWatermark(l.LogEnd()) }

// Flush makes durable what Copy has appended, beside the group commits, while the next piece is
// read. If forget, the system need not keep in memory what was copied, neither here nor where it
// comes from: nobody will soon read it, and it would push out what clients read. It blocks on the
// disk.
func (m *Move) Flush(forget bool) error {
	m.advise(forget)
	l := m.future
	segs := l.segments()
	newest := segs[len(segs)-1]
	err := l.flushAlone(func() error { return l.syncSegments(forget) }, newest != m.named)
	if err != nil {
		return fmt.Errorf("flush copy of %s: %w", l.id, err)
	}
	m.named = newest
	return nil
}

// advise tells the system what of the original is needed next, and if forget, what no more.
func (m *Move) advise(forget bool) {
	p := &m.copied
	if p.next == 0 {
		return
	}
	b := m.from.bounds()
	if pos, known := m.placeOf(b, p.next); known {
		b.segs[max(floor(b.segs, p.next), 0)].WillNeed(pos, p.asked)
	}
	if !forget {
		return
	}
	if i := floor(b.segs, p.base); i >= 0 && b.segs[i].BaseOffset() == p.base {
		b.segs[i].Forget(p.from-keptBehind, p.to-keptBehind)
	}
}

// keptBehind is of how many bytes in front of the next piece the system is not told to forget
// them: the search for it begins there.
const keptBehind = 64 << 10

// Settle makes durable what has been copied: then a start need not copy it again, and
// Finish has less to sync. It blocks on the disk.
func (m *Move) Settle(now time.Time) error {
	l := m.future
	if err := l.dir.captureRecoveryPoints(now, []*Log{l}); err != nil {
		return fmt.Errorf("settle copy of %s: %w", l.id, err)
	}
	if err := l.flushAlone(l.syncEverySegment, true); err != nil {
		return fmt.Errorf("settle copy of %s: %w", l.id, err)
	}
	l.settleRecoveryPoint()
	return nil
}

// flushAlone makes a log durable up to its end, without a round: what sync does makes its records
// so, and names says whether its files may be new. Nobody appends meanwhile.
func (l *Log) flushAlone(sync func() error, names bool) error {
	l.mu.RLock()
	end, truncations := l.marks.end, l.marks.truncations
	l.mu.RUnlock()
	err := sync()
	if err == nil && names {
		err = l.syncAsNew()
	}
	if err != nil {
		return l.syncError("flush", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := &l.marks; m.truncations == truncations && !l.closed {
		m.flushed, m.noted = max(m.flushed, end), max(m.noted, end)
		l.nameless = l.nameless && !names
	}
	return l.dir.Err() // a round may have been told of what was lost here
}

func (l *Log) syncEverySegment() error {
	for _, s := range l.segments() {
		if err := syncSegment(s); err != nil {
			return err
		}
	}
	return nil
}

// Cancel throws the copy away.
func (m *Move) Cancel(now time.Time) error { return m.future.dir.DeleteLogs(now, m.future) }
