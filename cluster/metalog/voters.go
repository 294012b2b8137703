package metalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// Voters change while the cluster runs (KIP-853), one at a time, on the leader alone. A node
// has to be an observer that has caught up before it counts: it is made one if need be.
//
//	nobody ──(address answers)──► observer ──(has all that the leader has)──► voter
//	                                 ▲                                         │
//	                                 └────(if it is registered)── removed ◄────┘

// catchUpPause lies between two looks at how far a future voter has come.
const catchUpPause = 20 * time.Millisecond

// errChanging is the answer to a second change of the voters, if the first one takes long.
var errChanging = kafkaerr.New(kafkaerr.RequestTimedOut, "Request timed out waiting for leader to handle previous voter change request")

// AddVoter makes the node that is found at v's address a voter. Errors have the kinds
// DUPLICATE_VOTER, REQUEST_TIMED_OUT (another change is under way, the node does not answer,
// or has not caught up when ctx ends), NOT_LEADER_OR_FOLLOWER.
func (l *Log) AddVoter(ctx context.Context, v Voter, probe Prober) error {
	return l.changeVoters(ctx, func() error {
		voters := l.voters()
		if slices.ContainsFunc(voters, func(other Voter) bool { return other.NodeID == v.NodeID }) {
			return kafkaerr.New(kafkaerr.DuplicateVoter, fmt.Sprintf(
				"the voter id for %s is already part of the set of voters %s", serverID(v), serverIDs(voters)))
		}
		if err := l.answers(ctx, v, probe); err != nil {
			return kafkaerr.New(kafkaerr.RequestTimedOut, fmt.Sprintf("new voter %s is not ready to receive requests: %v", serverID(v), err))
		}
		if err := l.awaitCaughtUp(ctx, v); err != nil {
			return err
		}
		l.logger.Info("voter of the metadata log is added", "node", serverID(v), "address", v.Address)
		return l.settled(l.add(v, raft.Voter))
	})
}

// RemoveVoter takes a voter out. Errors have the kinds VOTER_NOT_FOUND, which the last one
// gets, too, REQUEST_TIMED_OUT, NOT_LEADER_OR_FOLLOWER. A leader that removes itself does not
// lead afterwards.
func (l *Log) RemoveVoter(ctx context.Context, v Voter) error {
	return l.changeVoters(ctx, func() error {
		voters := l.voters()
		if len(voters) < 2 || !slices.ContainsFunc(voters, sameServer(v)) {
			return kafkaerr.New(kafkaerr.VoterNotFound, fmt.Sprintf(
				"cannot remove voter %s from the set of voters %s", serverID(v), serverIDs(voters)))
		}
		l.logger.Info("voter of the metadata log is removed", "node", serverID(v))
		return l.settled(l.raft.RemoveServer(serverID(v), 0, memberTimeout).Error())
	})
}

// UpdateVoter changes the address of a voter. Errors are those of RemoveVoter.
func (l *Log) UpdateVoter(ctx context.Context, v Voter, probe Prober) error {
	return l.changeVoters(ctx, func() error {
		if !slices.ContainsFunc(l.voters(), sameServer(v)) {
			return kafkaerr.VoterNotFound
		}
		return l.moveVoter(ctx, v, probe)
	})
}

// moveVoter gives a voter another address, if it is there.
func (l *Log) moveVoter(ctx context.Context, v Voter, probe Prober) error {
	if i := slices.IndexFunc(l.voters(), sameServer(v)); i < 0 || l.voters()[i].Address == v.Address {
		return nil
	}
	if v.NodeID != l.opts.NodeID {
		if err := l.answers(ctx, v, probe); err != nil {
			return kafkaerr.New(kafkaerr.RequestTimedOut, fmt.Sprintf("voter %s at its new address: %v", serverID(v), err))
		}
	}
	l.logger.Info("voter of the metadata log has another address", "node", serverID(v), "address", v.Address)
	return l.settled(l.add(v, raft.Voter))
}

