package batch

import (
	"fmt"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// Iterator walks the records of one batch in order. Over an uncompressed batch it does
// not allocate; a compressed one is decoded piece by piece with a decoder from Codecs.
//
//	it := batch.NewIterator(v, codecs)
//	defer it.Close()
//	for it.Next() {
//		use(&it.Record)
//	}
//	return it.Err()
//
// The batch must have passed Check. It ends with an error of kind
// kafkaerr.InvalidRecord when the records are not as many as the header says, or are
// not records; of kind kafkaerr.UnknownServerError when the compression cannot be
// undone (Kafka's answer to a producer); of kind kafkaerr.MessageTooLarge when the
// decoded bytes pass the limits of Codecs.
type Iterator struct {
	// Record is the current record after Next answered true.
	Record Record

	frame  frame
	buf    []byte  // what is left of an uncompressed payload
	stream *stream // a compressed one, else nil
	whole  bool    // records are wanted with key, value and headers
	limit  int     // of one compressed record's body, 0 for none
	index  int32
	count  int32
	err    error
}

// NewIterator starts a walk over v. Without codecs (nil) a compressed batch is an error.
func NewIterator(v View, codecs *Codecs) Iterator { return newIterator(v, codecs, true) }

// NewSkimmer starts a walk that may leave out keys, values and headers: those of
// compressed records larger than a window of some KiB are decoded, checked and dropped.
// HasKey and HasValue are always right.
func NewSkimmer(v View, codecs *Codecs) Iterator { return newIterator(v, codecs, false) }

func newIterator(v View, codecs *Codecs, whole bool) Iterator {
	it := Iterator{frame: frameOf(v), count: v.RecordCount(), whole: whole}
	switch {
	case it.count < 0:
		it.err = fmt.Errorf("batch claims %d records: %w", it.count, kafkaerr.InvalidRecord)
	case v.Codec() == None:
		it.buf = v.Records()
	case codecs == nil:
		it.err = fmt.Errorf("%v batch where none is expected: %w", v.Codec(), kafkaerr.UnknownServerError)
	case it.count > 0:
		it.stream = codecs.open(v.Codec(), v.Records())
	}
	return it
}

// Next reads the next record; false at the end or on an error.
func (it *Iterator) Next() bool {
	if it.index >= it.count || it.err != nil {
		return false
	}
	if err := it.read(); err != nil {
		it.err = fmt.Errorf("index %d of %d: %w", it.index, it.count, err)
		return false
	}
	it.index++
	if it.index == it.count {
		it.err = it.checkEnd()
	}
	return it.err == nil
}

func (it *Iterator) read() error {
	if it.stream != nil {
		return it.stream.record(&it.frame, &it.Record, it.whole, it.limit)
	}
	n, err := it.frame.parse(it.buf, &it.Record)
	it.buf = it.buf[n:]
	return err
}

// checkEnd reports bytes behind the last record, and damage that a codec notices only
// at its end.
func (it *Iterator) checkEnd() error {
	if it.stream == nil {
		if len(it.buf) > 0 {
			return it.surplus()
		}
		return nil
	}
	switch {
	case it.stream.atEnd():
		return nil
	case it.stream.pos < it.stream.end:
		return it.surplus()
	default:
		return it.stream.failure()
	}
}

func (it *Iterator) surplus() error {
	return fmt.Errorf("bytes follow the last of %d records: %w", it.count, kafkaerr.InvalidRecord)
}

// Index is the position of Record in the batch, from 0.
func (it *Iterator) Index() int32 { return it.index - 1 }

// Err is why the walk ended, nil if at the end.
func (it *Iterator) Err() error { return it.err }

// Close gives decoder and buffers back. It may be called twice.
func (it *Iterator) Close() {
	if it.stream != nil {
		it.stream.close()
		it.stream = nil
	}
}

// Iterate calls fn with each record of v in order until it returns an error, which
// Iterate then returns. See Iterator for the other errors.
func Iterate(v View, codecs *Codecs, fn func(Record) error) error {
	it := NewIterator(v, codecs)
	defer it.Close()
	for it.Next() {
		if err := fn(it.Record); err != nil {
			return err
		}
	}
	return it.Err()
}
