package producerstate

import (
	"fmt"

	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// markerOf reads the only record of a control batch. ok is false if it ends no
// transaction: a batch without records, since the whole transaction was compacted away,
// or a control record of another type.
func markerOf(v batch.View) (m batch.EndTxnMarker, ok bool, err error) {
	if v.RecordCount() == 0 {
		return m, false, nil
	}
	if v.Codec() != batch.None {
		return m, false, fmt.Errorf("control batch at offset %d is compressed: %w", v.BaseOffset(), kafkaerr.InvalidRecord)
	}
	m, ok, err = batch.EndTxnMarkerOf(v, nil)
	if err != nil {
		return m, false, fmt.Errorf("control batch at offset %d: %w", v.BaseOffset(), err)
	}
	return m, ok, nil
}
