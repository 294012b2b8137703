package batch

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// ValidateOptions is what the partition's topic and the request say about a batch that
// is to be appended.
type ValidateOptions struct {
	// NowMs is the wall clock in milliseconds.
	NowMs int64
	// LogAppendTime is message.timestamp.type=LogAppendTime.
	LogAppendTime bool
	// Compression is compression.type with that codec's level.
	Compression Compression
	// BeforeMaxMs and AfterMaxMs are message.timestamp.{before,after}.max.ms.
	BeforeMaxMs, AfterMaxMs int64
	// Compacted is whether cleanup.policy has compact, so that every record needs a key.
	Compacted bool
	// MaxMessageBytes is max.message.bytes, SegmentBytes segment.bytes; 0 is no limit.
	MaxMessageBytes, SegmentBytes int
	// MaxRecordBytes is max.decompressed.message.bytes: how large the body of a compressed
	// record may be; 0 is no limit.
	MaxRecordBytes int
	// RequestVersion is the version of the Produce request.
	RequestVersion int16
	// Coordinator marks a batch made by this broker's coordinators rather than by a
	// client: it may hold control records and needs no base offset 0
	// (AppendOrigin.COORDINATOR).
	Coordinator bool
}

// Validated is a batch that may be appended once offset and leader epoch are set.
type Validated struct {
	// Batch is a piece of the bytes given, patched in place, or a new one.
	Batch View
	// Rebuilt says that Batch is a new one, with the topic's codec and offset deltas 0,
	// 1, 2 ….
	Rebuilt bool
	// MaxTimestampMs is the batch's largest timestamp, -1 if no record has one.
	MaxTimestampMs int64
	// OffsetOfMaxTimestamp is the first record's with that timestamp, relative to the
	// base offset; -1 if no record has one.
	OffsetOfMaxTimestamp int64
	RecordCount          int32
}

// Validate decides whether the records field of one partition in a Produce request may
// be appended, as Kafka does (ProduceRequest.validateRecords,
// UnifiedLog.analyzeAndValidateRecords, LogValidator), in that order of checks. It walks
// every record once, decoding piece by piece, and rebuilds the batch only if the topic
// wants another codec. Bytes behind the batch that are not a whole one are dropped.
//
// It differs from Kafka where Kafka stores what no consumer can read: a compressed
// record whose size field is wrong is refused (Kafka skips over it unless it recodes),
// and so is a batch whose decoded size passes the limits of Codecs.
//
// What it does not know are the producer's sequence numbers and transactions.
//
// The error is a *RecordErrors if single records are at fault; else of kind
//
//	InvalidRecord               not exactly one batch of magic 2, or a header or records that contradict themselves
//	CorruptMessage              damaged: CRC, length, unknown magic
//	UnsupportedCompressionType  zstd before Produce v7 (KIP-110)
//	MessageTooLarge             above max.message.bytes, as received or as rebuilt, or above the limits of Codecs
//	RecordListTooLarge          above segment.bytes
//	UnknownServerError          compression that can't be undone or is not assigned; a rebuild that can't be done
func Validate(codecs *Codecs, records []byte, o ValidateOptions) (Validated, error) {
	if !o.Coordinator {
		if err := ValidateRequest(o.RequestVersion, records); err != nil {
			return Validated{}, err
		}
	}
	v, err := soleBatch(records)
	if err != nil {
		return Validated{}, err
	}
	if err := o.checkBatch(v); err != nil {
		return Validated{}, err
	}
	if err := o.checkHeader(v); err != nil {
		return Validated{}, err
	}
	w := walk{o: o, v: v, inPlace: o.target(v) == v.Codec() || v.Codec() == None && v.IsControl()}
	if err := w.run(codecs); err != nil {
		return Validated{}, err
	}
	return w.finish(codecs)
}

// ValidateRequest applies the rules that Kafka applies to a partition's records before
// it looks whether the partition is led here (ProduceRequest.validateRecords): exactly
// one batch, of magic 2, and zstd only from version 7 on. Validate includes them.
//
// An error of kind UnknownServerError fails the whole request, not the partition: so it
// is in Kafka, where a codec that is not assigned is met here before version 7, and only
// by the append from then on.
func ValidateRequest(version int16, records []byte) error {
	first, rest, err := cut(records)
	switch {
	case err != nil:
		return err
	case first == nil:
		return fmt.Errorf("no whole record batch in %d bytes: %w", len(records), kafkaerr.InvalidRecord)
	case first[posMagic] != magic2:
		return fmt.Errorf("record batch of magic %d in a Produce request of version %d: %w",
			first[posMagic], version, kafkaerr.InvalidRecord)
	}
	if version < firstZstdVersion {
		if err := checkOldCodec(version, Codec(first[posAttributes+1]&codecMask)); err != nil {
			return err
		}
	}
	second, _, err := cut(rest)
	if err == nil && second != nil {
		err = fmt.Errorf("more than one record batch for one partition: %w", kafkaerr.InvalidRecord)
	}
	return err
}

