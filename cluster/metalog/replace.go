package metalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/raft"
)

// A voter that the log alone names has lost its disk, and answers with another one. Raft
// changes one server at a time, and the leader may be gone between any two changes: what the
// new disk is to become is noted in the log, as the end of its address.
//
//	3/old votes      3/new observes, as successor      (it catches up)
//	                 3/new observes, as successor      the old one is removed
//	                 3/new votes
//
// If the old disk is back before it is removed, its successor is.

// successorMark is the end of the address of an observer that is to be a voter, or was.
const successorMark = "+successor"

func isSuccessor(s raft.Server) bool {
	return s.Suffrage != raft.Voter && strings.HasSuffix(string(s.Address), successorMark)
}

// replaceVoters lets those who answer with another disk take the place of what they were, where
// that was, or where they have registered to be.
func (l *Log) replaceVoters(ctx context.Context, controllers []Peer, probe Prober) error {
	var errs []error
	for _, old := range l.voters() {
		if old.NodeID == l.opts.NodeID || !l.isSilent(serverID(old)) {
			continue
		}
		found, err := l.foundAt(ctx, Peer{old.NodeID, old.Address}, probe)
		i := slices.IndexFunc(controllers, func(p Peer) bool { return p.NodeID == old.NodeID && p.Address != old.Address })
		if err != nil && i >= 0 {
			found, err = l.foundAt(ctx, controllers[i], probe)
		}
		if err == nil && found.DirectoryID != old.DirectoryID {
			err = l.replaceVoter(ctx, old, found)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (l *Log) replaceVoter(ctx context.Context, old, found Voter) error {
	l.logger.Warn("member of the metadata log has another disk and is replaced", "old", serverID(old), "new", serverID(found))
	if err := l.addAt(found, l.successorAddress(found), raft.Nonvoter); err != nil {
		return err
	}
	if err := l.awaitSuccessor(ctx, found); err != nil {
		return err
	}
	if err := l.removeServer(serverID(old)); err != nil {
		return fmt.Errorf("remove %s: %w", serverID(old), err)
	}
	return l.addAt(found, l.successorAddress(found), raft.Voter)
}

// successorAddress is that of an observer that is to be a voter. It keeps it when it is one: to
// change a member's address while it is sent to is a race in Raft.
func (l *Log) successorAddress(v Voter) raft.ServerAddress {
	return l.serverAddress(v) + successorMark
}

// awaitSuccessor does not wait for long: other members wait for this goroutine. It is asked
// again.
func (l *Log) awaitSuccessor(ctx context.Context, v Voter) error {
	ctx, cancel := context.WithTimeout(ctx, membersInterval)
	defer cancel()
	return l.awaitCaughtUp(ctx, v)
}

// finishSuccessions does what an earlier leader has begun.
func (l *Log) finishSuccessions(ctx context.Context, probe Prober) error {
	var errs []error
	for _, s := range l.servers() {
		if v, ok := parseServer(s); ok && isSuccessor(s) {
			errs = append(errs, l.finishSuccession(ctx, v, probe))
		}
	}
	return errors.Join(errs...)
}

func (l *Log) finishSuccession(ctx context.Context, v Voter, probe Prober) error {
	i := slices.IndexFunc(l.voters(), func(o Voter) bool { return o.NodeID == v.NodeID })
	switch {
	case i >= 0 && l.isSilent(serverID(l.voters()[i])):
		return nil // it is to be replaced still
	case i >= 0:
		l.logger.Info("the disk of a voter of the metadata log is back", "node", serverID(l.voters()[i]), "not needed", serverID(v))
		return l.forget(v)
	case !l.isSilent(serverID(v)):
		if err := l.awaitSuccessor(ctx, v); err != nil {
			return err
		}
		l.logger.Info("voter of the metadata log has another disk", "new", serverID(v))
		return l.addAt(v, l.successorAddress(v), raft.Voter)
	}
	found, err := l.foundAt(ctx, Peer{v.NodeID, v.Address}, probe)
	if err != nil || found.DirectoryID == v.DirectoryID {
		return err
	}
	if err := l.addAt(found, l.successorAddress(found), raft.Nonvoter); err != nil {
		return err
	}
	return l.forget(v)
}

// forgetSuccessors is for a voter that is to be none, on no disk.
func (l *Log) forgetSuccessors(node int32) error {
	for _, s := range l.servers() {
		if v, ok := parseServer(s); ok && v.NodeID == node && isSuccessor(s) {
			if err := l.forget(v); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *Log) forget(v Voter) error {
	if err := l.removeServer(serverID(v)); err != nil {
		return fmt.Errorf("remove %s: %w", serverID(v), err)
	}
	return nil
}
