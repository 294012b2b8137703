package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/klamm-mq/klamm/internal/invariant"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// loadBufferBytes is how much of a partition is read at once (Kafka's
// offsets.load.buffer.size).
const loadBufferBytes = 5 << 20

// progressInterval is how often a long load says how far it has come.
const progressInterval = 10 * time.Second

// loader replays a partition into a shard.
type loader struct {
	log       Log
	partition Partition
	shard     Shard
	codecs    *batch.Codecs
	logger    *slog.Logger
	progress  func(loadReport)

	next   int64 // the next offset to read
	last   int64 // of the record that was replayed last
	report loadReport
	// open are the records of transactions that are not ended yet, by producer id.
	open map[int64][]Record
}

// loadReport is what a load has done.
type loadReport struct {
	Records, Bytes int64
	Unknown        int64 // records that the shard did not understand
	Offsets        Offsets
}

// run replays everything up to the log end. Records below the high watermark of the
// beginning are committed as they are replayed; the rest stays pending. Afterwards next is
// the log end.
func (l *loader) run(ctx context.Context) error {
	at, err := l.log.Offsets(l.partition)
	if err != nil {
		return fmt.Errorf("find the ends of partition %d: %w", l.partition.Index, err)
	}
	l.next, l.last, l.report.Offsets = at.Start, at.Start, at
	l.shard.Committed(max(at.HighWatermark, at.Start))
	buf := make([]byte, min(loadBufferBytes, max(at.End-at.Start, 1)*minBatchBytes))
	for ctx.Err() == nil {
		if at, err = l.log.Offsets(l.partition); err != nil {
			return fmt.Errorf("find the ends of partition %d: %w", l.partition.Index, err)
		}
		read, err := l.log.Read(l.partition, l.next, buf)
		if err != nil {
			return fmt.Errorf("read partition %d at %d: %w", l.partition.Index, l.next, err)
		}
		if len(read) > 0 {
			if err := l.replay(read); err != nil {
				return fmt.Errorf("load partition %d at %d: %w", l.partition.Index, l.next, err)
			}
			l.progress(l.report)
			continue
		}
		if done, err := l.finish(at.End); done || err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// minBatchBytes guesses the bytes of a record, so that short partitions get short buffers.
const minBatchBytes = 512

// finish ends the load when there was nothing left to read of a log that ended at end, unless
// somebody has written meanwhile. The last offsets may have no record: compaction by a broker
// of another kind, or a truncation among offsets that compaction has emptied, leaves such a
// log. What is appended comes behind them.
func (l *loader) finish(end int64) (done bool, err error) {
	if end < l.next {
		return false, fmt.Errorf("partition %d ends at %d, its last batch at %d", l.partition.Index, end, l.next)
	}
	if end > l.next {
		l.logger.Info("the last offsets have no records", "from", l.next, "to", end)
		l.next = end
	}
	at, err := l.log.Offsets(l.partition)
	if err != nil || at.End > l.next {
		return false, err
	}
	l.report.Offsets = at
	if len(l.open) > 0 {
		l.logger.Warn("records of transactions that were never ended are left out", "producers", len(l.open))
	}
	return true, nil
}

// replay takes in the whole batches of what was read.
func (l *loader) replay(read []byte) error {
	before := l.next
	for len(read) > 0 {
		v, rest, err := batch.Next(read)
		if err != nil && l.next > before {
			return nil // cut short: it comes again with the next read
		}
		if err != nil {
			return err
		}
		if err := v.Check(); err != nil {
			return err
		}
		if err := l.replayBatch(v); err != nil {
			return err
		}
		l.report.Bytes += int64(len(v))
		l.next, read = v.NextOffset(), rest
	}
	return nil
}

// replayBatch replays a batch, or sets it aside until its transaction ends.
func (l *loader) replayBatch(v batch.View) error {
	if v.IsControl() {
		return l.endTransaction(v)
	}
	it := batch.NewIterator(v, l.codecs)
	defer it.Close()
	for it.Next() {
		r := Record{Key: it.Record.Key, Value: it.Record.Value}
		switch {
		case it.Record.Offset < l.report.Offsets.Start:
		case v.IsTransactional():
			l.setAside(v.ProducerID(), r)
		default:
			l.replayRecord(min(it.Record.Offset, v.LastOffset()), r)
		}
	}
	return it.Err()
}

// replayRecord replays a record. Within a batch the offsets are its producer's, and an
// administrator may write what he likes: they must not fall for that.
func (l *loader) replayRecord(offset int64, r Record) {
	l.report.Records++
	offset = max(offset, l.last)
	l.last = offset
	if err := l.shard.Replay(offset, r); err != nil {
		if l.report.Unknown == 0 {
			l.logger.Warn("a record is not understood and left out, the first of maybe many", "offset", offset, "err", err)
		}
		l.report.Unknown++
	}
}

// setAside keeps a record of a transaction until its marker is found.
func (l *loader) setAside(producerID int64, r Record) {
	if l.open == nil {
		l.open = make(map[int64][]Record)
	}
	l.open[producerID] = append(l.open[producerID], Record{Key: cloneBytes(r.Key), Value: cloneBytes(r.Value)})
}

func cloneBytes(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}

// endTransaction replays the records of a transaction at the offset of its marker, if that
// says that it was committed.
func (l *loader) endTransaction(v batch.View) error {
	marker, ok, err := batch.EndTxnMarkerOf(v, l.codecs)
	if err != nil || !ok {
		return err
	}
	records := l.open[v.ProducerID()]
	delete(l.open, v.ProducerID())
	if marker.Type != batch.ControlCommit {
		return nil
	}
	for _, r := range records {
		l.replayRecord(v.BaseOffset(), r)
	}
	return nil
}

// core makes the core of the shard that was loaded.
func (l *loader) core(o coreOptions) *core {
	at := l.report.Offsets
	invariant.Check(at.HighWatermark <= at.End, "high watermark %d of partition %d is beyond its end %d", at.HighWatermark, l.partition.Index, at.End)
	c := newCore(l.shard, at.End, at.HighWatermark, o)
	l.shard.Committed(at.HighWatermark)
	return c
}

// leadershipLost tells whether a load failed because it is not this broker's any more.
func leadershipLost(err error) bool {
	return errors.Is(err, kafkaerr.NotLeaderOrFollower) || errors.Is(err, context.Canceled)
}