// checkOldCodec is for versions that look at the codec so early: those before zstd.
func checkOldCodec(version int16, codec Codec) error {
	switch {
	case codec == Zstd:
		return fmt.Errorf("zstd in a Produce request of version %d: %w", version, kafkaerr.UnsupportedCompressionType)
	case codec > Zstd:
		return fmt.Errorf("codec %d is not assigned: %w", codec, kafkaerr.UnknownServerError)
	}
	return nil
}

// FirstIsTransactional looks at the flags of the first batch in a partition's records, of
// whatever magic. Kafka does so for every partition before it considers any of them
// (RequestUtils.hasTransactionalRecords): a first batch whose length or magic is
// impossible, an error of kind CorruptMessage, fails the whole request.
func FirstIsTransactional(records []byte) (bool, error) {
	first, _, err := cut(records)
	if err != nil || first == nil || first[posMagic] != magic2 {
		return false, err
	}
	return View(first).IsTransactional(), nil
}

const (
	// firstZstdVersion is the first version of Produce that may carry zstd (KIP-110).
	firstZstdVersion = 7
	// minLegacyLength is the smallest length field that a batch of any magic can have.
	minLegacyLength = 14
)

// cut takes the first batch of any magic off buf, as Kafka's ByteBufferLogInputStream
// does: nothing (nil) where no whole batch is left, an error of kind CorruptMessage
// where length or magic are impossible.
func cut(buf []byte) (b, rest []byte, err error) {
	if len(buf) < PrefixSize {
		return nil, buf, nil
	}
	length := int32(binary.BigEndian.Uint32(buf[posLength:]))
	if length < minLegacyLength {
		return nil, buf, fmt.Errorf("record batch length %d: %w", length, kafkaerr.CorruptMessage)
	}
	if len(buf) <= posMagic {
		return nil, buf, nil
	}
	if buf[posMagic] > magic2 {
		return nil, buf, badMagic(int8(buf[posMagic]))
	}
	if int64(length) > int64(len(buf)-PrefixSize) {
		return nil, buf, nil
	}
	return buf[:PrefixSize+int(length)], buf[PrefixSize+int(length):], nil
}

// soleBatch is the one batch in records; what follows it is dropped if it is not a
// batch.
func soleBatch(records []byte) (View, error) {
	b, rest, err := cut(records)
	if err != nil {
		return nil, err
	}
	if b == nil || b[posMagic] != magic2 {
		return nil, fmt.Errorf("no record batch of magic 2 in %d bytes: %w", len(records), kafkaerr.InvalidRecord)
	}
	switch second, _, err := cut(rest); {
	case err != nil:
		return nil, err
	case second != nil:
		return nil, fmt.Errorf("more than one record batch: %w", kafkaerr.InvalidRecord)
	}
	return View(b[:len(b):len(b)]), nil
}

// checkBatch looks at the batch as a whole.
func (o *ValidateOptions) checkBatch(v View) error {
	if !o.Coordinator && v.BaseOffset() != 0 {
		return fmt.Errorf("base offset %d of a produced batch is not 0: %w", v.BaseOffset(), kafkaerr.InvalidRecord)
	}
	if o.MaxMessageBytes > 0 && len(v) > o.MaxMessageBytes {
		return o.tooLarge(len(v))
	}
	if err := v.Check(); err != nil {
		return err
	}
	if v.Codec() > Zstd {
		return fmt.Errorf("compression type %d is not assigned: %w", v.Codec(), kafkaerr.UnknownServerError)
	}
	return nil
}

func (o *ValidateOptions) tooLarge(size int) error {
	return fmt.Errorf("record batch of %d bytes is above max.message.bytes %d: %w",
		size, o.MaxMessageBytes, kafkaerr.MessageTooLarge)
}

// checkHeader applies the rules for clients (LogValidator.validateBatch).
func (o *ValidateOptions) checkHeader(v View) error {
	if o.Coordinator {
		return nil
	}
	count, byOffsets := int64(v.RecordCount()), int64(v.LastOffsetDelta())+1
	switch {
	case byOffsets <= 0:
		return badHeader("last offset delta %d", v.LastOffsetDelta())
	case count <= 0:
		return badHeader("%d records", count)
	case count != byOffsets:
		return badHeader("%d records in a range of %d offsets", count, byOffsets)
	case v.IsControl():
		return badHeader("control records from a client")
	case v.HasProducerID() && v.BaseSequence() < 0:
		return badHeader("base sequence %d of producer %d", v.BaseSequence(), v.ProducerID())
	}
	return nil
}

func badHeader(format string, args ...any) error {
	return fmt.Errorf("record batch with %s: %w", fmt.Sprintf(format, args...), kafkaerr.InvalidRecord)
}

// target is the codec that the batch shall have in the log.
func (o *ValidateOptions) target(v View) Codec {
	if o.Compression.Recode {
		return o.Compression.Codec
	}
	return v.Codec()
}

