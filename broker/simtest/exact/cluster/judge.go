package cluster

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/wire"
)

// The invariants, by the names of docs/testing.md:
//
//	OneLeaderPerEpoch       in one leader epoch of a partition one process leads, no other
//	HighWatermarkMonotonic  a replica's high watermark never falls while its process lives
//	ReplicasAgreeBelowHW    what lies below the high watermark of any replica at any time is
//	                        the same record, of the same leader epoch, for ever
//	ISRWithinAssignment     ISR and leader are replicas; the leader is in the ISR
//	OffsetOrder             log start ≤ LSO ≤ HW ≤ log end, flushed ≤ log end
//	AckedRecordsReadable    what was acknowledged with acks=all, or read by a consumer, is in
//	                        the log of every leader from its election on, at its offset
//	SequencesContiguous     an idempotent producer's records are in the log once and in order
//	ImagesEqualAtOffset     brokers that have applied the same entries have the same image
//	CleanRecovery, CleanSync, CleanDeletion, CleanStop
//	                        no crash is taken for damage, no step fails without a fault
//	Progress                when the faults end, everything gets its answer, and every
//	                        replica is in its ISR again
//
// judge is who checks them.
type judge struct {
	w     *world
	parts map[replica.TopicIDPartition]*verdicts
}

// verdicts are what the judge holds against one partition.
type verdicts struct {
	part     *part
	promised map[int64]string          // value by offset: acknowledged, or read
	agreed   map[int64]print           // of the batch that begins at an offset, seen below a high watermark
	leaders  map[int32]processIdentity // by leader epoch
}

// judged is what the judge knows of a replica.
type judged struct {
	hw    int64
	seen  int64 // agreed up to here
	end   int64
	epoch int32 // in which it was found to lead
	leads bool
	cut   bool // see TruncationByHighWatermark
}

type processIdentity struct {
	node int32
	life int
}

// print tells batches from each other.
type print struct {
	next  int64
	epoch int32
	crc   uint32
}

func (j *judge) init(w *world) { j.w, j.parts = w, make(map[replica.TopicIDPartition]*verdicts) }

func (j *judge) know(p *part) { j.parts[p.id] = j.newVerdicts(p) }

func (j *judge) newVerdicts(p *part) *verdicts {
	return &verdicts{part: p, promised: map[int64]string{}, agreed: map[int64]print{}, leaders: map[int32]processIdentity{}}
}

// forget is the end of a process.
func (j *judge) forget(*broker) {}

// committed looks at what the controller has decided.
func (j *judge) committed(d *metadata.Delta) {
	for topic := range d.Topics() {
		if topic.Deleted() {
			j.w.deleted(topic.Old)
		}
		for c := range topic.Partitions() {
			p := c.New
			if p == nil {
				continue
			}
			if c.Old != nil && !slices.Equal(c.Old.ISR, p.ISR) {
				j.w.report.ISRChanges++
			}
			j.w.tracef("%s-%d: leader %d epoch %d, ISR %v ELR %v, partition epoch %d", topic.Name(), p.Index, p.Leader, p.LeaderEpoch, p.ISR, p.ELR, p.PartitionEpoch)
			for _, r := range append(slices.Clone(p.ISR), p.ELR...) {
				if !slices.Contains(p.Replicas, r) {
					j.w.fail("ISRWithinAssignment", "%s-%d: ISR %v, ELR %v of replicas %v", topic.Name(), p.Index, p.ISR, p.ELR, p.Replicas)
				}
			}
			if p.Leader != metadata.NoLeader && !slices.Contains(p.ISR, p.Leader) {
				j.w.fail("ISRWithinAssignment", "%s-%d: leader %d, ISR %v", topic.Name(), p.Index, p.Leader, p.ISR)
			}
		}
	}
}

// acked notes what a producer was promised.
func (j *judge) acked(p *producer, b *produced, offset int64) {
	for i := range b.count {
		j.promise(p.part, offset+int64(i), p.value(b.base+i), "acknowledged")
	}
}

func (j *judge) promise(p *part, o int64, value, how string) {
	v := j.parts[p.id]
	if old, ok := v.promised[o]; ok && old != value {
		j.w.fail("AckedRecordsReadable", "offset %d of %s was promised as %s and is now %s as %s", o, p, old, how, value)
	}
	v.promised[o] = value
}

// always checks what costs little, after every event.
func (j *judge) always() {
	for _, n := range j.w.nodes {
		if n.b == nil || n.crashed {
			continue
		}
		j.w.running = n
		for _, p := range n.b.order {
			if v := j.parts[p.id]; v != nil && p.Failure() == nil && j.w.failed == nil && !n.crashed {
				j.replica(n, p, v)
			}
		}
		j.w.running = nil
	}
}

