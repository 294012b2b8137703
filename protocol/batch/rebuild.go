package batch

import (
	"fmt"
	"io"
	"math"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// rebuild writes the records anew with offsets 0, 1, 2 … and the topic's codec
// (LogValidator.buildRecordsAndAssignOffsets). It reads the batch a second time, so that
// memory holds one record and the compressed result, of which no more is made than
// max.message.bytes lets through.
func (w *walk) rebuild(codecs *Codecs) (View, error) {
	if err := w.checkRebuild(); err != nil {
		return nil, err
	}
	limit := math.MaxInt32
	if w.o.MaxMessageBytes > 0 {
		limit = max(w.o.MaxMessageBytes, HeaderSize)
	}
	h := w.rebuiltHeader()
	out := &sink{buf: make([]byte, HeaderSize, HeaderSize+len(w.v)), limit: limit}
	if err := w.recode(codecs, &h, out); err != nil {
		return nil, err
	}
	if out.over {
		return nil, fmt.Errorf("record batch, rebuilt with %v, is above max.message.bytes %d: %w",
			h.Codec, w.o.MaxMessageBytes, kafkaerr.MessageTooLarge)
	}
	v := View(out.buf)
	h.put(v)
	return v, nil
}

// checkRebuild refuses what Kafka's MemoryRecordsBuilder refuses to write, although the
// same batch may stay in place. Kafka answers these with UNKNOWN_SERVER_ERROR.
func (w *walk) checkRebuild() error {
	v := w.v
	switch {
	case w.minTimestamp < noTimestamp:
		return cannotRebuild("timestamp %d", w.minTimestamp)
	case v.IsTransactional() && v.ProducerID() == noProducer.ID:
		return cannotRebuild("a transaction without producer id")
	case v.ProducerID() == noProducer.ID:
		return nil
	case v.ProducerEpoch() == noProducer.Epoch:
		return cannotRebuild("producer %d without epoch", v.ProducerID())
	case v.BaseSequence() < 0 && !v.IsControl():
		return cannotRebuild("producer %d with base sequence %d", v.ProducerID(), v.BaseSequence())
	}
	return nil
}

func cannotRebuild(format string, args ...any) error {
	return fmt.Errorf("cannot rebuild a record batch with %s: %w", fmt.Sprintf(format, args...), kafkaerr.UnknownServerError)
}

// rebuiltHeader is the header of the new batch but for the base timestamp, which is the
// first record's. Attributes that clients have no business to set are gone.
func (w *walk) rebuiltHeader() header {
	v := w.v
	return header{
		BuilderOptions: BuilderOptions{
			BaseOffset:    v.BaseOffset(),
			LeaderEpoch:   v.LeaderEpoch(),
			Codec:         w.o.target(v),
			Level:         w.o.Compression.Level,
			Transactional: v.IsTransactional(),
			LogAppendTime: w.o.LogAppendTime,
		},
		producer:     Producer{ID: v.ProducerID(), Epoch: v.ProducerEpoch(), BaseSequence: v.BaseSequence()},
		maxTimestamp: w.maxTimestamp,
		lastDelta:    v.RecordCount() - 1,
		count:        v.RecordCount(),
	}
}

// recode copies the records into out through the new codec's encoder. It stops when out
// is full.
func (w *walk) recode(codecs *Codecs, h *header, out *sink) error {
	if h.Codec == None {
		return w.copyRecords(codecs, h, out, out)
	}
	e, err := codecs.encoder(h.Codec, h.Level)
	if err != nil {
		return err
	}
	defer codecs.release(e)
	e.Reset(out)
	if err := w.copyRecords(codecs, h, out, e); err != nil {
		return err
	}
	return e.Close()
}

func (w *walk) copyRecords(codecs *Codecs, h *header, out *sink, to io.Writer) error {
	it := NewIterator(w.v, codecs)
	defer it.Close()
	var buf, headers []byte
	for !out.over && it.Next() {
		r := &it.Record
		if it.Index() == 0 {
			h.baseTimestamp = r.Timestamp
		}
		headers = r.Headers.appendTo(headers[:0])
		buf = appendRecord(buf[:0], &encoding{
			timestampDelta: r.Timestamp - h.baseTimestamp,
			offsetDelta:    it.Index(),
			key:            r.Key,
			value:          r.Value,
			headers:        Headers{raw: headers, n: r.Headers.n},
		})
		if _, err := to.Write(buf); err != nil {
			return fmt.Errorf("compress with %v: %w", h.Codec, err)
		}
	}
	return it.Err()
}
