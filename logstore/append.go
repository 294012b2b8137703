package logstore

import (
	"fmt"
	"time"

	"github.com/klamm-mq/klamm/internal/invariant"
	"github.com/klamm-mq/klamm/logstore/producerstate"
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// Origin is who appends as leader; it decides which checks apply (Kafka's AppendOrigin).
type Origin int8

const (
	OriginClient Origin = iota
	OriginCoordinator
)

// AppendParams is one produced batch.
type AppendParams struct {
	Now time.Time
	// Records is the records field of a Produce request: one whole batch. It is patched
	// in place (base offset, leader epoch, and what validation corrects) and not kept.
	Records        []byte
	LeaderEpoch    int32
	Origin         Origin
	RequestVersion int16 // of Produce; some rules depend on it
}

// AppendInfo tells what an append did.
type AppendInfo struct {
	FirstOffset, LastOffset int64
	LogAppendTimeMs         int64 // -1 unless the topic stamps; of a duplicate, the original's timestamp
	MaxTimestampMs          int64
	RecordCount             int32
	Duplicate               bool // nothing was written: the offsets are the original's
	Rolled                  bool
	FlushWanted             bool // the committer should be woken
	FlushAlone              bool // if so, after FlushAlone
	AppendedBytes           int
}

// AppendAsLeader validates a batch, gives it the next offsets and the leader's epoch,
// and writes it with one write. A batch that its producer has sent before appends
// nothing and answers what the original got.
//
// The error is batch.Validate's (*batch.RecordErrors or a kind), a kind of the
// producer's state (OutOfOrderSequenceNumber, InvalidProducerEpoch, InvalidTxnState),
// or the storage's: ErrDirFull, ErrDirOffline, a *CorruptionError, all of kind
// KafkaStorageError. After an error nothing was appended.
func (l *Log) AppendAsLeader(p AppendParams) (AppendInfo, error) {
	if err := l.appendable(p.Now); err != nil {
		return AppendInfo{}, err
	}
	c := l.config.Load()
	val, err := batch.Validate(l.dir.o.Codecs, p.Records, c.validateOptions(&p))
	if err != nil {
		return AppendInfo{}, fmt.Errorf("append to %s: %w", l.id, err)
	}
	l.writer.Lock()
	defer l.writer.Unlock()
	if err := l.ready(p.Now); err != nil {
		return AppendInfo{}, err
	}
	v := val.Batch
	if last := l.lastEpoch(); p.LeaderEpoch < last {
		return AppendInfo{}, fmt.Errorf("append to %s in leader epoch %d after one of epoch %d: %w", l.id, p.LeaderEpoch, last, kafkaerr.FencedLeaderEpoch)
	}
	v.SetBaseOffset(l.end())
	v.SetLeaderEpoch(p.LeaderEpoch)
	original, dup, err := l.producers.Check(v, producerstate.CheckParams{Origin: p.Origin.forProducers()})
	if err != nil {
		return AppendInfo{}, fmt.Errorf("append to %s: %w", l.id, err)
	}
	if dup {
		return duplicateInfo(original), nil
	}
	info := AppendInfo{
		FirstOffset: v.BaseOffset(), LastOffset: v.LastOffset(), LogAppendTimeMs: -1,
		MaxTimestampMs: val.MaxTimestampMs, RecordCount: val.RecordCount, AppendedBytes: len(v),
	}
	if c.LogAppendTime {
		info.LogAppendTimeMs = p.Now.UnixMilli()
	}
	info.Rolled, err = l.append(p.Now, c, run{bytes: v, first: v.BaseOffset(), last: v.LastOffset(), maxTimestampMs: val.MaxTimestampMs})
	if err != nil {
		return AppendInfo{}, err
	}
	if info.FlushWanted = l.appended(p.Now, c, info.Rolled); info.FlushWanted {
		l.dir.wantFlush(l)
	}
	return info, nil
}

func (o Origin) forProducers() producerstate.Origin {
	if o == OriginCoordinator {
		return producerstate.OriginCoordinator
	}
	return producerstate.OriginClient
}

func (c *Config) validateOptions(p *AppendParams) batch.ValidateOptions {
	return batch.ValidateOptions{
		NowMs:           p.Now.UnixMilli(),
		LogAppendTime:   c.LogAppendTime,
		Compression:     c.Compression,
		BeforeMaxMs:     c.TimestampBeforeMs,
		AfterMaxMs:      c.TimestampAfterMs,
		Compacted:       c.Compact,
		MaxMessageBytes: int(c.MaxMessageBytes),
		SegmentBytes:    int(c.SegmentBytes),
		MaxRecordBytes:  int(c.MaxRecordBytes),
		RequestVersion:  p.RequestVersion,
		Coordinator:     p.Origin == OriginCoordinator,
	}
}

// duplicateInfo answers with the original. Its append time is the original's max
// timestamp whatever the topic's timestamp type, as in Kafka.
func duplicateInfo(b producerstate.BatchMeta) AppendInfo {
	return AppendInfo{
		FirstOffset: b.FirstOffset(), LastOffset: b.LastOffset, LogAppendTimeMs: b.TimestampMs,
		MaxTimestampMs: b.TimestampMs, RecordCount: b.OffsetDelta + 1, Duplicate: true,
	}
}

// appendable is nil if an append may be tried.
func (l *Log) appendable(now time.Time) error {
	l.dir.noteTime(now)
	if err := l.usable(); err != nil {
		return err
	}
	if l.dir.Full() {
		return ErrDirFull
	}
	return nil
}

// end is the log end. Callers hold writer.
func (l *Log) end() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.marks.end
}

