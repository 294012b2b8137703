package metadata

import "slices"

// Elections counts what became of leaderships, record by record: a later record may cover an
// earlier one before anybody sees a delta, or between two deltas that are merged.
type Elections struct {
	All     int // partitions that got another leader, for whatever reason
	FromELR int // of these, whose leader was no in-sync replica but known to have everything (KIP-966)
	Unclean int // of these, whose leader may lack acknowledged records
}

// Elections are those in the records that the delta was written with. One that compares two
// images, as after a snapshot, knows of none.
func (d *Delta) Elections() Elections { return d.touched.elections }

func (e *Elections) add(other Elections) {
	e.All += other.All
	e.FromELR += other.FromELR
	e.Unclean += other.Unclean
}

// note counts what one record made of a partition.
func (e *Elections) note(old, next *Partition) {
	if next.Leader == NoLeader || next.LeaderEpoch == old.LeaderEpoch {
		return
	}
	inStep := slices.Contains(old.ISR, next.Leader)
	eligible := slices.Contains(old.ELR, next.Leader)
	unclean := next.RecoveryState == Recovering && (old.RecoveryState != Recovering || !inStep && !eligible)
	if next.Leader == old.Leader && !unclean {
		return // it goes on in a new epoch
	}
	e.All++
	switch {
	case unclean:
		e.Unclean++
	case !inStep && eligible:
		e.FromELR++
	}
}
