package metadata

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/klamm-mq/klamm/protocol/uuid"
)

// beyond gives numbers that go on where the lost log cannot have come since the backup: what is
// added is far more than it can have used, and little enough that a cluster can be restored more
// than two thousand times.
//
// Nor may another log have come there that began with the same backup: if a restore has to be
// done again, or its cluster is lost in turn before there is a new backup, the same file must
// not give out the same leader epochs and producer ids once more. So they rise with the time
// that has passed since the backup, by more in a second than a cluster uses.
type beyond struct {
	since int64 // the backup, in seconds
}

const (
	fewAdded, fewPerSecond   = 1 << 20, 1       // elections of the controller; leader and partition epochs
	manyAdded, manyPerSecond = 1 << 40, 1 << 20 // entries of the log, broker epochs being positions in it; producer ids

	mostSince = 1 << 28 // eight years: a clock was wrong, or the backup is of no use
)

func (b beyond) few(old int64) int64  { return old + fewAdded + b.since*fewPerSecond }
func (b beyond) many(old int64) int64 { return old + manyAdded + b.since*manyPerSecond }

// Restored gives the snapshot with which the log of a cluster begins that is restored from a
// backup.
//
// The backup is older than what was lost. Since then leaders have written in higher leader
// epochs than it knows, replicas have left in-sync sets and may lack what was acknowledged
// without them, producers have got ids. So nothing in it is taken for news:
//
//   - Position, term, broker epochs, leader and partition epochs and producer ids go on where
//     no log of this cluster can have come (see beyond). No log, client or running process has
//     seen them with another meaning.
//   - Partitions have no leader, no in-sync replica and no eligible one: they are Undecided.
//     Who leads is decided by what is in the logs, when enough of them have been looked at
//     (the controller's electByLogs).
//   - Brokers are known, fenced, and under incarnations that no process has. Each has to
//     register anew.
//   - The lineage is a new one, so that this log and what is left of the lost one are not
//     taken for the same.
//
// The error is that of random, or that the cluster was restored too often.
func (b Backup) Restored(now time.Time, random io.Reader) (s Snapshot, err error) {
	if s.Lineage, err = uuid.New(random); err != nil {
		return s, fmt.Errorf("restore metadata: %w", err)
	}
	old, next := b.Image, beyond{since: min(max(0, now.Unix()-b.Created.Unix()), mostSince)}
	at := Position{Index: uint64(next.many(int64(old.pos.Index))), Term: uint64(next.few(int64(old.pos.Term)))}
	if at.Term > math.MaxInt32 { // what clients are told as the epoch of the quorum
		return s, fmt.Errorf("restore metadata: term %d leaves no room for another one", old.pos.Term)
	}
	d := NewDelta(nil)
	for r := range old.Records() {
		if r, err = next.record(r, int64(at.Index-old.pos.Index), random); err != nil {
			return s, fmt.Errorf("restore metadata: %w", err)
		}
		if err := d.replayPlain(r); err != nil {
			return s, fmt.Errorf("restore metadata: %w", err)
		}
	}
	if old.nextProducerID == 0 { // else it is among the records
		if err := d.replayPlain(ProducerIDsRecord{BrokerID: -1, BrokerEpoch: -1, Next: next.many(0)}); err != nil {
			return s, fmt.Errorf("restore metadata: %w", err)
		}
	}
	s.Image = d.Image(at)
	return s, nil
}

// record is one of the backup as it is restored; the log's position moves by moved.
func (b beyond) record(r Record, moved int64, random io.Reader) (_ Record, err error) {
	switch r := r.(type) {
	case RegisterBrokerRecord:
		r.Epoch += moved
		r.Fenced, r.InControlledShutdown = true, false
		r.IncarnationID, err = uuid.New(random)
		return r, err
	case PartitionRecord:
		leader, partition := b.few(int64(r.LeaderEpoch)), b.few(int64(r.PartitionEpoch))
		if max(leader, partition) > math.MaxInt32 {
			return r, fmt.Errorf("leader epoch %d, partition epoch %d of a partition leave no room for higher ones", r.LeaderEpoch, r.PartitionEpoch)
		}
		r.LeaderEpoch, r.PartitionEpoch = int32(leader), int32(partition)
		r.Leader, r.ISR, r.ELR, r.LastKnownELR, r.RecoveryState = NoLeader, nil, nil, nil, Recovered
		return r, nil
	case ProducerIDsRecord:
		r.Next = b.many(r.Next)
		return r, nil
	}
	return r, nil
}

// Undecided tells that nobody is known to have what was acknowledged, and nobody led last:
// metadata was restored from a backup since. A partition that has lost its leader otherwise
// has an eligible replica, or at least a last leader.
func (p *Partition) Undecided() bool {
	return p.Leader == NoLeader && len(p.ISR) == 0 && len(p.ELR) == 0 && len(p.LastKnownELR) == 0
}