func (j *judge) replica(n *node, p *partition, v *verdicts) {
	start, hw, end := int64(p.log.LogStart()), int64(p.HighWatermark()), int64(p.log.LogEnd())
	lso, flushed := int64(p.log.LastStable(p.HighWatermark())), int64(p.log.Flushed())
	if start > lso || lso > hw || hw > end || flushed > end {
		j.w.fail("OffsetOrder", "%s on %d: start %d, LSO %d, HW %d, end %d; flushed %d", v.part, n.id, start, lso, hw, end, flushed)
	}
	if hw < p.judged.hw {
		j.w.fail("HighWatermarkMonotonic", "%s on %d: from %d to %d", v.part, n.id, p.judged.hw, hw)
	}
	if end < p.judged.end {
		j.w.report.Truncations++
		j.w.tracef("%s was cut from %d to %d, high watermark %d", v.part, p.judged.end, end, hw)
	}
	p.judged.hw, p.judged.end = hw, end
	j.agree(n, p, v, hw)
	leader, leads := p.Leader()
	if leads && (!p.judged.leads || p.judged.epoch != leader.Epoch) {
		j.leadership(n, p, v, leader.Epoch)
	}
	p.judged.leads, p.judged.epoch = leads, leader.Epoch
}

// leadership looks at a replica that has begun to lead.
func (j *judge) leadership(n *node, p *partition, v *verdicts, epoch int32) {
	j.w.report.Leaders++
	j.w.tracef("leads %s in epoch %d: high watermark %d, flushed %d, end %d", v.part, epoch, p.HighWatermark(), p.log.Flushed(), p.log.LogEnd())
	me := processIdentity{n.id, n.life}
	if other, ok := v.leaders[epoch]; ok && other != me {
		j.w.fail("OneLeaderPerEpoch", "%s: broker %d (process %d) and broker %d (process %d) lead in epoch %d", v.part, other.node, other.life, me.node, me.life, epoch)
	}
	v.leaders[epoch] = me
	if now := j.w.quorum.image().Partition(p.id.TopicID, p.id.Partition); now != nil && now.LeaderEpoch == epoch {
		j.keeps(n, p, v, "begins to lead") // it is not the leader of a time long past
	}
}

// keeps checks that a log has everything that was promised.
func (j *judge) keeps(n *node, p *partition, v *verdicts, when string) {
	values, ok := j.contents(p)
	if !ok {
		return
	}
	start := int64(p.log.LogStart())
	for _, o := range slices.Sorted(maps.Keys(v.promised)) {
		if o >= start && values[o] != v.promised[o] {
			j.w.fail("AckedRecordsReadable", "%s: %s was promised at %d; broker %d, which %s, has %q there; its log is %d to %d",
				v.part, v.promised[o], o, n.id, when, values[o], start, p.log.LogEnd())
			return
		}
	}
}

// agree compares the batches that have come below a replica's high watermark with what any
// replica had there before.
func (j *judge) agree(n *node, p *partition, v *verdicts, hw int64) {
	for at := max(p.judged.seen, int64(p.log.LogStart())); at < hw; {
		views := j.batches(p, at, hw)
		if len(views) == 0 {
			return
		}
		for _, b := range views {
			now := print{b.NextOffset(), b.LeaderEpoch(), b.CRC()}
			if before, ok := v.agreed[b.BaseOffset()]; ok && before != now {
				j.w.fail("ReplicasAgreeBelowHW", "%s at %d: broker %d has a batch up to %d of epoch %d, there was one up to %d of epoch %d",
					v.part, b.BaseOffset(), n.id, now.next, now.epoch, before.next, before.epoch)
				return
			}
			v.agreed[b.BaseOffset()] = now
			at = b.NextOffset()
		}
		p.judged.seen = at
	}
}

// batches reads whole batches of a log from at on, up to end.
func (j *judge) batches(p *partition, at, end int64) []batch.View {
	info, err := p.log.Read(logstore.ReadParams{Offset: at, MaxBytes: 1 << 20, UpTo: end, MinOne: true})
	if err != nil || info.Region == nil {
		j.w.fail("AckedRecordsReadable", "%s-%d: nothing at %d, though the log goes to %d: %v", p.topic, p.id.Partition, at, p.log.LogEnd(), err)
		return nil
	}
	return j.views(info.Region)
}

// views reads a region and releases it.
func (j *judge) views(r wire.Region) (views []batch.View) {
	defer r.Release()
	buf := make([]byte, r.Len())
	if _, err := r.ReadAt(buf, 0); err != nil && !errors.Is(err, io.EOF) {
		j.w.fail("AckedRecordsReadable", "read %d bytes: %v", len(buf), err)
		return nil
	}
	for {
		v, rest, err := batch.Next(buf)
		if err != nil {
			return views
		}
		views, buf = append(views, v), rest
	}
}

