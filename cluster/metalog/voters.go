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

const (
	// catchUpPause lies between two looks at how far a future voter has come.
	catchUpPause = 20 * time.Millisecond
	// majorityPatience is how long those that stay get to show that they are a majority.
	majorityPatience = 2 * time.Second
)

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
// gets, too, REQUEST_TIMED_OUT (also where those that stay are no majority that has the log),
// NOT_LEADER_OR_FOLLOWER. The latter is what a leader answers that is to remove itself, when
// it has handed over to one that stays, which is to be asked next.
//
// Both are for the case that the change gets no further than this node's log. Who is not in
// it may not be elected any more, and this node would vote for nobody whose log is shorter:
// what is left would not have a leader again.
func (l *Log) RemoveVoter(ctx context.Context, v Voter) error {
	return l.changeVoters(ctx, func() error {
		voters := l.voters()
		if len(voters) < 2 || !slices.ContainsFunc(voters, sameServer(v)) {
			return kafkaerr.New(kafkaerr.VoterNotFound, fmt.Sprintf(
				"cannot remove voter %s from the set of voters %s", serverID(v), serverIDs(voters)))
		}
		rest := slices.DeleteFunc(voters, sameServer(v))
		if err := l.awaitMajority(ctx, rest); err != nil {
			return err
		}
		if sameServer(l.self())(v) {
			return l.handOver(rest)
		}
		l.logger.Info("voter of the metadata log is removed", "node", serverID(v))
		if err := l.forgetSuccessors(v.NodeID); err != nil {
			return l.settled(err)
		}
		return l.settled(l.forget(v))
	})
}

// awaitMajority waits until more than half of some voters have said from now on that they have
// what this leader has.
func (l *Log) awaitMajority(ctx context.Context, voters []Voter) error {
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, majorityPatience)
	defer cancel()
	for {
		inStep := 0
		for _, v := range voters {
			if sameServer(l.self())(v) || !l.caughtUp(v).Before(begin) {
				inStep++
			}
		}
		if 2*inStep > len(voters) {
			return nil
		}
		if l.raft.State() != raft.Leader {
			return kafkaerr.NotLeaderOrFollower
		}
		if err := sleep(ctx, l.closing, catchUpPause); err != nil {
			return kafkaerr.New(kafkaerr.RequestTimedOut, fmt.Sprintf(
				"of the voters %s that would be left, only %d have the log and answer", serverIDs(voters), inStep))
		}
	}
}

// caughtUp is when a peer last had all that this leader has; zero: not in this term.
func (l *Log) caughtUp(v Voter) time.Time {
	return l.trans.progress.of(serverID(v), l.raft.CurrentTerm()).caughtUp
}

// handOver has another voter lead, the one that was last seen with the whole log.
func (l *Log) handOver(rest []Voter) error {
	next := slices.MaxFunc(rest, func(a, b Voter) int { return l.caughtUp(a).Compare(l.caughtUp(b)) })
	if err := l.raft.LeadershipTransferToServer(serverID(next), l.serverAddress(next)).Error(); err != nil {
		return l.settled(fmt.Errorf("hand over to %s: %w", serverID(next), err))
	}
	l.logger.Info("leadership of the metadata log is handed over, since this node is to be no voter", "to", serverID(next))
	return fmt.Errorf("%w: handed over to %s, which removes this node", kafkaerr.NotLeaderOrFollower, serverID(next))
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

func (l *Log) removeServer(id raft.ServerID) error {
	return l.configure(func() raft.IndexFuture { return l.raft.RemoveServer(id, 0, memberTimeout) })
}

// configure waits for one change of Raft's members. Raft never answers for one that it has
// committed and not yet told when it stops: so Close waits first (endChanges).
func (l *Log) configure(change func() raft.IndexFuture) error {
	l.changesMu.Lock()
	if l.changesOver {
		l.changesMu.Unlock()
		return ErrClosed
	}
	l.changes.Add(1)
	l.changesMu.Unlock()
	defer l.changes.Done()
	return change().Error()
}

// endChanges lets changes of the members under way be decided, while Raft runs. A disk that
// has failed decides nothing any more.
func (l *Log) endChanges() {
	l.changesMu.Lock()
	l.changesOver = true
	l.changesMu.Unlock()
	done := make(chan struct{})
	go func() {
		l.changes.Wait()
		close(done)
	}()
	t := time.NewTimer(memberTimeout)
	defer t.Stop()
	select {
	case <-done:
	case <-l.failedCh:
	case <-t.C:
	}
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
	case l.isOfAnotherLineage(state):
		return fmt.Errorf("it %w", errLineage)
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
		if !l.caughtUp(v).Before(begin) {
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
