package controller

import (
	"maps"
	"slices"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
)

// fence gives the records that take a broker out of service: its leaderships move to
// other members of the ISRs, which it leaves. The registration's change comes last, so that
// records cut short by a failure are made again.
func (s *state) fence(b *metadata.Broker) []metadata.Record {
	records := s.removeFromISRs(b.ID)
	return append(records, metadata.BrokerChangeRecord{ID: b.ID, Epoch: b.Epoch, Fenced: metadata.Ptr(true)})
}

// unfence gives the records that put a broker in service. Partitions without a leader get
// one where the broker may lead.
func (s *state) unfence(b *metadata.Broker) []metadata.Record {
	records := []metadata.Record{
		metadata.BrokerChangeRecord{ID: b.ID, Epoch: b.Epoch, Fenced: metadata.Ptr(false)},
	}
	for tp := range s.partitions(func(p *metadata.Partition) bool { return p.Leader == metadata.NoLeader }) {
		c := s.change(tp, func(r int32) bool {
			// The image still has the broker fenced.
			return s.mayLead(tp, r) || r == b.ID && s.couldLead(tp, b)
		})
		if r, changed := changeRecord(tp.topic.ID, c.old, c.build()); changed {
			records = append(records, r)
		}
	}
	return append(records, s.relieve(b)...)
}

// couldLead is mayLead of a broker that is in service when the decision is made.
func (s *state) couldLead(tp topicPartition, b *metadata.Broker) bool {
	return b.HasOnlineDir(directoryOf(tp.partition, b.ID)) && !s.hasFailed(tp, b.ID)
}

// relieve gives the leaderships of fenced brokers to one that may take them. A fenced
// broker leads only after it was restarted when nobody else could (case C of
// restartedReplicas); should it take long to recover, or die, it need not be waited for.
func (s *state) relieve(b *metadata.Broker) []metadata.Record {
	var records []metadata.Record
	for tp := range s.partitions(func(p *metadata.Partition) bool {
		leader := s.image.Broker(p.Leader)
		return leader != nil && leader.Fenced && leader.ID != b.ID
	}) {
		r, changed := s.handOver(tp, tp.partition.Leader, func(r int32) bool {
			return r == b.ID && s.couldLead(tp, b)
		})
		if changed {
			records = append(records, r)
		}
	}
	return records
}

// handOver takes a broker out of an ISR if one of the acceptable replicas then leads, with
// every acknowledged record.
func (s *state) handOver(tp topicPartition, from int32, acceptable func(int32) bool) (metadata.PartitionChangeRecord, bool) {
	c := s.change(tp, acceptable).without(from)
	c.election, c.waitFor = electOnline, func(r int32) bool { return s.mayLead(tp, r) } // others may be acceptable, too
	next := c.build()
	if next.Leader < 0 || next.RecoveryState != c.old.RecoveryState {
		return metadata.PartitionChangeRecord{}, false
	}
	return changeRecord(tp.topic.ID, c.old, next)
}

// startShutdown gives the records that move a broker's leaderships away while it serves on.
func (s *state) startShutdown(b *metadata.Broker) []metadata.Record {
	var records []metadata.Record
	if !b.InControlledShutdown {
		records = append(records, metadata.BrokerChangeRecord{
			ID: b.ID, Epoch: b.Epoch, InControlledShutdown: metadata.Ptr(true),
		})
	}
	return append(records, s.removeFromISRs(b.ID)...)
}

func (s *state) removeFromISRs(broker int32) []metadata.Record {
	return s.removeReplicas(broker, func(p *metadata.Partition) bool {
		return slices.Contains(p.ISR, broker) || p.Leader == broker
	})
}

// removeReplicas takes a broker out of the ISRs, and the leadership, of the partitions
// that match.
func (s *state) removeReplicas(broker int32, match func(*metadata.Partition) bool) []metadata.Record {
	var records []metadata.Record
	for tp := range s.partitions(match) {
		c := s.change(tp, func(r int32) bool { return r != broker && s.mayLead(tp, r) }).without(broker)
		if r, changed := changeRecord(tp.topic.ID, c.old, c.build()); changed {
			records = append(records, r)
		}
	}
	return records
}

