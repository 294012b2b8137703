package batch

import (
	"encoding/binary"
	"fmt"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// ControlType is what a control record says.
type ControlType int16

// The control records of partitions; Kafka's metadata log has more.
const (
	ControlAbort  ControlType = 0
	ControlCommit ControlType = 1
)

// EndTxnMarker is the control record that ends a transaction on a partition.
//
//	key    version i16 = 0, type i16
//	value  version i16 = 0, coordinator epoch i32
type EndTxnMarker struct {
	Type             ControlType
	CoordinatorEpoch int32
}

// NewEndTxnMarker builds the control batch that ends the transaction of producer
// (id, epoch) at offset 0, with one record.
func NewEndTxnMarker(nowMs, producerID int64, producerEpoch int16, m EndTxnMarker) View {
	key := binary.BigEndian.AppendUint16(make([]byte, 2, 4), uint16(m.Type))
	value := binary.BigEndian.AppendUint32(make([]byte, 2, 6), uint32(m.CoordinatorEpoch))
	return New(BuilderOptions{
		Producer:      &Producer{ID: producerID, Epoch: producerEpoch, BaseSequence: -1},
		Transactional: true,
		Control:       true,
	}, NewRecord{TimestampMs: nowMs, Key: key, Value: value})
}

// ControlTypeOf reads the type out of a control record's key. Versions above 0 are read
// as version 0, as Kafka does.
func ControlTypeOf(key []byte) (ControlType, error) {
	if len(key) < 4 || int16(binary.BigEndian.Uint16(key)) < 0 {
		return 0, fmt.Errorf("control record with key %x: %w", key, kafkaerr.InvalidRecord)
	}
	return ControlType(binary.BigEndian.Uint16(key[2:])), nil
}

// EndTxnMarkerOf reads the marker out of a control batch. Ok is false if the batch's
// first record is of another type.
func EndTxnMarkerOf(v View, codecs *Codecs) (m EndTxnMarker, ok bool, err error) {
	it := NewIterator(v, codecs)
	defer it.Close()
	if !it.Next() {
		return m, false, it.Err()
	}
	if m.Type, err = ControlTypeOf(it.Record.Key); err != nil {
		return m, false, err
	}
	if m.Type != ControlAbort && m.Type != ControlCommit {
		return m, false, nil
	}
	value := it.Record.Value
	if len(value) < 6 || int16(binary.BigEndian.Uint16(value)) < 0 {
		return m, false, fmt.Errorf("end of transaction marker with value %x: %w", value, kafkaerr.InvalidRecord)
	}
	m.CoordinatorEpoch = int32(binary.BigEndian.Uint32(value[2:]))
	return m, true, nil
}
