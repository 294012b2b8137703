package batch

import (
	"fmt"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// RecordErrors refuses a batch because of single records in it (KIP-467). Kafka answers
// Message and Records in the partition's ErrorMessage and RecordErrors for this type of
// error only; for every other one ErrorMessage is null.
type RecordErrors struct {
	// Kind is kafkaerr.InvalidTimestamp if any record was refused for its timestamp,
	// else kafkaerr.InvalidRecord.
	Kind    *kafkaerr.Kind
	Message string
	// Records are the refused records in order, the first MaxRecordErrors of them.
	Records []RecordError
	// Total is how many there were.
	Total int
}

// RecordError is one refused record.
type RecordError struct {
	Index   int32 // in the batch, from 0
	Message string
}

// MaxRecordErrors bounds the list in an answer; Kafka's is as long as the batch, which
// a few compressed bytes can make millions.
const MaxRecordErrors = 10_000

func (e *RecordErrors) Error() string { return e.Message }

// Unwrap gives the kind.
func (e *RecordErrors) Unwrap() error { return e.Kind }

// add notes one refused record. The text is made only while it will be answered.
func (e *RecordErrors) add(kind *kafkaerr.Kind, index int32, format string, args ...any) {
	e.Total++
	if e.Kind != kafkaerr.InvalidTimestamp {
		e.Kind = kind
	}
	if len(e.Records) < MaxRecordErrors {
		e.Records = append(e.Records, RecordError{Index: index, Message: fmt.Sprintf(format, args...)})
	}
}

// finish sets the message and returns the error as such.
func (e *RecordErrors) finish() error {
	if e.Kind == kafkaerr.InvalidTimestamp {
		e.Message = fmt.Sprintf("%d records refused, at least one for its timestamp", e.Total)
	} else {
		e.Message = fmt.Sprintf("%d records refused; the first: record %d: %s",
			e.Total, e.Records[0].Index, e.Records[0].Message)
	}
	return e
}
