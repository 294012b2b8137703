package cluster

import (
	"fmt"
	"slices"

	"github.com/klamm-mq/klamm/broker/simtest/compacted"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/replica"
)

// The invariants, by the names of docs/testing.md and some more:
//
//	OneLeaderPerEpoch       in one leader epoch of a partition one process leads, no other
//	LeaderWasInSync         who is made leader was in the ISR or, if that was empty, in the
//	                        ELR: no election is unclean, but where that is allowed and
//	                        nobody else is there
//	HighWatermarkMonotonic  a replica's high watermark never falls while its process lives
//	ISRHoldsHW              what lies below the high watermark of a leader, and what it
//	                        acknowledges, is in the log of each member of the ISR; with
//	                        durability=fsync it is flushed there
//	ReplicasAgreeBelowHW    what lies below the high watermark of any replica at any time is
//	                        the same record, of the same leader epoch, for ever
//	ISRWithinAssignment     ISR and leader are replicas; the leader is in the ISR
//	OffsetOrder             log start ≤ LSO ≤ HW ≤ log end, flushed ≤ log end; nobody reads
//	                        beyond the high watermark that it is told
//	AckedRecordsReadable    what was acknowledged with acks=all, or read by a consumer, is in
//	                        the log of every leader from its election on, at its offset;
//	                        consumers read record after record
//	ConsumersNeverDiverge   no leader tells a consumer that what it has read is not so
//	NewestOfEachKey         what cleanings have met is on every replica but for what they may
//	                        take; what they must take is not; no deleted key comes back
//	LatestNeverFalls        a leader's latest offset is above all that was read or
//	                        acknowledged, or it says that it does not know (KIP-207)
//	SequencesContiguous     an idempotent producer's records are in the log once and in order;
//	                        what it has given up may be missing; nothing that is due is
//	                        refused as out of order
//	OwnRecords              a partition has no record that was sent to another, of a deleted
//	                        topic of its name, say
//	RefusedNeverAppended    what was refused before it was written is never read
//	ImagesEqualAtOffset     brokers that have applied the same entries have the same image
//	InSyncNotHeldBack       no throttle keeps records from a member of the ISR that is known as one
//	LastCopyStays           the damaged replica that may be the last is not touched
//	CleanRecovery, CleanSync, CleanDeletion, CleanStop
//	                        no crash is taken for damage, no step fails without a fault
//	Progress                when the faults end, everything gets its answer, and every
//	                        replica is in its ISR again, those that a throttle held back too
//
// judge is who checks them.
type judge struct {
	w     *world
	parts map[replica.TopicIDPartition]*verdicts
	// owners are the partitions of producers, deleted ones included.
	owners map[string]*part
}

// verdicts are what the judge holds against one partition.
type verdicts struct {
	part     *part
	promised map[int64]string          // value by offset: acknowledged, or read
	agreed   map[int64]print           // of the batch that begins at an offset, seen below a high watermark
	shown    int64                     // above all that is promised
	refused  map[string]bool           // values that were refused and given up
	leaders  map[int32]processIdentity // by leader epoch
	held     map[int32]int64           // by node: up to where its replica may be relied on
	branch   int32                     // the epoch of the last unclean election, 0 if there was none
	begun    bool                      // somebody has begun to lead since
	lost     map[string]bool           // values that were promised, and are not any more
	cleaned  compacted.History
	same     map[int64]seen // what agreed is, by record, where logs are cleaned
}