// directoriesOffline notes that directories of a broker failed.
func (s *state) directoriesOffline(b *metadata.Broker, failed [][16]byte) []metadata.Record {
	var records []metadata.Record
	online := slices.Clone(b.LogDirs)
	for _, dir := range failed {
		i := slices.Index(online, dir)
		if i < 0 {
			continue // noted before
		}
		online = slices.Delete(online, i, i+1)
		records = append(records, s.removeReplicas(b.ID, func(p *metadata.Partition) bool {
			return directoryOf(p, b.ID) == dir && (slices.Contains(p.ISR, b.ID) || p.Leader == b.ID)
		})...)
	}
	if len(online) == len(b.LogDirs) {
		return nil
	}
	return append(records, metadata.BrokerChangeRecord{ID: b.ID, Epoch: b.Epoch, LogDirs: online})
}

// directoriesFull has others lead what a broker leads in log directories without room, where
// a member of the ISR has some: it has every acknowledged record. The broker leaves the ISR;
// the new leader takes it back when it follows again.
//
// A member of the ELR has what is below the high watermark, too, which stands still while the ISR
// is small. But it lacks what the leader has acknowledged with acks=1 since, and a leader without
// room can still be read: the member fetches that, is back in the ISR, and leads then, with all
// of it. Only where the log could not even be created, so that nobody reads it, does that wait
// until there is room. Then the log is empty, and nothing in it can be lost.
func (s *state) directoriesFull(broker int32) []metadata.Record {
	if len(s.sessions[broker].full) == 0 {
		return nil
	}
	var records []metadata.Record
	for tp := range s.partitions(func(p *metadata.Partition) bool { return p.Leader == broker && !s.hasRoom(p, broker) }) {
		r, changed := s.handOver(tp, broker, func(r int32) bool {
			return r != broker && slices.Contains(tp.partition.ISR, r) && s.mayLead(tp, r) && s.hasRoom(tp.partition, r)
		})
		if changed {
			records = append(records, r)
		}
	}
	if len(records) > 0 {
		s.opts.Logger.Warn("partitions are led by others: a log directory is full", "broker", broker, "partitions", len(records))
	}
	return records
}

// hasRoom tells whether a replica's log directory has room, as far as its broker has said.
func (s *state) hasRoom(p *metadata.Partition, broker int32) bool {
	n := s.sessions[broker]
	return n == nil || !slices.Contains(n.full, directoryOf(p, broker))
}

// replicasFailed deals with single replicas that cannot be used (D24), and with those that can
// be again. Which they are, n remembers. Where there are more than a heartbeat holds, the others
// come with the next ones, and count as failed until there are less.
func (s *state) replicasFailed(n *session, broker int32, failed []FailedReplica) []metadata.Record {
	known := n.failed
	n.failed = make(map[partitionID]int32, len(failed))
	if len(failed) >= MaxFailedReplicas {
		maps.Copy(n.failed, known)
	}
	var records []metadata.Record
	for _, f := range failed {
		id := partitionID{f.TopicID, f.Partition}
		t := s.image.TopicByID(f.TopicID)
		p := t.Partition(f.Partition)
		if p == nil {
			continue
		}
		since, told := known[id]
		n.failed[id] = since
		tp := topicPartition{t, p}
		if !told && s.isLast(p, broker) {
			s.opts.Logger.Error("the last replica that may have every record has failed", "topic", t.Name, "partition", p.Index, "broker", broker)
		}
		r, changed := s.replicaFailed(tp, broker, told && p.LeaderEpoch >= since)
		if changed {
			records = append(records, r)
		}
		if r.Leader != nil {
			n.failed[id] = p.LeaderEpoch + 1
		}
	}
	return append(records, s.usableAgain(known, n.failed)...)
}

