package batch

import (
	"fmt"
	"io"
	"math"

	"github.com/klamm-mq/klamm/internal/invariant"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// NoDeleteHorizon stands for a batch without delete horizon, NoTimestamp for one of whose
// records nothing is known.
const (
	NoDeleteHorizon int64 = -1
	NoTimestamp           = noTimestamp
)

// DeleteHorizonMs is the time from which on the tombstones and markers of the batch may go
// (KIP-534). Ok is false if none has been set.
func (v View) DeleteHorizonMs() (ms int64, ok bool) { return v.BaseTimestamp(), v.HasDeleteHorizon() }

// Retainer writes what compaction leaves of batches. It keeps its buffers: a batch that it
// has written is valid until its next call. The zero value is ready. Not safe for concurrent
// use.
type Retainer struct {
	out             sink
	record, headers []byte
}

// Retain writes v anew with those of its records for which keep answers true when asked with
// their index, of which there must be one at least (MemoryRecords.buildRetainedRecordsInto).
// They have the offsets and timestamps that they had; codec, base and last offset, leader
// epoch, producer, base sequence and kind of timestamps are v's, and so is the maximum
// timestamp if it is the time of the append. A horizon other than NoDeleteHorizon becomes the
// batch's base timestamp, else that is the first record's. It reads the batch piece by piece;
// what is in memory is one record and the result. The error is that of Iterator or the codec.
func (w *Retainer) Retain(codecs *Codecs, v View, keep func(index int32) bool, deleteHorizonMs int64) (View, error) {
	w.begin(len(v))
	h := headerOf(v)
	h.Codec = v.Codec()
	h.deleteHorizon = deleteHorizonMs >= 0
	h.baseTimestamp = deleteHorizonMs
	if err := w.recode(codecs, v, keep, &h); err != nil {
		return nil, err
	}
	if w.out.over {
		return nil, fmt.Errorf("what is left of the batch at offset %d does not fit into one: %w", v.BaseOffset(), kafkaerr.MessageTooLarge)
	}
	invariant.Check(h.count > 0, "nothing to retain of the batch at offset %d", v.BaseOffset())
	if v.IsLogAppendTime() {
		h.maxTimestamp = v.MaxTimestamp()
	}
	out := View(w.out.buf)
	h.put(out)
	return out, nil
}

// Empty writes v without records (DefaultRecordBatch.writeEmptyHeader): a header that keeps
// its range of offsets, producer, sequence and epoch, with a maximum timestamp, v's in Kafka.
func (w *Retainer) Empty(v View, maxTimestampMs int64) View {
	w.begin(HeaderSize)
	h := headerOf(v)
	h.maxTimestamp = maxTimestampMs
	out := View(w.out.buf)
	h.put(out)
	return out
}

// begin makes room for a header, and for size bytes in all if there was none.
func (w *Retainer) begin(size int) {
	if cap(w.out.buf) < HeaderSize || cap(w.out.buf) > maxKeptBuffer {
		w.out.buf = make([]byte, HeaderSize, max(size, HeaderSize))
	}
	w.out = sink{buf: w.out.buf[:HeaderSize], limit: math.MaxInt32}
}

// headerOf is what v and what is left of it have in common.
func headerOf(v View) header {
	return header{
		BuilderOptions: BuilderOptions{
			BaseOffset:    v.BaseOffset(),
			LeaderEpoch:   v.LeaderEpoch(),
			Transactional: v.IsTransactional(),
			Control:       v.IsControl(),
			LogAppendTime: v.IsLogAppendTime(),
		},
		producer:      Producer{ID: v.ProducerID(), Epoch: v.ProducerEpoch(), BaseSequence: v.BaseSequence()},
		baseTimestamp: noTimestamp,
		maxTimestamp:  noTimestamp,
		lastDelta:     v.LastOffsetDelta(),
	}
}

// recode writes the records behind the header, and notes in h what becomes known of them.
func (w *Retainer) recode(codecs *Codecs, v View, keep func(int32) bool, h *header) error {
	if h.Codec == None {
		return w.copyRecords(codecs, v, keep, h, &w.out)
	}
	e, err := codecs.encoder(h.Codec, 0)
	if err != nil {
		return err
	}
	defer codecs.release(e)
	e.Reset(&w.out)
	if err := w.copyRecords(codecs, v, keep, h, e); err != nil {
		return err
	}
	return e.Close()
}

func (w *Retainer) copyRecords(codecs *Codecs, v View, keep func(int32) bool, h *header, to io.Writer) error {
	it := NewIterator(v, codecs)
	defer it.Close()
	for it.Next() {
		r := &it.Record
		if !keep(it.Index()) {
			continue
		}
		if h.count == 0 && !h.deleteHorizon {
			h.baseTimestamp = r.Timestamp
		}
		h.count++
		h.maxTimestamp = max(h.maxTimestamp, r.Timestamp)
		w.headers = r.Headers.appendTo(w.headers[:0])
		w.record = appendRecord(w.record[:0], &encoding{
			timestampDelta: r.Timestamp - h.baseTimestamp,
			offsetDelta:    r.OffsetDelta,
			key:            r.Key,
			value:          r.Value,
			headers:        Headers{raw: w.headers, n: r.Headers.n},
		})
		if _, err := to.Write(w.record); err != nil {
			return fmt.Errorf("write what is left of the batch at offset %d with %v: %w", v.BaseOffset(), h.Codec, err)
		}
	}
	return it.Err()
}
