package coordinator

import (
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
)

// Record is one record of the shard's partition. Key and Value hold Kafka's schemas with
// their version in front; a nil Value is a tombstone.
type Record struct {
	Key, Value []byte
}

// Effects is what an operation wants. The zero value wants nothing.
//
// An operation that can be answered without regard to what is being written, such as one
// that is refused by a check of its arguments, may call its answer itself.
type Effects struct {
	// Records are written in one batch, with those of other operations, and replayed into
	// the shard before the next operation runs.
	Records []Record
	// Divisible lets Records be spread over several batches, each of which may fail by
	// itself. For clean-ups, which may be larger than a batch.
	Divisible bool

	// Answers are each called once, on the shard's goroutine: with nil when everything
	// that the shard has written so far, these records included, is committed, else with
	// what ended it, a kind that a coordinator may answer (see Answerable). They must not
	// block nor use the shard.
	Answers []func(err error)

	// Committed, if not nil, is called before Answers get nil. Its effects are carried out
	// as those of another operation.
	Committed func(now time.Time) Effects
	// Refused, if not nil, is called before Answers get an error, if Records could not be
	// written, or were but are not committed in time (err is then COORDINATOR_NOT_AVAILABLE
	// all the same; the records stay in the shard and may be committed later). Its effects
	// are carried out as those of another operation. Not called if the shard is unloaded.
	Refused func(now time.Time, err error) Effects
}

// Shard is the rules and the state of one shard. It has no goroutine, lock, clock or I/O.
// The runtime calls one method at a time.
type Shard interface {
	// Replay takes in a record: when the shard is loaded, and after each operation. At or
	// above the end that Committed was told it is pending. Key and Value must not be kept,
	// nor anything that aliases them. The error is for a record that is not understood: at
	// load the runtime counts and logs it and goes on, of an own record it is a defect.
	Replay(offset int64, r Record) error
	// Committed says that all records below end are committed, those that are still to be
	// replayed included. The end never falls.
	Committed(end int64)
	// Rollback says that the records at and above from were not written.
	Rollback(from int64)

	// OnImage tells of changed metadata. When the shard is loaded it is called before
	// Loaded, with a nil delta.
	OnImage(now time.Time, delta *metadata.Delta, image *metadata.Image) Effects
	// Loaded begins the life of the shard: its log is replayed.
	Loaded(now time.Time) Effects
	// NextDeadline is when Tick wants to be called. It is asked after every operation, so
	// it must be cheap.
	NextDeadline() (time.Time, bool)
	// Tick does what is due at now.
	Tick(now time.Time) Effects
	// Unload ends the shard: it answers everything that is parked in it with err. Answers
	// of Effects that it has returned are not its concern.
	Unload(err error)
}