// replicaFailed takes a replica out of ISR and ELR. The last one that is there stays eligible,
// but leads no longer: nobody else does with fewer records, unless unclean elections are allowed,
// or asked for.
//
// A replica begins anew in a new leader epoch only, whoever leads, and also if it was in
// neither ISR nor ELR: a fetch from before, which is late, would have the leader take it into
// the ISR with what it no longer has. Once is enough; told says that it has been.
func (s *state) replicaFailed(tp topicPartition, broker int32, told bool) (metadata.PartitionChangeRecord, bool) {
	p := tp.partition
	c := s.change(tp, func(r int32) bool { return r != broker && s.mayLead(tp, r) })
	if s.isLast(p, broker) {
		return changeRecord(tp.topic.ID, p, c.without(broker).build())
	}
	c.lost(broker)
	again := told && !slices.Contains(p.ISR, broker) && !slices.Contains(p.ELR, broker)
	c.newEpoch = !again && p.Leader != metadata.NoLeader // else the next election brings one
	return changeRecord(tp.topic.ID, p, c.build())
}

// isLast reports whether no other replica is known to have what was acknowledged.
func (s *state) isLast(p *metadata.Partition, broker int32) bool {
	return len(exclude(slices.Concat(p.ISR, p.ELR), []int32{broker})) == 0
}

// usableAgain gives leaders to partitions without one, of which a replica had failed before
// and has not now.
func (s *state) usableAgain(before, now map[partitionID]int32) (records []metadata.Record) {
	again := maps.Clone(before)
	maps.DeleteFunc(again, func(id partitionID, _ int32) bool { _, still := now[id]; return still })
	if len(again) == 0 {
		return nil
	}
	for tp := range s.partitions(func(p *metadata.Partition) bool { return p.Leader == metadata.NoLeader }) {
		if _, ok := again[partitionID{tp.topic.ID, tp.partition.Index}]; !ok {
			continue
		}
		c := s.change(tp, func(r int32) bool { return s.mayLead(tp, r) })
		if r, changed := changeRecord(tp.topic.ID, c.old, c.build()); changed {
			records = append(records, r)
		}
	}
	return records
}

// tick decides what time alone causes: the fencing of one broker whose session has ended,
// or periodic elections. The caller goes on until nothing is left to decide.
func (s *state) tick(now time.Time) (decision, bool) {
	for b := range s.image.Brokers() {
		if d, ended := s.sessionEnded(now, b); ended {
			return d, true
		}
	}
	if !s.opts.LeaderBalanceDisabled && !now.Before(s.nextBalance) {
		if records, more := s.preferredElections(); len(records) > 0 {
			if !more {
				s.nextBalance = now.Add(s.opts.LeaderBalanceInterval)
			}
			return decision{records: records}, true
		}
		s.nextBalance = now.Add(s.opts.LeaderBalanceInterval)
	}
	if !now.Before(s.nextUnclean) {
		s.nextUnclean = now.Add(s.opts.UncleanElectionPeriod)
		if records := s.uncleanElections(); len(records) > 0 {
			return decision{records: records}, true
		}
	}
	return decision{}, false
}

// sessionEnded takes a broker out of service that was not heard for too long. One that is
// fenced may be a leader, or in an ISR, nevertheless: it was restarted when nobody else could
// lead (case C of restartedReplicas), and is gone again before it was back in service. Then
// nothing waits for it any more, as for one that is fenced.
func (s *state) sessionEnded(now time.Time, b *metadata.Broker) (d decision, ended bool) {
	n := s.sessions[b.ID]
	if n == nil || s.sessionValid(now, n) || b.Fenced && n.contact.IsZero() {
		return decision{}, false
	}
	n.contact = time.Time{}
	if !b.Fenced {
		s.opts.Logger.Info("broker fenced: its session ended", "broker", b.ID, "epoch", b.Epoch)
		return decision{records: s.fence(b), fencing: true}, true
	}
	if s.image.NumBrokers() > 1 { // else there is nobody to lead in its place
		d.records = s.removeFromISRs(b.ID)
	}
	if len(d.records) > 0 {
		s.opts.Logger.Info("fenced broker is gone again: its session ended", "broker", b.ID, "epoch", b.Epoch)
	}
	return d, len(d.records) > 0
}

// suspectAfter is how soon after an election every live broker has been heard: it sends
// its first heartbeat to a new controller at once.
const suspectAfter = 200 * time.Millisecond

