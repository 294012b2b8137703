package metalog

import (
	"errors"
	"fmt"
	"slices"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// A log that begins with a backup is not the one that was lost, although both are of one
// cluster (metadata.Snapshot.Lineage). What is left of the lost one must not become part of
// it unseen:
//
//	A  Another voter of the lost log may still live, with others that make a majority. Then
//	   the restore was a mistake, and the leader of the new log must not take over its disk.
//	   It is let in when its log is out of the way.
//	B  A node that only observes keeps nothing but a copy, which is replaced by the new log
//	   when it starts.
//	C  One that runs has acted on what the new log may not know: it would take the topics
//	   created since the backup for deleted, and their records with them. So it ends, and
//	   sets them aside when it starts again, as it does with whatever metadata does not know.

// errLineage is case A.
var errLineage = errors.New("is a voter of the log that was there before metadata was restored: " +
	"if that log is lost for good, stop the node, move its klamm-metadata away, and start it again")

// Lineage is that of this node's log, zero as long as it has none.
func (l *Log) Lineage() uuid.UUID {
	if id := l.fsm.lineage.Load(); id != nil {
		return *id
	}
	return uuid.Zero
}

// Votes tells that this node's log names it as a voter.
func (l *Log) Votes() bool { return slices.ContainsFunc(l.voters(), sameServer(l.self())) }

// isOfAnotherLineage decides cases A and B for a node that is found at an address.
func (l *Log) isOfAnotherLineage(found State) bool {
	return !found.Empty && found.Votes && found.Lineage != l.Lineage()
}

// checkLineage decides case C.
func (f *fsm) checkLineage(s metadata.Snapshot) error {
	if f.machine.image.ClusterID() == "" || s.Lineage == f.machine.lineage || !f.loader.isStarted() {
		return nil
	}
	return fmt.Errorf("metadata was restored from a backup, and this node, which is at position %d of the log that was lost, "+
		"must not go on with it: start it again", f.machine.image.Position().Index)
}