// append rolls if need be, writes one run and takes it into epochs and producer state.
// Callers hold writer and have called ready.
func (l *Log) append(now time.Time, c *Config, r run) (rolled bool, err error) {
	rolled, err = l.maybeRoll(now, c, r)
	if err != nil {
		return rolled, err
	}
	seg := l.active()
	l.writeAhead(now, c, seg, len(r.bytes))
	if err := seg.Append(now, r.bytes); err != nil {
		return rolled, l.ioError("append to", err)
	}
	endPos := seg.Size()
	l.mu.Lock()
	if l.marks.end == l.marks.flushed {
		l.marks.unflushedSinceMs = now.UnixMilli()
	}
	l.marks.end, l.marks.endPos = r.last+1, endPos
	l.recovery.noteAppended(now, len(r.bytes))
	l.mu.Unlock()
	l.dir.noteAppended(len(r.bytes))
	return rolled, l.takeIn(seg, r.bytes)
}

// takeIn updates leader epochs, producers and the transaction index from batches that
// were written.
func (l *Log) takeIn(seg *segment.Segment, records []byte) error {
	for len(records) > 0 {
		v, rest, err := batch.Next(records)
		invariant.Check(err == nil, "a batch that was appended to %s cannot be read: %v", l.path, err)
		records = rest
		l.assignEpoch(v.LeaderEpoch(), v.BaseOffset())
		done, ended := l.updateProducers(v)
		if !ended || !done.Aborted {
			continue
		}
		if err := seg.AppendAbortedTxn(abortedTxn(done)); err != nil {
			// The marker is in the log, its entry is not: only recovery can mend that.
			l.fail(fmt.Errorf("index aborted transaction of %s: %w: %w", l.id, kafkaerr.KafkaStorageError, err))
			return l.ioError("index aborted transaction of", err)
		}
	}
	l.noteProducers()
	return nil
}

// updateProducers takes one batch of the log into the producers' state. A control batch
// that cannot be read says nothing about them.
func (l *Log) updateProducers(v batch.View) (done producerstate.CompletedTxn, ended bool) {
	done, ended, err := l.producers.Update(v)
	if err != nil {
		l.dir.o.Logger.Warn("control batch cannot be read", "log", l.path, "offset", v.BaseOffset(), "err", err)
		l.producers.SetEndOffset(v.NextOffset())
	}
	return done, ended
}

func abortedTxn(done producerstate.CompletedTxn) segment.AbortedTxn {
	return segment.AbortedTxn{
		ProducerID: done.ProducerID, FirstOffset: done.FirstOffset,
		LastOffset: done.LastOffset, LastStableOffset: done.LastStableOffset,
	}
}

// assignEpoch notes an epoch that is newer than all before.
func (l *Log) assignEpoch(epoch int32, startOffset int64) {
	if latest, ok := l.epochs.Latest(); epoch >= 0 && (!ok || epoch > latest.Epoch) {
		l.epochs.Assign(epoch, startOffset)
	}
}

// appended puts the log on the keeper's list, and decides whether the new bytes make a flush
// due, so that the log has to get on the committer's. With durability=fsync every append does; with
// replicated, Kafka's flush.messages, a roll, and a first segment of which a good part is
// full: it may not roll before its name is synced (see isNameless), so that is done before
// it has to.
func (l *Log) appended(now time.Time, c *Config, rolled bool) (flushWanted bool) {
	l.dir.noteMoved(l)
	l.mu.RLock()
	unflushed := l.marks.end - l.marks.flushed
	rollNears := l.nameless && l.marks.endPos >= int64(c.SegmentBytes)/4
	l.mu.RUnlock()
	return c.Durability == DurabilityFsync || rolled || rollNears || unflushed >= c.FlushMessages
}

// ready prepares the log for its first change since it was opened or created: it must have
// files, the active segment must end where the log does, and the producers' state must be in
// memory. Callers hold writer.
func (l *Log) ready(now time.Time) error {
	if err := l.usable(); err != nil {
		return err
	}
	if err := l.bear(); err != nil {
		return err
	}
	if !l.tailKnown {
		if err := l.checkTail(); err != nil {
			return err
		}
	}
	return l.loadProducers(now)
}

// checkTail makes up for a clean start's not reading anything: whoever cut or damaged
// the files since the clean stop is found out before something is appended behind.
func (l *Log) checkTail() error {
	seg, end := l.active(), l.end()
	next, err := seg.NextOffset()
	if err != nil {
		return l.readError("append to", err)
	}
	if next != end {
		err := &CorruptionError{
			File: seg.Path(), Pos: seg.Size(), Offset: min(next, end),
			Err: fmt.Errorf("the log was closed at offset %d, but its last segment ends at %d", end, next),
		}
		l.fail(err)
		return err
	}
	l.tailKnown = true
	return nil
}
