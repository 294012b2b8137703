package cluster

import (
	"strings"

	"github.com/klamm-mq/klamm/broker/simtest/compacted"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// What clients were told, and rely on.

// acked notes what a producer was promised; not by one who did not know yet that another one
// was elected that may lack it.
func (j *judge) acked(p *producer, b *produced, a produceAnswer) {
	v := j.parts[p.part.id]
	for i := range b.count {
		if a.epoch < v.branch {
			v.lost[p.value(b.base+i)] = true
			continue
		}
		j.promise(p.part, a.offset+int64(i), p.value(b.base+i), "acknowledged")
	}
}

func (j *judge) promise(p *part, o int64, value, how string) {
	v := j.parts[p.id]
	if old, ok := v.promised[o]; ok && old != value {
		j.w.fail("AckedRecordsReadable", "offset %d of %s was promised as %s and is now %s as %s", o, p, old, how, value)
	}
	v.promised[o] = value
	v.shown = max(v.shown, o+1)
}

// acking looks at a batch that a leader is about to acknowledge with acks=all.
func (j *judge) acking(p *partition, end int64) {
	v := j.parts[p.id]
	if v == nil || !j.leadsNow(p) {
		return
	}
	j.held(p, v, end, "it acknowledges up to")
}

// refuse notes that a batch was refused before it was written, and given up.
func (j *judge) refuse(p *producer, b *produced) {
	v := j.parts[p.part.id]
	for i := range b.count {
		v.refused[p.value(b.base+i)] = true
	}
}

// read lets a consumer read from its position on, from any replica. What it saw it may rely
// on.
func (j *judge) read(p *partition, c *consumer, maxBytes int) {
	if p.Failure() != nil || p.log.Failure() != nil || p.epoch() < c.branch {
		return
	}
	v := j.parts[c.part.id]
	result, _ := p.ReadRecords(j.w.now, &replica.Reader{ReplicaID: replica.ConsumerReplicaID, AnyReplica: true}, &replica.FetchPartition{
		FetchOffset: c.position, CurrentLeaderEpoch: replica.NoEpoch, LastFetchedEpoch: c.epoch,
	}, maxBytes, true)
	if j.leadsNow(p) && v.counts(p) && p.log.Failure() == nil {
		j.leaderOf(p, c, &result)
	}
	if c.branch < v.branch && v.counts(p) && result.Err == nil && result.Diverging == nil {
		j.compare(p, c, v)
	}
	if start := int64(p.log.LogStart()); result.Err != nil && c.position < start && p.LeadsFollowers() {
		c.position, c.epoch = start, replica.NoEpoch // retention was faster
		clear(c.history)
	}
	if result.Err != nil || result.Records == nil {
		return // it asked a replica that is behind, say
	}
	for _, b := range j.views(p, result.Records) {
		if b.NextOffset() > result.HighWatermark {
			j.w.fail("OffsetOrder", "%s: a batch up to %d is shown below high watermark %d", c.part, b.NextOffset(), result.HighWatermark)
		}
		_ = batch.Iterate(b, j.w.codecs, func(r batch.Record) error {
			j.skip(p, c, r.Offset, b.LeaderEpoch())
			if r.Offset == c.position {
				j.saw(p, c, seen{compacted.Of(&r).ID, b.LeaderEpoch()})
			}
			return nil
		})
		j.skip(p, c, b.NextOffset(), b.LeaderEpoch())
	}
}

// skip brings a consumer to an offset, over those that cleaning has emptied.
func (j *judge) skip(p *partition, c *consumer, to int64, epoch int32) {
	v := j.parts[c.part.id]
	if to > c.position && !v.cleaned.MayMiss(c.position, to) && v.counts(p) {
		j.w.fail("AckedRecordsReadable", "%s: a consumer at %d is given record %d by broker %d", c.part, c.position, to, p.d.b.n.id)
	}
	for ; c.position < to; c.position++ {
		c.history[c.position] = seen{"", epoch}
		c.epoch = epoch
	}
}

// saw notes the record that a consumer has read.
func (j *judge) saw(p *partition, c *consumer, r seen) {
	if v := j.parts[c.part.id]; v.counts(p) {
		j.promise(c.part, c.position, r.value, "read")
	} else {
		c.branch = min(c.branch, p.judged.branch)
	}
	c.history[c.position] = r
	c.position, c.epoch = c.position+1, r.epoch
}

// leaderOf looks at what the one that leads by right tells a consumer: its log has what the
// consumer has read, and ends where anybody was told that it does, or it does not say.
func (j *judge) leaderOf(p *partition, c *consumer, read *replica.FetchResult) {
	if read.Diverging != nil && c.branch < j.parts[c.part.id].branch {
		c.cutTo(read.Diverging)
		return
	}
	if read.Diverging != nil {
		j.w.fail("ConsumersNeverDiverge", "%s: a consumer at %d, epoch %d, is told that epoch %d ends at %d",
			c.part, c.position, c.epoch, read.Diverging.Epoch, read.Diverging.EndOffset)
	}
	if c.epoch != replica.NoEpoch && c.branch == j.parts[c.part.id].branch {
		end, err := p.OffsetForLeaderEpoch(replica.NoEpoch, c.epoch)
		if err == nil && end.EndOffset >= 0 && end.EndOffset < c.position {
			j.w.fail("ConsumersNeverDiverge", "%s: a consumer at %d, epoch %d, asks where that ends, and hears of epoch %d and %d",
				c.part, c.position, c.epoch, end.Epoch, end.EndOffset)
		}
	}
	latest := p.ListOffsets(&replica.ListOffsetsRequest{Version: 9, ReplicaID: replica.ConsumerReplicaID},
		&replica.ListOffsetsPartition{CurrentLeaderEpoch: replica.NoEpoch, Timestamp: replica.LatestTimestamp})
	switch shown := j.parts[c.part.id].shown; {
	case kafkaerr.Code(latest.Err) == kafkaerr.OffsetNotAvailable.Code:
		j.w.report.NotAvailable++
	case latest.Err == nil && latest.Offset < shown:
		j.w.fail("LatestNeverFalls", "%s: offset %d was read or acknowledged, and the latest is said to be %d", c.part, shown-1, latest.Offset)
	}
}

// owned checks that a partition has its own records only, and none that was refused.
func (j *judge) owned(p *partition, v *verdicts, values map[int64]compacted.Record) {
	for o, r := range values {
		value := r.ID
		name, _, _ := strings.Cut(value, "-")
		if j.owners[name] != v.part {
			j.w.fail("OwnRecords", "%s has %s of %s at %d", v.part, value, j.owners[name], o)
		}
		if v.refused[value] {
			j.w.fail("RefusedNeverAppended", "%s has %s at %d, which was refused before it was written (log of broker %d)", v.part, value, o, p.d.b.n.id)
		}
	}
}
