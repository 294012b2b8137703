package logstore

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/klamm-mq/klamm/protocol/batch"
)

// AppendAsFollower appends what a leader has sent, as it is: whole batches whose CRC is
// right and whose offsets continue the log; gaps are lawful, since the leader may have
// compacted. Batches of a later epoch than leaderEpoch, and what follows them, are left
// out: their sender has lost its leadership (KAFKA-18723). A batch cut short at the end
// is ignored. An empty log whose start is in the middle of the first batch, as its leader's
// is, begins with that batch and keeps its start.
//
// The error is ErrUnexpectedOffset, of kind CorruptMessage, or the storage's as for
// AppendAsLeader. Batches before the one at fault may have been appended.
func (l *Log) AppendAsFollower(now time.Time, records []byte, leaderEpoch int32) (AppendInfo, error) {
	return l.appendAsFollower(now, records, leaderEpoch, l.dir.wantFlush)
}

// AppendBehind is AppendAsFollower for a replica that nobody waits for: if the append wants a
// flush, the caller has to call FlushAlone, and only then to wake the committer.
func (l *Log) AppendBehind(now time.Time, records []byte, leaderEpoch int32) (AppendInfo, error) {
	info, err := l.appendAsFollower(now, records, leaderEpoch, func(*Log) {})
	info.FlushAlone = info.FlushWanted
	return info, err
}

func (l *Log) appendAsFollower(now time.Time, records []byte, leaderEpoch int32, wantFlush func(*Log)) (info AppendInfo, err error) {
	info = AppendInfo{FirstOffset: -1, LastOffset: -1, LogAppendTimeMs: -1, MaxTimestampMs: -1}
	defer func() { // whatever ends it: what was appended wants its flush
		if info.FlushWanted {
			wantFlush(l)
		}
	}()
	if err := l.appendable(now); err != nil {
		return info, err
	}
	start := int64(l.LogStart())
	if base, ok := l.beginsBefore(records); ok {
		if err := l.TruncateFullyAndStartAt(base); err != nil {
			return info, err
		}
		if info, err = l.appendRuns(now, records, leaderEpoch); info.LastOffset < start {
			return info, err
		}
		return info, cmp.Or(err, l.AdvanceLogStart(start))
	}
	return l.appendRuns(now, records, leaderEpoch)
}

// beginsBefore tells where an empty log must begin to take in records whose first batch
// reaches over its start: the log start of the leader is in the middle of that batch
// (Kafka's UnexpectedAppendOffsetException).
func (l *Log) beginsBefore(records []byte) (base int64, ok bool) {
	start, end := int64(l.LogStart()), int64(l.LogEnd())
	if start != end || l.SizeBytes() > 0 {
		return 0, false
	}
	v, _, err := batch.Next(records)
	if err != nil || v.Check() != nil {
		return 0, false
	}
	return v.BaseOffset(), v.BaseOffset() < start && v.LastOffset() >= start
}

// appendRuns appends, run by run.
func (l *Log) appendRuns(now time.Time, records []byte, leaderEpoch int32) (info AppendInfo, err error) {
	info = AppendInfo{FirstOffset: -1, LastOffset: -1, LogAppendTimeMs: -1, MaxTimestampMs: -1}
	c := l.config.Load()
	l.writer.Lock()
	defer l.writer.Unlock()
	if err := l.ready(now); err != nil {
		return info, err
	}
	defer func() {
		if info.AppendedBytes > 0 {
			info.FlushWanted = l.appended(now, c, info.Rolled)
		}
	}()
	rules := runRules{next: l.end(), lastEpoch: l.lastEpoch(), leaderEpoch: leaderEpoch, segmentBytes: int(c.SegmentBytes)}
	for len(records) > 0 {
		r, rest, err := rules.nextRun(records)
		if err != nil {
			return info, fmt.Errorf("append to %s: %w", l.id, err)
		}
		if len(r.bytes) == 0 {
			break
		}
		rolled, err := l.append(now, c, r)
		if err != nil {
			return info, err
		}
		info.add(r, rolled)
		records = rest
	}
	return info, nil
}

func (i *AppendInfo) add(r run, rolled bool) {
	if i.FirstOffset < 0 {
		i.FirstOffset = r.first
	}
	i.LastOffset = r.last
	i.MaxTimestampMs = max(i.MaxTimestampMs, r.maxTimestampMs)
	i.RecordCount += r.records
	i.AppendedBytes += len(r.bytes)
	i.Rolled = i.Rolled || rolled
}

// run is a row of whole batches that go into one segment with one write.
type run struct {
	bytes          []byte
	first, last    int64
	maxTimestampMs int64
	records        int32
}

// runRules are what a follower demands of the next batch.
type runRules struct {
	next         int64 // least base offset
	lastEpoch    int32 // of the batch before; epochs never fall back
	leaderEpoch  int32 // no batch of a later one is wanted
	segmentBytes int
}

// nextRun takes batches off the front of records: as many as have good checksums,
// continue the log, and do not fill a segment. A batch at fault ends the run; it is
// reported when it comes first.
func (q *runRules) nextRun(records []byte) (r run, rest []byte, err error) {
	rest = records
	r = run{first: -1, maxTimestampMs: -1}
	for {
		v, after, err := batch.Next(rest)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return r, nil, nil
		}
		if err == nil {
			err = q.check(v)
		}
		switch {
		case err != nil && len(r.bytes) > 0:
			return r, rest, nil
		case err != nil:
			return r, rest, err
		case v.LeaderEpoch() > q.leaderEpoch:
			return r, nil, nil
		case len(r.bytes) > 0 && !q.fits(&r, v):
			return r, rest, nil
		}
		if r.first < 0 {
			r.first = v.BaseOffset()
		}
		r.last = v.LastOffset()
		r.maxTimestampMs = max(r.maxTimestampMs, v.MaxTimestamp())
		r.records += v.RecordCount()
		r.bytes = records[:len(r.bytes)+len(v)]
		q.next, q.lastEpoch = v.NextOffset(), max(q.lastEpoch, v.LeaderEpoch())
		rest = after
	}
}

func (q *runRules) check(v batch.View) error {
	if err := v.Check(); err != nil {
		return err
	}
	if v.BaseOffset() < q.next || v.LastOffset() < v.BaseOffset() {
		return fmt.Errorf("batch %d..%d, but the log ends at %d: %w", v.BaseOffset(), v.LastOffset(), q.next, ErrUnexpectedOffset)
	}
	if e := v.LeaderEpoch(); e >= 0 && e < q.lastEpoch {
		return fmt.Errorf("batch %d..%d of leader epoch %d after one of epoch %d: %w", v.BaseOffset(), v.LastOffset(), e, q.lastEpoch, ErrUnexpectedOffset)
	}
	return nil
}

// fits: one more batch goes into the same segment with the same write.
func (q *runRules) fits(r *run, v batch.View) bool {
	return len(r.bytes)+len(v) <= q.segmentBytes && v.LastOffset()-r.first <= math.MaxInt32
}

// lastEpoch is the leader epoch of the last batch, -1 if there is none. Recovery takes
// a batch of a lower epoch behind it for a leftover of a truncated past, so none may be
// appended. Callers hold writer.
func (l *Log) lastEpoch() int32 {
	e, ok := l.epochs.EpochForOffset(l.end() - 1)
	if !ok {
		return -1
	}
	return e
}