// judged is what the judge knows of a replica.
type judged struct {
	hw     int64
	seen   int64 // agreed up to here
	end    int64
	epoch  int32 // in which it was found to lead
	leads  bool
	cut    bool  // see TruncationByHighWatermark
	branch int32 // it is on this one; see unclean.go
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

func (j *judge) init(w *world) {
	j.w, j.parts, j.owners = w, make(map[replica.TopicIDPartition]*verdicts), make(map[string]*part)
}

func (j *judge) know(p *part) { j.parts[p.id] = j.newVerdicts(p) }

func (j *judge) newVerdicts(p *part) *verdicts {
	return &verdicts{
		part: p, promised: map[int64]string{}, agreed: map[int64]print{}, refused: map[string]bool{}, lost: map[string]bool{},
		leaders: map[int32]processIdentity{}, held: map[int32]int64{}, same: map[int64]seen{},
	}
}

// committed looks at what the controller has decided.
func (j *judge) committed(d *metadata.Delta, unclean bool) {
	for topic := range d.Topics() {
		if topic.Deleted() {
			j.w.deleted(topic.Old)
		}
		for c := range topic.Partitions() {
			if c.New != nil {
				id := replica.TopicIDPartition{TopicID: topic.ID, Partition: c.Index}
				j.decided(id, topic.Name(), c.Old, c.New, unclean || j.w.allowsUnclean(topic.Name()))
			}
		}
	}
}

func (j *judge) decided(id replica.TopicIDPartition, topic string, old, p *metadata.Partition, unclean bool) {
	name := fmt.Sprintf("%s-%d", topic, id.Partition)
	j.w.tracef("%s: leader %d epoch %d, ISR %v ELR %v of %v, partition epoch %d", name, p.Leader, p.LeaderEpoch, p.ISR, p.ELR, p.Replicas, p.PartitionEpoch)
	inSync := append(slices.Clone(p.ISR), p.ELR...)
	for _, r := range inSync {
		if !slices.Contains(p.Replicas, r) {
			j.w.fail("ISRWithinAssignment", "%s: ISR %v, ELR %v of replicas %v", name, p.ISR, p.ELR, p.Replicas)
		}
	}
	if p.Leader != metadata.NoLeader && !slices.Contains(p.ISR, p.Leader) {
		j.w.fail("ISRWithinAssignment", "%s: leader %d, ISR %v", name, p.Leader, p.ISR)
	}
	if old == nil {
		return
	}
	if !slices.Equal(old.ISR, p.ISR) {
		j.w.report.ISRChanges++
	}
	if moved(old, p) {
		j.w.report.Reassigned++
	}
	if old.Leader >= 0 && p.Leader == metadata.NoLeader {
		j.w.report.Leaderless++
	}
	inSync = old.ISR
	if len(inSync) == 0 {
		inSync = old.LastKnownELR
	}
	inSync = append(slices.Clone(inSync), old.ELR...)
	if moved(old, p) && p.RecoveryState != metadata.Recovering { // else nobody led: the last of the ISR had left or died
		inSync = append(inSync, p.ISR...) // the leader has just said who joins it
	}
	switch {
	case p.Leader < 0, p.Leader == old.Leader, slices.Contains(inSync, p.Leader):
	case unclean:
		j.uncleanElection(id, name, old, p)
	default:
		j.w.fail("LeaderWasInSync", "%s: %d leads, ISR was %v, ELR %v", name, p.Leader, old.ISR, old.ELR)
	}
}

// always checks what costs little, after every event.
func (j *judge) always() {
	for _, n := range j.w.nodes {
		if n.b == nil || n.crashed {
			continue
		}
		j.w.running = n
		n.lost = n.lost && !n.b.registered()
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
	if hw < p.judged.hw && (p.judged.branch == v.branch || p.epoch() < v.branch) {
		j.w.fail("HighWatermarkMonotonic", "%s on %d: from %d to %d", v.part, n.id, p.judged.hw, hw)
	}
	if end < p.judged.end {
		j.w.report.Truncations++
		j.w.tracef("%s was cut from %d to %d, high watermark %d", v.part, p.judged.end, end, hw)
	}
	p.judged.hw, p.judged.end = hw, end
	v.held[n.id] = p.reliable()
	j.settle(n, p, v)
	if j.leadsNow(p) {
		j.held(p, v, hw, "its high watermark is")
	}
	if v.counts(p) {
		j.agree(n, p, v, hw)
	}
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
	if j.leadsNow(p) && v.counts(p) {
		j.keeps(n, p, v, "begins to lead") // it is not the leader of a time long past
	}
}

// reliable is up to where a replica may be relied on after a crash.
func (p *partition) reliable() int64 {
	if p.d.b.w.plan.fsync {
		return int64(p.log.Flushed())
	}
	return int64(p.log.LogEnd())
}

// leadsNow tells whether a replica leads by right: in the epoch that is the last.
func (j *judge) leadsNow(p *partition) bool {
	leader, leads := p.Leader()
	now := j.w.quorum.image().Partition(p.id.TopicID, p.id.Partition)
	return leads && now != nil && now.LeaderEpoch == leader.Epoch
}

// held checks that all members of the ISR have what the leader says that they have. One that
// has just lost what it had not synced is about to leave the ISR.
func (j *judge) held(p *partition, v *verdicts, end int64, why string) {
	for _, m := range j.w.quorum.image().Partition(p.id.TopicID, p.id.Partition).ISR {
		has := v.held[m]
		if n := p.d.b.n; m == n.id {
			has = p.reliable()
		}
		if has < end && !j.w.node(m).lost {
			j.w.fail("ISRHoldsHW", "%s: %s %d on leader %d, and %d, in the ISR, can be relied on up to %d", v.part, why, end, p.d.b.n.id, m, has)
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
		if j.w.cleanings.on {
			if at = j.agreeOnRecords(n, p, v, at, views); j.w.failed != nil {
				return
			}
			p.judged.seen = at
			continue
		}
		for _, b := range views {
			now := printOf(b)
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
