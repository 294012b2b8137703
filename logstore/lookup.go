package logstore

import (
	"errors"
	"fmt"

	"github.com/klamm-mq/klamm/internal/invariant"
	"github.com/klamm-mq/klamm/logstore/segment"
)

// TimestampOffset is an answer to a look-up by time.
type TimestampOffset struct {
	TimestampMs int64
	Offset      int64
	LeaderEpoch int32 // -1 if unknown
}

// OffsetForTimestamp finds the first record, in the order of offsets, whose timestamp
// is at least tsMs; false if there is none (ListOffsets).
func (l *Log) OffsetForTimestamp(tsMs int64) (at TimestampOffset, found bool, err error) {
	err = l.lookUp(func(b bounds) error {
		at, found, err = b.offsetForTimestamp(tsMs)
		return err
	})
	return at, found, err
}

func (b *bounds) offsetForTimestamp(tsMs int64) (TimestampOffset, bool, error) {
	for _, s := range b.segs {
		largest, err := s.MaxTimestamp()
		if err != nil {
			return TimestampOffset{}, false, err
		}
		if largest.TimestampMs < tsMs {
			continue
		}
		t, found, err := s.OffsetForTimestamp(tsMs, b.start)
		if found || err != nil {
			return TimestampOffset(t), found, err
		}
	}
	return TimestampOffset{}, false, nil
}

// OffsetOfMaxTimestamp finds the first record that has the largest timestamp of the
// log (KIP-734); false if there is no record, or none of that timestamp where a batch says
// so (Segment.OffsetOfMaxTimestamp). Where none has a timestamp, the largest is -1, as in
// Kafka. A record that DeleteRecords has put below the log start counts for as
// long as its segment is there: UnifiedLog.fetchOffsetByTimestamp does not look at the log
// start here.
func (l *Log) OffsetOfMaxTimestamp() (at TimestampOffset, found bool, err error) {
	err = l.lookUp(func(b bounds) error {
		at, found, err = b.offsetOfMaxTimestamp()
		return err
	})
	return at, found, err
}

func (b *bounds) offsetOfMaxTimestamp() (TimestampOffset, bool, error) {
	in, largest := 0, int64(-1)
	for i, s := range b.segs {
		t, err := s.MaxTimestamp()
		if err != nil {
			return TimestampOffset{}, false, err
		}
		if t.TimestampMs > largest {
			in, largest = i, t.TimestampMs
		}
	}
	t, found, err := b.segs[in].OffsetOfMaxTimestamp(largest)
	return TimestampOffset(t), found, err
}

// lookUp lets fn look at the log, once more if retention, a truncation or a cleaning has taken a
// segment from under it.
func (l *Log) lookUp(fn func(b bounds) error) error {
	for {
		if err := l.usable(); err != nil {
			return err
		}
		b := l.bounds()
		err := fn(b)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, segment.ErrClosed) && !l.sameSegments(b):
			continue
		default:
			return l.readError("look into", err)
		}
	}
}

// EpochEnd is the largest known epoch not above the one asked for, and where it ends.
type EpochEnd struct {
	Epoch     int32
	EndOffset int64
}

// EndOffsetForEpoch answers OffsetsForLeaderEpoch (KIP-101, KIP-279); false if the
// epoch is newer than all that are known, or none is.
func (l *Log) EndOffsetForEpoch(epoch int32) (EpochEnd, bool) {
	found, end := l.epochs.EndOffsetFor(epoch, int64(l.LogEnd()))
	if end < 0 {
		return EpochEnd{}, false
	}
	return EpochEnd{Epoch: found, EndOffset: end}, true
}

// LatestEpoch is the newest leader epoch that wrote here, or that began at the end.
func (l *Log) LatestEpoch() (int32, bool) {
	e, ok := l.epochs.Latest()
	return e.Epoch, ok
}

// EpochForOffset is the leader epoch in which the record at an offset was written;
// false if the offset is older than all epochs known.
func (l *Log) EpochForOffset(o int64) (int32, bool) { return l.epochs.EpochForOffset(o) }

// AssignEpoch notes that a leader epoch begins at an offset, when this replica becomes
// leader and before anything is appended.
func (l *Log) AssignEpoch(epoch int32, startOffset int64) error {
	if err := l.usable(); err != nil {
		return err
	}
	l.writer.Lock()
	defer l.writer.Unlock()
	end := l.end()
	if startOffset > end {
		return fmt.Errorf("leader epoch %d of %s cannot begin at %d, the log ends at %d", epoch, l.id, startOffset, end)
	}
	invariant.Check(epoch >= 0, "leader epoch %d of %s", epoch, l.path)
	l.assignEpoch(epoch, startOffset)
	return nil
}