// walk is one pass over the records of a batch, and what it found.
type walk struct {
	o ValidateOptions
	v View
	// inPlace is whether the batch stays as it is but for its header.
	inPlace bool
	// reordered is whether the offset deltas are not 0, 1, 2 …
	reordered bool
	// The first record with the largest timestamp: its timestamp, its offset delta as
	// sent and its place in the batch, which is its delta if the batch is rebuilt.
	maxTimestamp      int64
	deltaOfMax, ofMax int32
	minTimestamp      int64
	errs              *RecordErrors // nil while no record is refused
}

func (w *walk) run(codecs *Codecs) error {
	w.maxTimestamp, w.deltaOfMax, w.ofMax, w.minTimestamp = noTimestamp, -1, -1, math.MaxInt64
	it := NewSkimmer(w.v, codecs)
	it.limit = w.o.MaxRecordBytes
	defer it.Close()
	for it.Next() {
		r := &it.Record
		w.checkRecord(r, it.Index())
		w.minTimestamp = min(w.minTimestamp, r.Timestamp)
		if r.Timestamp > w.maxTimestamp {
			w.maxTimestamp, w.deltaOfMax, w.ofMax = r.Timestamp, r.OffsetDelta, it.Index()
		}
		if r.OffsetDelta != it.Index() {
			w.reordered = true
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	if w.errs != nil {
		return w.errs.finish()
	}
	return w.checkOrder()
}

// checkRecord applies the rules for single records (LogValidator.validateRecord).
func (w *walk) checkRecord(r *Record, index int32) {
	switch o := &w.o; {
	case o.Compacted && !r.HasKey:
		w.refuse(kafkaerr.InvalidRecord, index, "a record of a compacted topic needs a key")
	case !o.LogAppendTime && r.Timestamp != noTimestamp:
		if o.outOfRange(r.Timestamp) {
			w.refuse(kafkaerr.InvalidTimestamp, index, "timestamp %d is not within [%d, %d]",
				r.Timestamp, o.NowMs-o.BeforeMaxMs, o.NowMs+o.AfterMaxMs)
		}
	case w.v.IsLogAppendTime():
		w.refuse(kafkaerr.InvalidTimestamp, index, "a producer must not set the timestamp type LogAppendTime")
	}
}

func (w *walk) refuse(kind *kafkaerr.Kind, index int32, format string, args ...any) {
	if w.errs == nil {
		w.errs = new(RecordErrors)
	}
	w.errs.add(kind, index, format, args...)
}

// checkOrder refuses a compressed batch with offset deltas other than 0, 1, 2 … unless
// it is rebuilt anyway: LogValidator means to rebuild it, but has skipped keys and
// values by then and fails (UNKNOWN_SERVER_ERROR). Between uncompressed and
// uncompressed Kafka does not look at the deltas.
func (w *walk) checkOrder() error {
	if w.inPlace && w.reordered && w.v.Codec() != None {
		return fmt.Errorf("offsets within a compressed record batch are not consecutive: %w", kafkaerr.UnknownServerError)
	}
	return nil
}

// outOfRange compares with wrapping differences, as Kafka does.
func (o *ValidateOptions) outOfRange(ts int64) bool {
	diff := o.NowMs - ts
	return diff > o.BeforeMaxMs || -diff > o.AfterMaxMs
}

// finish patches the batch or rebuilds it, and checks the size it has then.
func (w *walk) finish(codecs *Codecs) (Validated, error) {
	if w.o.LogAppendTime {
		w.maxTimestamp, w.deltaOfMax, w.ofMax = w.o.NowMs, 0, 0
	}
	out := Validated{Batch: w.v, Rebuilt: !w.inPlace, OffsetOfMaxTimestamp: int64(w.deltaOfMax)}
	if w.inPlace {
		w.v.setMaxTimestamp(w.o.LogAppendTime, w.maxTimestamp)
	} else {
		var err error
		if out.Batch, err = w.rebuild(codecs); err != nil {
			return Validated{}, err
		}
		out.OffsetOfMaxTimestamp = int64(w.ofMax)
	}
	out.MaxTimestampMs = w.maxTimestamp
	out.RecordCount = out.Batch.RecordCount()
	if w.o.SegmentBytes > 0 && len(out.Batch) > w.o.SegmentBytes {
		return Validated{}, fmt.Errorf("record batch of %d bytes is above segment.bytes %d: %w",
			len(out.Batch), w.o.SegmentBytes, kafkaerr.RecordListTooLarge)
	}
	return out, nil
}

// knownBits are the attributes that survive when Kafka writes them anew.
const knownBits = codecMask | logAppendTimeBit | transactionalBit | controlBit | deleteHorizonBit

// setMaxTimestamp patches timestamp type and max timestamp, and the CRC only if they
// change.
func (v View) setMaxTimestamp(logAppendTime bool, maxTimestamp int64) {
	if v.IsLogAppendTime() == logAppendTime && v.MaxTimestamp() == maxTimestamp {
		return
	}
	a := v.Attributes() & (knownBits &^ logAppendTimeBit)
	if logAppendTime {
		a |= logAppendTimeBit
	}
	be := binary.BigEndian
	be.PutUint16(v[posAttributes:], uint16(a))
	be.PutUint64(v[posMaxTimestamp:], uint64(maxTimestamp))
	be.PutUint32(v[posCRC:], v.ComputeCRC())
}