// changeVoters runs one change when those before it are done.
func (l *Log) changeVoters(ctx context.Context, change func() error) error {
	if l.raft.State() != raft.Leader {
		return kafkaerr.NotLeaderOrFollower
	}
	select {
	case l.changing <- struct{}{}:
	case <-ctx.Done():
		return errChanging
	case <-l.closing:
		return ErrClosed
	}
	defer func() { <-l.changing }()
	return change()
}

// settled gives Raft's errors their kinds.
func (l *Log) settled(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return fmt.Errorf("%w: %w", kafkaerr.NotLeaderOrFollower, err)
	}
	return fmt.Errorf("%w: %w", kafkaerr.RequestTimedOut, err)
}

// answers makes sure that a node is at its address.
func (l *Log) answers(ctx context.Context, v Voter, probe Prober) error {
	state, err := probe(ctx, v.Address)
	switch cluster := l.Image().ClusterID(); {
	case err != nil:
		return err
	case state.NodeID != v.NodeID || state.DirectoryID != v.DirectoryID:
		found := serverID(Voter{NodeID: state.NodeID, DirectoryID: state.DirectoryID})
		return fmt.Errorf("at %s is %s (node id/directory id)", v.Address, found)
	case state.ClusterID != "" && state.ClusterID != cluster:
		return fmt.Errorf("it belongs to cluster %s", state.ClusterID)
	}
	return nil
}

// awaitCaughtUp waits until a node has all entries, and makes it an observer before if it is
// none.
func (l *Log) awaitCaughtUp(ctx context.Context, v Voter) error {
	if !slices.ContainsFunc(l.servers(), func(s raft.Server) bool { return s.ID == serverID(v) }) {
		if err := l.add(v, raft.Nonvoter); err != nil {
			return l.settled(err)
		}
	}
	begin := time.Now()
	for {
		p := l.trans.progress.of(serverID(v), l.raft.CurrentTerm())
		if !p.caughtUp.Before(begin) {
			return nil
		}
		if l.raft.State() != raft.Leader {
			return kafkaerr.NotLeaderOrFollower
		}
		if err := sleep(ctx, l.closing, catchUpPause); err != nil {
			return kafkaerr.New(kafkaerr.RequestTimedOut, fmt.Sprintf("aborted add voter operation for %s since it is lagging behind", serverID(v)))
		}
	}
}

// voters are those of the newest configuration, committed or not.
func (l *Log) voters() (list []Voter) {
	for _, s := range l.servers() {
		v, ok := parseServer(s)
		if ok && s.Suffrage == raft.Voter {
			list = append(list, v)
		}
	}
	return list
}

func sameServer(v Voter) func(Voter) bool {
	return func(other Voter) bool { return other.NodeID == v.NodeID && other.DirectoryID == v.DirectoryID }
}

func serverIDs(voters []Voter) (ids []raft.ServerID) {
	for _, v := range voters {
		ids = append(ids, serverID(v))
	}
	return ids
}

// FormAlone makes this node a new cluster of one if it is what is found at every one of the
// addresses that name controllers. Else it waits to be added by a leader (D8). It returns
// when this node knows of a cluster, or ctx ends.
func (l *Log) FormAlone(ctx context.Context, addresses []string, probe Prober) error {
	return l.formBy(ctx, func() error {
		return l.tryFormAlone(ctx, addresses, probe)
	})
}

func (l *Log) tryFormAlone(ctx context.Context, addresses []string, probe Prober) error {
	for _, address := range addresses {
		if err := l.answers(ctx, Voter{NodeID: l.opts.NodeID, DirectoryID: l.opts.DirectoryID, Address: address}, probe); err != nil {
			return err
		}
	}
	if may := l.opts.MayBootstrap; may != nil {
		if err := may(); err != nil {
			l.fail(err)
			return err
		}
	}
	l.logger.Info("new cluster of one", "node", serverID(l.self()))
	if err := l.BootstrapVoters([]Voter{l.self()}); err != nil {
		return err
	}
	l.trans.electNow(l.failedCh)
	return nil
}
