package logstore

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/wire"
)

// ReadParams asks for the batches from Offset on.
type ReadParams struct {
	Offset   int64
	MaxBytes int
	UpTo     int64 // exclusive bound: no batch that ends above it
	MinOne   bool  // the first batch comes whole even if larger than MaxBytes
	Whole    bool  // no batch but the first is cut short by MaxBytes, at the cost of a look at each
	Prefetch bool  // have all of it read from the disk at once, and no more (see vfs.WillNeed)
	Aborted  bool  // list the aborted transactions in what was read, for read_committed
	// SkipEmpty passes over batches without records before the first one that has some, if
	// there is one: see skipEmpty.
	SkipEmpty bool
}

// ReadInfo is what a read found. Region is nil if there is nothing to read; else the
// caller releases it.
type ReadInfo struct {
	Region wire.Region
	// Start is where the region begins; its Offset is the one asked for. Without a
	// region SegmentBase and Pos are -1.
	Start Position
	// FirstIncomplete says that MaxBytes cut the first batch short.
	FirstIncomplete bool
	Aborted         []AbortedTxn
}

// Position is an offset with the place of the batch that holds it (Kafka's
// LogOffsetMetadata).
type Position struct {
	Offset      int64
	SegmentBase int64
	Pos         int64 // in the segment's .log file
}

// AbortedTxn is one aborted transaction that touches a range that was read.
type AbortedTxn struct {
	ProducerID  int64
	FirstOffset int64
}

// bounds is one consistent look at the log.
type bounds struct {
	segs       []*segment.Segment
	start, end int64
	endPos     int64 // in the last of segs
}

func (l *Log) bounds() bounds {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return bounds{segs: l.segs, start: l.marks.start, end: l.marks.end, endPos: l.marks.endPos}
}

// Read returns a region of batches that begins with the one that holds p.Offset; the
// last batch may be cut short by MaxBytes, unless p.Whole. An offset at or above UpTo,
// but within the log, finds nothing. The error is of kind OffsetOutOfRange for an
// offset outside of [log start, log end], or the storage's.
func (l *Log) Read(p ReadParams) (ReadInfo, error) {
	for {
		if err := l.usable(); err != nil {
			return ReadInfo{}, err
		}
		b := l.bounds()
		if p.Offset < b.start || p.Offset > b.end {
			return ReadInfo{}, fmt.Errorf("read %s at offset %d, log is [%d, %d): %w",
				l.id, p.Offset, b.start, b.end, kafkaerr.OffsetOutOfRange)
		}
		info, err := l.read(b, p)
		if errors.Is(err, segment.ErrClosed) && !l.sameSegments(b) {
			continue // retention, a truncation or a cleaning took the segment: look again
		}
		if err != nil {
			return ReadInfo{}, l.readError("read", err)
		}
		return info, nil
	}
}

// sameSegments reports whether the log still has the segments it had.
func (l *Log) sameSegments(b bounds) bool {
	return slices.Equal(l.segments(), b.segs)
}

func (l *Log) read(b bounds, p ReadParams) (ReadInfo, error) {
	upTo := min(p.UpTo, b.end)
	nothing := ReadInfo{Start: Position{Offset: p.Offset, SegmentBase: -1, Pos: -1}}
	if p.Offset >= upTo {
		return nothing, nil
	}
	for i := max(floor(b.segs, p.Offset), 0); i < len(b.segs) && b.segs[i].BaseOffset() < upTo; i++ {
		maxPos, err := b.limit(i, upTo)
		if err != nil {
			return ReadInfo{}, err
		}
		r, err := b.segs[i].Read(segment.ReadParams{
			Offset: p.Offset, MaxPos: maxPos, MaxBytes: p.MaxBytes, MinOne: p.MinOne, Whole: p.Whole, Prefetch: p.Prefetch, OnReadError: l.onRegionError,
		})
		if err != nil {
			return ReadInfo{}, err
		}
		if !r.Found {
			continue // its last records were compacted away, or it is empty
		}
		if r.Region == nil {
			return nothing, nil
		}
		if p.SkipEmpty && r.First.Size == batch.HeaderSize {
			if info, found, err := l.skipEmpty(b, i, p); found || err != nil {
				r.Region.Release()
				return info, err
			}
		}
		info := ReadInfo{
			Region:          r.Region,
			Start:           Position{Offset: p.Offset, SegmentBase: b.segs[i].BaseOffset(), Pos: r.First.Pos},
			FirstIncomplete: r.FirstIncomplete,
		}
		if p.Aborted {
			info.Aborted, err = l.abortedIn(b, i, info, p.Offset)
		}
		if err != nil {
			r.Region.Release()
			return ReadInfo{}, err
		}
		return info, nil
	}
	return nothing, nil
}