// suspects gives, once after an election, the brokers in service that were not heard: they
// may have died with the former controller (D9).
func (s *state) suspects(now time.Time) []*metadata.Broker {
	if s.suspectAt.IsZero() || now.Before(s.suspectAt) {
		return nil
	}
	s.suspectAt = time.Time{}
	var unheard []*metadata.Broker
	for b := range s.image.Brokers() {
		if n := s.sessions[b.ID]; n != nil && !b.Fenced && !n.heard {
			unheard = append(unheard, b)
		}
	}
	return unheard
}

// fenceRefusing decides about a broker whose address refuses connections. It is fenced
// unless it was heard since the probe began, or half of the brokers would be out of
// service: then the fault may be on this side.
func (s *state) fenceRefusing(id int32, epoch int64, probed time.Time) (decision, bool) {
	b := s.image.Broker(id)
	n := s.sessions[id]
	if b == nil || b.Epoch != epoch || b.Fenced || n.contact.After(probed) {
		return decision{}, false
	}
	unfenced := -1 // without this one
	for other := range s.image.Brokers() {
		if !other.Fenced {
			unfenced++
		}
	}
	if 2*unfenced <= s.image.NumBrokers() {
		return decision{}, false
	}
	n.contact = time.Time{}
	s.opts.Logger.Info("broker fenced: its address refuses connections", "broker", id, "epoch", epoch)
	return decision{records: s.fence(b), fencing: true}, true
}

// forgive adds the time in which this process stood still to every session.
func (s *state) forgive(now time.Time, standstill time.Duration) {
	for _, n := range s.sessions {
		if n.contact.IsZero() {
			continue
		}
		if n.contact = n.contact.Add(standstill); n.contact.After(now) {
			n.contact = now
		}
	}
}

// nextTick is when tick has something to look at.
func (s *state) nextTick() time.Time {
	next := s.nextUnclean
	if !s.opts.LeaderBalanceDisabled && s.nextBalance.Before(next) {
		next = s.nextBalance
	}
	if !s.suspectAt.IsZero() && s.suspectAt.Before(next) {
		next = s.suspectAt
	}
	for b := range s.image.Brokers() {
		if n := s.sessions[b.ID]; n != nil && (!b.Fenced || !n.contact.IsZero()) {
			// The session is valid up to and including that instant.
			if end := n.contact.Add(s.opts.SessionTimeout + 1); end.Before(next) {
				next = end
			}
		}
	}
	return next
}

// maxElectionsPerPass bounds what one periodic pass changes, as in Kafka.
const maxElectionsPerPass = 1000

// preferredElections gives leaderships back to first replicas; more tells that the bound
// was reached.
func (s *state) preferredElections() (records []metadata.Record, more bool) {
	for tp := range s.partitions(func(p *metadata.Partition) bool {
		return p.Leader >= 0 && p.Leader != p.Replicas[0]
	}) {
		if len(records) == maxElectionsPerPass {
			return records, true
		}
		c := newPartitionChange(tp.partition, s.elections(tp.topic.Name).MinISR, func(r int32) bool {
			return s.mayLead(tp, r)
		})
		c.election = electPreferred
		if r, changed := changeRecord(tp.topic.ID, c.old, c.build()); changed {
			records = append(records, r)
		}
	}
	return records, false
}

// uncleanElections gives leaders to leaderless partitions whose topics allow that records
// are lost.
func (s *state) uncleanElections() []metadata.Record {
	var records []metadata.Record
	for tp := range s.partitions(func(p *metadata.Partition) bool { return p.Leader == metadata.NoLeader }) {
		if len(records) == maxElectionsPerPass {
			break
		}
		if !s.elections(tp.topic.Name).UncleanElection {
			continue
		}
		c := s.change(tp, func(r int32) bool { return s.mayLead(tp, r) })
		c.election, c.byLogs = electUnclean, s.byLogs(tp)
		if r, changed := changeRecord(tp.topic.ID, c.old, c.build()); changed {
			records = append(records, r)
		}
	}
	return records
}
