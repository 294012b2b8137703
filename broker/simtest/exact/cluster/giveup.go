package cluster

import (
	"errors"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// deliveryTimeout is how long an idempotent producer tries before it gives up: see giveUp.
const deliveryTimeout = 4 * requestTimeout

// giveUp is what a client does when delivery.timeout.ms has passed for the oldest batch that
// is not acknowledged. That one, and what was sent after it, may have been appended, and
// nobody will tell: if it were sent again with a sequence that nobody knows, it could stand in
// the log twice. So the batches are told as lost to whoever wanted them sent, a new epoch
// of the producer begins (KIP-360), and with it sequences from 0 on.
//
// In some runs that may have any reason while the faults last. Else, and when they have ended,
// it must have the one that no broker can help: see outOfOrder.
func (p *producer) giveUp() {
	if !p.idempotent || p.pending > 0 || len(p.unacked) == 0 {
		return
	}
	first := p.unacked[0]
	if first.attempts == 0 || p.w.now.Sub(first.since) < deliveryTimeout || !first.excused && (p.w.calm || !p.w.plan.impatient) {
		return
	}
	p.w.report.GivenUp++
	for len(p.unacked) > 0 && p.unacked[0].attempts > 0 {
		b := p.unacked[0]
		p.w.tracef("%s gives up its records %d to %d", p.name, b.base, b.base+b.count-1)
		p.unknown[b.base] = b.count
		p.unacked = p.unacked[1:]
		p.sequencesFrom = b.base + b.count
	}
	p.epoch++
}

// outOfOrder looks at a batch that a broker has just refused as out of order. If everything
// before it is acknowledged, its turn has come, whoever leads: unless it was appended and the
// answer was lost, and the log start has passed it since. A replica that begins at such a
// start knows of what came after the batch only; so does one that has fetched a log from which a
// cleaning had taken the batch: it leaves the last of each producer alone. Or what was sent before
// is lost by an unclean election. Kafka's clients meet the same.
func (p *producer) outOfOrder(at *partition, b *produced, err error) {
	if !errors.Is(err, kafkaerr.OutOfOrderSequenceNumber) || len(p.unacked) == 0 || p.unacked[0] != b {
		return
	}
	v := p.w.judge.parts[p.part.id]
	b.excused = b.appended && b.at < int64(at.log.LogStart()) || v != nil && v.lost[p.value(b.base-1)] ||
		b.appended && v != nil && v.cleaned.MayMiss(b.at, b.at+int64(b.count))
	if !b.excused && p.w.judge.leadsNow(at) {
		p.w.fail("SequencesContiguous", "%s: batch %d of %s is out of order, though everything before it is acknowledged: %v", p.name, b.base, p.part, err)
	}
}