// skipEmpty is read from the first batch with records on, from segment i. Cleaning keeps the
// last batch of a segment, if need be without records, where Kafka's cleaner keeps it only
// for a producer or below the high watermark. A client may never come past an answer that
// has nothing but such a batch: kafka-go asks for it for ever. found is false if no batch
// with records follows; then the reader has to take the empty ones, to come past them.
func (l *Log) skipEmpty(b bounds, i int, p ReadParams) (info ReadInfo, found bool, err error) {
	upTo := min(p.UpTo, b.end)
	next := int64(-1)
	for ; i < len(b.segs) && b.segs[i].BaseOffset() < upTo; i++ {
		err := b.segs[i].ForEachBatch(p.Offset, max(p.Offset, upTo), func(v batch.View, _ int64) error {
			if v.RecordCount() == 0 {
				return nil
			}
			if v.LastOffset() < upTo {
				next = v.BaseOffset()
			}
			return errFound
		})
		if errors.Is(err, errFound) {
			break
		}
		if err != nil {
			return ReadInfo{}, false, err
		}
	}
	if next < 0 {
		return ReadInfo{}, false, nil
	}
	asked := p.Offset
	p.Offset, p.SkipEmpty = next, false
	info, err = l.read(b, p)
	info.Start.Offset = asked
	return info, true, err
}

// errFound ends a walk.
var errFound = errors.New("found")

// limit is the position in segment i behind which a reader bounded by upTo must not
// read.
func (b *bounds) limit(i int, upTo int64) (int64, error) {
	seg, last := b.segs[i], i == len(b.segs)-1
	switch {
	case last && upTo == b.end:
		return b.endPos, nil
	case !last && upTo >= b.segs[i+1].BaseOffset():
		return seg.Size(), nil
	}
	at, found, err := seg.Lookup(upTo)
	switch {
	case err != nil:
		return 0, err
	case found:
		return at.Pos, nil
	case last:
		return b.endPos, nil
	default:
		return seg.Size(), nil
	}
}

// abortedIn lists the aborted transactions that touch a region of segment i.
func (l *Log) abortedIn(b bounds, i int, info ReadInfo, from int64) ([]AbortedTxn, error) {
	upTo, found, err := b.segs[i].UpperBoundOffset(info.Start.Pos, int64(info.Region.Len()))
	if err != nil {
		return nil, err
	}
	if !found {
		upTo = b.end
		if i+1 < len(b.segs) {
			upTo = b.segs[i+1].BaseOffset()
		}
	}
	return aborted(b.segs[i:], from, upTo)
}

func aborted(segs []*segment.Segment, from, upTo int64) ([]AbortedTxn, error) {
	var all []AbortedTxn
	for _, s := range segs {
		txns, complete, err := s.AbortedTxns(from, upTo)
		if err != nil {
			return nil, err
		}
		for _, t := range txns {
			all = append(all, AbortedTxn{ProducerID: t.ProducerID, FirstOffset: t.FirstOffset})
		}
		if complete {
			break
		}
	}
	return all, nil
}

// AbortedTransactions lists the aborted transactions that overlap [from, to).
func (l *Log) AbortedTransactions(from, to int64) ([]AbortedTxn, error) {
	var txns []AbortedTxn
	err := l.lookUp(func(b bounds) (err error) {
		txns, err = aborted(b.segs[max(floor(b.segs, from), 0):], from, to)
		return err
	})
	return txns, err
}

// PositionOf finds the batch that holds an offset, or the first one above it. The
// position of the log end is where the next batch will begin. The error is of kind
// OffsetOutOfRange for an offset outside of the log.
func (l *Log) PositionOf(o int64) (at Position, err error) {
	var outside error
	err = l.lookUp(func(b bounds) error {
		outside = nil
		if o < b.start || o > b.end {
			outside = fmt.Errorf("offset %d of %s, log is [%d, %d): %w", o, l.id, b.start, b.end, kafkaerr.OffsetOutOfRange)
			return nil
		}
		at, err = b.positionOf(o)
		return err
	})
	return at, cmp.Or(err, outside)
}

func (b *bounds) positionOf(o int64) (Position, error) {
	for i := max(floor(b.segs, o), 0); i < len(b.segs) && o < b.end; i++ {
		at, found, err := b.segs[i].Lookup(o)
		if err != nil {
			return Position{}, err
		}
		if found {
			return Position{Offset: o, SegmentBase: b.segs[i].BaseOffset(), Pos: at.Pos}, nil
		}
	}
	return Position{Offset: o, SegmentBase: b.segs[len(b.segs)-1].BaseOffset(), Pos: b.endPos}, nil
}