// contents is the value of every record in a log, by offset; false if it could not be read.
func (j *judge) contents(p *partition) (values map[int64]string, ok bool) {
	values = make(map[int64]string)
	for at, end := int64(p.log.LogStart()), int64(p.log.LogEnd()); at < end; {
		views := j.batches(p, at, end)
		if len(views) == 0 {
			return values, false
		}
		for _, v := range views {
			at = v.NextOffset()
			if err := batch.Iterate(v, j.w.codecs, func(r batch.Record) error {
				values[r.Offset] = string(r.Value)
				return nil
			}); err != nil {
				j.w.fail("AckedRecordsReadable", "%s-%d: %v", p.topic, p.id.Partition, err)
				return values, false
			}
		}
	}
	return values, true
}

// read lets a consumer read from a position on, and returns the next. What it saw it may
// rely on.
func (j *judge) read(p *partition, of *part, from int64, maxBytes int) int64 {
	result, _ := p.ReadRecords(j.w.now, &replica.Reader{ReplicaID: replica.ConsumerReplicaID, AnyReplica: true}, &replica.FetchPartition{
		FetchOffset: from, CurrentLeaderEpoch: replica.NoEpoch, LastFetchedEpoch: replica.NoEpoch,
	}, maxBytes, true)
	if start := int64(p.log.LogStart()); result.Err != nil && from < start && p.LeadsFollowers() {
		return start // retention was faster
	}
	if result.Err != nil || result.Records == nil {
		return from // it asked a replica that is behind, say
	}
	next := from
	for _, v := range j.views(result.Records) {
		_ = batch.Iterate(v, j.w.codecs, func(r batch.Record) error {
			if r.Offset >= next && r.Offset < result.HighWatermark {
				j.promise(of, r.Offset, string(r.Value), "read")
				next = r.Offset + 1
			}
			return nil
		})
	}
	return next
}

// everything takes stock at the end: each replica has all that was promised, and leaders
// show it.
func (j *judge) everything() {
	for _, n := range j.w.nodes {
		for _, p := range n.b.order {
			v := j.parts[p.id]
			if v == nil {
				continue
			}
			j.keeps(n, p, v, "is in the ISR at the end")
			values, ok := j.contents(p)
			if !ok {
				return
			}
			j.sequences(n, p, v, values)
		}
	}
}

// sequences checks that the records of each idempotent producer stand in a log once and in
// order.
func (j *judge) sequences(n *node, of *partition, v *verdicts, values map[int64]string) {
	for _, p := range j.w.producers {
		if !p.idempotent || p.part != v.part {
			continue
		}
		next := int32(0)
		if of.log.LogStart() > 0 {
			next = -1 // what retention took is beyond doubt
		}
		for o := range int64(of.log.LogEnd()) {
			var number int32
			if !strings.HasPrefix(values[o], p.name+"-") {
				continue
			}
			_, err := fmt.Sscanf(values[o], p.name+"-%d", &number)
			if next < 0 {
				next = number
			}
			if err != nil || number != next {
				j.w.fail("SequencesContiguous", "%s on %d: %s stands at %d, where record %d is due", v.part, n.id, values[o], o, next)
				return
			}
			next++
		}
	}
}

// unrest is what is not as it should be when the faults have ended, "" if nothing.
func (w *world) unrest() string {
	var all []string
	for _, p := range w.producers {
		if len(p.unacked) > 0 {
			all = append(all, fmt.Sprintf("%s has %d batches unacknowledged", p.name, len(p.unacked)))
		}
	}
	for id, v := range w.judge.parts {
		s := w.quorum.image().Partition(id.TopicID, id.Partition)
		if s.Leader == metadata.NoLeader || len(s.ISR) < len(s.Replicas) {
			all = append(all, fmt.Sprintf("%s has leader %d, ISR %v, ELR %v of %v", v.part, s.Leader, s.ISR, s.ELR, s.Replicas))
		}
	}
	for _, n := range w.nodes {
		if n.b == nil || n.b.image == nil || n.b.image.Position().Index < w.quorum.committed() {
			all = append(all, fmt.Sprintf("broker %d is behind", n.id))
			continue
		}
		for _, p := range n.b.order {
			if int64(p.HighWatermark()) < int64(p.log.LogEnd()) || n.b.dirs[0].flushing {
				all = append(all, fmt.Sprintf("%s-%d on %d: high watermark %d, end %d", p.topic, p.id.Partition, n.id, p.HighWatermark(), p.log.LogEnd()))
			}
		}
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}
