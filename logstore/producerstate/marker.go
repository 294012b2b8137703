package producerstate

import (
	"encoding/binary"
	"fmt"

	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// Types of control record that end a transaction (Kafka's ControlRecordType).
const (
	controlAbort  = 0
	controlCommit = 1
)

// marker is the record with which a transaction coordinator ends a transaction.
type marker struct {
	aborted          bool
	coordinatorEpoch int32
	timestampMs      int64
}

// parseMarker reads the only record of a control batch: key version i16, type i16;
// value version i16, coordinatorEpoch i32. ok is false for a batch without records:
// the whole transaction was compacted away.
func parseMarker(v batch.View) (m marker, ok bool, err error) {
	if v.RecordCount() == 0 {
		return marker{}, false, nil
	}
	if v.Codec() != batch.None {
		return marker{}, false, badMarker(v, "it is compressed")
	}
	it := batch.NewIterator(v, nil)
	defer it.Close()
	if !it.Next() {
		return marker{}, false, badMarker(v, it.Err())
	}
	key, value := it.Record.Key, it.Record.Value
	if len(key) < 4 || len(value) < 6 {
		return marker{}, false, badMarker(v, "its key or value is too short")
	}
	kind := binary.BigEndian.Uint16(key[2:])
	if kind != controlAbort && kind != controlCommit {
		return marker{}, false, badMarker(v, fmt.Sprintf("type %d does not end a transaction", kind))
	}
	return marker{
		aborted:          kind == controlAbort,
		coordinatorEpoch: int32(binary.BigEndian.Uint32(value[2:])),
		timestampMs:      it.Record.Timestamp,
	}, true, nil
}

func badMarker(v batch.View, why any) error {
	return fmt.Errorf("control batch at offset %d: %v: %w", v.BaseOffset(), why, kafkaerr.CorruptMessage)
}
