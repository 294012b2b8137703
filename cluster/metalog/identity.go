package metalog

import (
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/klamm-mq/klamm/protocol/uuid"
)

// keyDirectoryID is where the store keeps what this node is called, if it is not called by
// the id of its disk. It is kept with the votes, so that neither is there without the other.
const keyDirectoryID = "DirectoryID"

// DirectoryID is the id that this node has as a member, with its node id: that of its disk,
// or the one that it got when its log had been lost.
func (l *Log) DirectoryID() uuid.UUID { return l.opts.DirectoryID }

// identify finds out as whom this node takes part.
//
//	A  the store says so
//	B  there is a log, or the disk is new: the disk's id
//	C  the disk has belonged to a cluster, but there is no log: somebody has deleted it,
//	   or its disk is not mounted. The voter of that id may have voted in the current
//	   term, and acknowledged entries that are lost with the log. So this node is another
//	   one from now on, as with an empty disk (D19); the partitions on its disk stay
//	   what they are.
func (l *Log) identify() error {
	known, err := l.store.Get([]byte(keyDirectoryID))
	switch {
	case err != nil:
		return err
	case len(known) == len(uuid.UUID{}): // case A
		l.opts.DirectoryID = uuid.UUID(known)
		return nil
	case known != nil:
		return fmt.Errorf("the id of the metadata log has %d bytes, want %d", len(known), len(uuid.UUID{}))
	}
	empty, err := l.storesNothing()
	if err != nil || !empty || !l.opts.Joined { // case B
		return err
	}
	id, err := uuid.New(l.opts.IDs) // case C
	if err != nil {
		return err
	}
	l.logger.Warn("the metadata log is gone: this node takes part as another member", "dir", l.opts.Dir,
		"was", serverID(l.self()), "is", serverID(Voter{NodeID: l.opts.NodeID, DirectoryID: id}))
	l.opts.DirectoryID = id
	return l.storeIdentity()
}

// storeIdentity does not go through the guard, which ends goroutines of Raft.
func (l *Log) storeIdentity() error {
	if err := l.space.forVotes(); err != nil {
		return err
	}
	return l.store.Store.Set([]byte(keyDirectoryID), l.opts.DirectoryID[:])
}

// storesNothing tells whether Raft has never stored anything. A term alone is something: it
// may come with a vote.
func (l *Log) storesNothing() (bool, error) {
	snapshots, err := l.openSnapshots()
	if err != nil {
		return false, err
	}
	known, err := raft.HasExistingState(l.store, l.store, snapshots)
	return !known, err
}
