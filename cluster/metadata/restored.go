package metadata

import (
	"fmt"
	"io"
	"math"

	"github.com/klamm-mq/klamm/protocol/uuid"
)

// What a restore adds to every number that the lost log may have carried on since the
// backup: far more than it can have used, and few enough that a cluster can be restored
// more than two thousand times.
const (
	restoredTerms       = 1 << 20 // elections of the controller
	restoredEntries     = 1 << 40 // of the log; broker epochs are made of positions
	restoredEpochs      = 1 << 20 // leader and partition epochs
	restoredProducerIDs = 1 << 40
)

// Restored gives the snapshot with which the log of a cluster begins that is restored from a
// backup.
//
// The backup is older than what was lost. Since then leaders have written in higher leader
// epochs than it knows, replicas have left in-sync sets and may lack what was acknowledged
// without them, producers have got ids. So nothing in it is taken for news:
//
//   - Position, term, broker epochs, leader and partition epochs and producer ids go on where
//     the lost log cannot have come. No log, client or running process has seen them with
//     another meaning.
//   - Partitions have no leader, no in-sync replica and no eligible one: they are Undecided.
//     Who leads is decided by what is in the logs, when enough of them have been looked at
//     (the controller's electByLogs).
//   - Brokers are known, fenced, and under incarnations that no process has. Each has to
//     register anew.
//   - The lineage is a new one, so that this log and what is left of the lost one are not
//     taken for the same.
//
// The error is that of random, or that the cluster was restored too often.
func (b Backup) Restored(random io.Reader) (s Snapshot, err error) {
	if s.Lineage, err = uuid.New(random); err != nil {
		return s, fmt.Errorf("restore metadata: %w", err)
	}
	old := b.Image
	d := NewDelta(nil)
	for r := range old.Records() {
		if r, err = restoredRecord(r, random); err != nil {
			return s, fmt.Errorf("restore metadata: %w", err)
		}
		if err := d.replayPlain(r); err != nil {
			return s, fmt.Errorf("restore metadata: %w", err)
		}
	}
	if old.nextProducerID == 0 { // else it is among the records
		if err := d.replayPlain(ProducerIDsRecord{BrokerID: -1, BrokerEpoch: -1, Next: restoredProducerIDs}); err != nil {
			return s, fmt.Errorf("restore metadata: %w", err)
		}
	}
	s.Image = d.Image(Position{Index: old.pos.Index + restoredEntries, Term: old.pos.Term + restoredTerms})
	if s.Image.pos.Term > math.MaxInt32 { // what clients are told as the epoch of the quorum
		return s, fmt.Errorf("restore metadata: term %d leaves no room for another one", old.pos.Term)
	}
	return s, nil
}

func restoredRecord(r Record, random io.Reader) (_ Record, err error) {
	switch r := r.(type) {
	case RegisterBrokerRecord:
		r.Epoch += restoredEntries
		r.Fenced, r.InControlledShutdown = true, false
		r.IncarnationID, err = uuid.New(random)
		return r, err
	case PartitionRecord:
		if max(r.LeaderEpoch, r.PartitionEpoch) > math.MaxInt32-restoredEpochs {
			return r, fmt.Errorf("leader epoch %d, partition epoch %d of a partition leave no room for higher ones", r.LeaderEpoch, r.PartitionEpoch)
		}
		r.LeaderEpoch += restoredEpochs
		r.PartitionEpoch += restoredEpochs
		r.Leader, r.ISR, r.ELR, r.LastKnownELR, r.RecoveryState = NoLeader, nil, nil, nil, Recovered
		return r, nil
	case ProducerIDsRecord:
		r.Next += restoredProducerIDs
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
