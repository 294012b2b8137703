package producerstate

import "github.com/klamm-mq/klamm/protocol/batch"

// batchesKept is how many batches of a producer are remembered: as many as a producer
// may have in flight (Kafka's ProducerStateEntry.NUM_BATCHES_TO_RETAIN).
const batchesKept = 5

// None is the "no value" of epochs, sequences, offsets and timestamps.
const None = -1

// BatchMeta is what is remembered of one batch.
type BatchMeta struct {
	LastOffset   int64
	TimestampMs  int64 // the batch's max timestamp
	LastSequence int32
	OffsetDelta  int32 // last offset - first offset
}

// FirstOffset is the offset that the batch's first record got.
func (b BatchMeta) FirstOffset() int64 { return b.LastOffset - int64(b.OffsetDelta) }

// FirstSequence is the sequence number of the batch's first record.
func (b BatchMeta) FirstSequence() int32 {
	return batch.IncrementSequence(b.LastSequence, -b.OffsetDelta)
}

// Producer is the state of one producer id on this partition (Kafka's
// ProducerStateEntry).
type Producer struct {
	ID               int64
	LastTimestampMs  int64 // None if nothing with a timestamp was seen
	TxnFirstOffset   int64 // first offset of the open transaction, None if none is
	CoordinatorEpoch int32 // of the last marker, None if none was seen
	Epoch            int16 // None if only known by name

	numBatches int8
	batches    [batchesKept]BatchMeta // oldest first
}

// Batches are the remembered batches, oldest first.
func (p *Producer) Batches() []BatchMeta { return p.batches[:p.numBatches] }

// Last is the newest remembered batch. There is none after a new epoch began with a
// marker.
func (p *Producer) Last() (BatchMeta, bool) {
	if p.numBatches == 0 {
		return BatchMeta{}, false
	}
	return p.batches[p.numBatches-1], true
}

// LastSequence is the sequence number of the last remembered record, or None.
func (p *Producer) LastSequence() int32 {
	if last, ok := p.Last(); ok {
		return last.LastSequence
	}
	return None
}

func (p *Producer) setEpoch(epoch int16) {
	if p.Epoch != epoch {
		p.Epoch = epoch
		p.numBatches = 0
	}
}

// addBatch takes in the producer's next batch. One that does not follow on from the last is
// the word of a leader whose log begins above what is remembered here: it knew nothing of the
// producer, and may have taken some of that a second time. What the log says counts from there
// on. Else replicas would expect different sequences of one producer, and what one of them
// has to take next would be out of order for another for ever, as in Kafka.
func (p *Producer) addBatch(b BatchMeta) {
	if last, ok := p.Last(); ok && b.FirstSequence() != nextSequence(last.LastSequence) {
		p.numBatches = 0
	}
	if p.numBatches == batchesKept {
		copy(p.batches[:], p.batches[1:])
		p.numBatches--
	}
	p.batches[p.numBatches] = b
	p.numBatches++
	p.LastTimestampMs = b.TimestampMs
}

// duplicate finds the remembered batch with exactly these sequence numbers.
func (p *Producer) duplicate(epoch int16, first, last int32) (BatchMeta, bool) {
	if p.Epoch != epoch {
		return BatchMeta{}, false
	}
	for _, b := range p.Batches() {
		if b.FirstSequence() == first && b.LastSequence == last {
			return b, true
		}
	}
	return BatchMeta{}, false
}

// expired: idle for the whole expiration time, and no transaction open.
func (p *Producer) expired(nowMs, expirationMs int64) bool {
	return p.TxnFirstOffset == None && nowMs-p.LastTimestampMs >= expirationMs
}
