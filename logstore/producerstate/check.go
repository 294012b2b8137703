package producerstate

import (
	"fmt"
	"math"

	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// Origin is who appends; it decides which checks apply (Kafka's AppendOrigin).
type Origin uint8

const (
	// OriginClient is a Produce request: everything is checked.
	OriginClient Origin = iota
	// OriginCoordinator is a coordinator's own append: epochs are checked, sequences
	// are not, since its batches have none.
	OriginCoordinator
	// OriginReplication is a follower, or recovery: nothing is refused.
	OriginReplication
)

// CheckParams say how strictly a batch is looked at.
type CheckParams struct {
	Origin Origin
	// TransactionVersion is the version that wrote an end marker: from 2 on its epoch
	// must be larger than the producer's (KIP-890). It matters for markers alone.
	TransactionVersion int16
	// NewMustStartAtZero refuses a producer that is not known here and does not begin
	// with sequence 0: a transactional append in verification state of transaction
	// version 2.
	NewMustStartAtZero bool
}

// Check decides whether a batch may follow what is known of its producer. It changes
// nothing; v carries the offsets that it would get. A batch without producer id always
// passes.
//
// dup is true if exactly this batch was appended before: nothing is to be written, and
// the answer is the original's offsets and timestamp. The kinds of error are
// OutOfOrderSequenceNumber, InvalidProducerEpoch, InvalidTxnState,
// TransactionCoordinatorFenced and, for a control batch that cannot be read,
// InvalidRecord.
func (m *Manager) Check(v batch.View, p CheckParams) (original BatchMeta, dup bool, err error) {
	if !v.HasProducerID() || p.Origin == OriginReplication {
		return BatchMeta{}, false, nil
	}
	known := m.producers[v.ProducerID()]
	if v.IsControl() {
		return BatchMeta{}, false, checkMarker(known, v, p)
	}
	if p.Origin == OriginClient && known != nil {
		if b, ok := known.duplicate(v.ProducerEpoch(), v.BaseSequence(), v.LastSequence()); ok {
			return b, true, nil
		}
	}
	return BatchMeta{}, false, checkData(known, v, p)
}

// checkData applies the rules of ProducerAppendInfo.appendDataBatch in its order.
func checkData(known *Producer, v batch.View, p CheckParams) error {
	if known != nil && v.ProducerEpoch() < known.Epoch {
		return staleEpoch(known, v, "smaller than")
	}
	if p.Origin == OriginClient {
		if err := checkSequence(known, v, p); err != nil {
			return err
		}
	}
	if known != nil && known.TxnFirstOffset != None && !v.IsTransactional() {
		return refuse(kafkaerr.InvalidTxnState, v, "a transaction is open since offset %d, but the batch is not transactional", known.TxnFirstOffset)
	}
	return nil
}

func checkSequence(known *Producer, v batch.View, p CheckParams) error {
	first := v.BaseSequence()
	empty := known == nil || known.numBatches == 0
	if p.NewMustStartAtZero && empty && first != 0 {
		return refuse(kafkaerr.OutOfOrderSequenceNumber, v, "sequence %d, expected 0 from a producer without state", first)
	}
	if known == nil || known.Epoch == None {
		return nil // whatever an unknown producer begins with
	}
	if v.ProducerEpoch() != known.Epoch {
		if first != 0 {
			return refuse(kafkaerr.OutOfOrderSequenceNumber, v, "sequence %d, expected 0 in a new epoch (was %d)", first, known.Epoch)
		}
		return nil
	}
	if last := known.LastSequence(); first != nextSequence(last) {
		return refuse(kafkaerr.OutOfOrderSequenceNumber, v, "sequence %d, expected %d", first, nextSequence(last))
	}
	return nil
}

// nextSequence is 0 after None, too: an epoch that began with a marker.
func nextSequence(last int32) int32 {
	if last == math.MaxInt32 {
		return 0
	}
	return last + 1
}

// checkMarker applies the rules of ProducerAppendInfo.appendEndTxnMarker.
func checkMarker(known *Producer, v batch.View, p CheckParams) error {
	marker, ok, err := markerOf(v)
	if err != nil || !ok || known == nil {
		return err
	}
	if err := checkMarkerEpoch(known, v, p.TransactionVersion); err != nil {
		return err
	}
	if known.CoordinatorEpoch > marker.CoordinatorEpoch {
		return refuse(kafkaerr.TransactionCoordinatorFenced, v, "coordinator epoch %d, already seen %d", marker.CoordinatorEpoch, known.CoordinatorEpoch)
	}
	return nil
}

// checkMarkerEpoch: up to version 1 a marker bears the epoch of its transaction's
// records, from 2 on a larger one. Then an equal epoch is a repetition of a marker
// that was written (KAFKA-19999), which is harmless while no transaction is open; and
// an epoch at its maximum cannot be bumped.
func checkMarkerEpoch(known *Producer, v batch.View, transactionVersion int16) error {
	epoch := v.ProducerEpoch()
	switch {
	case epoch > known.Epoch, epoch == known.Epoch && transactionVersion < 2:
		return nil
	case epoch < known.Epoch:
		return staleEpoch(known, v, "smaller than")
	case known.TxnFirstOffset == None, epoch == math.MaxInt16:
		return nil
	default:
		return staleEpoch(known, v, "not larger than")
	}
}

func staleEpoch(known *Producer, v batch.View, how string) error {
	return refuse(kafkaerr.InvalidProducerEpoch, v, "epoch %d is %s %d, the last seen", v.ProducerEpoch(), how, known.Epoch)
}

func refuse(kind *kafkaerr.Kind, v batch.View, format string, args ...any) error {
	return fmt.Errorf("producer %d epoch %d at offset %d: %s: %w",
		v.ProducerID(), v.ProducerEpoch(), v.BaseOffset(), fmt.Sprintf(format, args...), kind)
}
