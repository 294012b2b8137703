package metalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

// Peer is a node that should be a member of the quorum, and where it is. Who is there is
// asked of the address: the disk may be another one than it was.
type Peer struct {
	NodeID  int32
	Address string
}

// Prober asks the node at an address who it is (Door.Probe).
type Prober func(ctx context.Context, address string) (State, error)

const (
	// firstFormPause and lastFormPause separate attempts of a new cluster to begin.
	firstFormPause = 50 * time.Millisecond
	lastFormPause  = time.Second
	// membersInterval is how often a leader compares the members with those that should
	// be, beside when metadata changes.
	membersInterval = time.Second
	// membersPause lies between two comparisons at least, each of which dials who is silent,
	// however fast metadata changes.
	membersPause = 20 * time.Millisecond
	// memberTimeout bounds one change of the members.
	memberTimeout = 10 * time.Second
	// complaintPause lies between two lines of the log about the same trouble.
	complaintPause = 10 * time.Second
)

// Form makes the voters, of whom this node is one, a new cluster, if all of them are empty
// (D8). That is for the one with the smallest id to do; the others, and one whose disk is
// empty while others know of a cluster, wait to be added by a leader. It returns when this
// node is a member, or ctx ends.
func (l *Log) Form(ctx context.Context, voters []Peer, probe Prober) error {
	first := slices.MinFunc(voters, func(a, b Peer) int { return cmp.Compare(a.NodeID, b.NodeID) })
	return l.formBy(ctx, func() error {
		if first.NodeID != l.opts.NodeID {
			return nil
		}
		return l.tryForm(ctx, voters, probe)
	})
}

// formBy tries until this node knows of a cluster, or ctx ends, and says now and then why
// there is none.
func (l *Log) formBy(ctx context.Context, try func() error) error {
	complained, pause := time.Time{}, firstFormPause
	for l.Empty() {
		if err := try(); err != nil && time.Since(complained) >= complaintPause {
			complained = time.Now()
			l.logger.Info("this node is in no cluster yet", "reason", err)
		}
		if err := sleep(ctx, l.closing, pause); err != nil {
			return err
		}
		pause = min(2*pause, lastFormPause)
	}
	return nil
}

// tryForm asks everybody, and begins the cluster if they agree.
func (l *Log) tryForm(ctx context.Context, voters []Peer, probe Prober) error {
	var complete []Voter
	for _, v := range voters {
		if v.NodeID == l.opts.NodeID {
			complete = append(complete, l.self())
			continue
		}
		state, err := probe(ctx, v.Address)
		switch {
		case err != nil:
			return fmt.Errorf("voter %d: %w", v.NodeID, err)
		case state.NodeID != v.NodeID:
			return fmt.Errorf("at %s is node %d, not voter %d", v.Address, state.NodeID, v.NodeID)
		case state.HasPartitions:
			return fmt.Errorf("voter %d has partitions, but no metadata: is a disk missing?", v.NodeID)
		case !state.Empty:
			return fmt.Errorf("voter %d belongs to cluster %s already: this node waits to be added", v.NodeID, state.ClusterID)
		}
		complete = append(complete, Voter{NodeID: v.NodeID, DirectoryID: state.DirectoryID, Address: v.Address})
	}
	if may := l.opts.MayBootstrap; may != nil {
		if err := may(); err != nil {
			l.fail(err)
			return err
		}
	}
	l.logger.Info("new cluster", "voters", len(complete))
	if err := l.BootstrapVoters(complete); err != nil {
		return err
	}
	l.trans.electNow(l.failedCh) // the others know of no leader, and of no cluster
	return nil
}

// Members says who should keep the metadata log, or a copy of it.
type Members struct {
	// Voters are configured; nil: the log itself says who they are, and AddVoter and
	// RemoveVoter change it.
	Voters []Peer
	// Controllers are the controllers that are registered, where Voters is nil. Those that
	// are no voters become observers, so that they can become voters.
	Controllers func() []Peer
	// Observers are the brokers that are registered and no voters. It is asked by the
	// leader alone.
	Observers func() []Peer
	Probe     Prober
}

// KeepMembers makes the members what they should be, while this node leads, until ctx ends:
//
//	case A  a node is no member: it is added as what is found at its address
//	case B  a member does not answer, and another disk is found at its address: that one
//	        takes its place (D19; a voter that the log alone names: replace.go)
//	case C  an observer is not registered any more: it is removed
//	case D  a voter has registered another address, and is found there: it is noted
//
// Voters that are not configured are never added or removed by it, beside case B.
// A voter that is silent, and whose address tells nothing, stays: it is down.
func (l *Log) KeepMembers(ctx context.Context, m Members) {
	var complained time.Time
	for {
		_, moved := l.loader.position()
		if sleepOr(ctx, l.closing, moved, membersInterval) != nil || sleep(ctx, l.closing, membersPause) != nil {
			return
		}
		if l.raft.State() != raft.Leader {
			continue
		}
		if err := l.reconcile(ctx, m); err != nil && time.Since(complained) >= complaintPause {
			complained = time.Now()
			level := slog.LevelInfo
			if errors.Is(err, errLineage) {
				level = slog.LevelWarn // nothing but somebody's hand ends that
			}
			l.logger.Log(ctx, level, "members of the metadata log are not what they should be", "reason", err)
		}
	}
}

// reconcile does what is due, one node after the other.
func (l *Log) reconcile(ctx context.Context, m Members) error {
	var errs []error
	voters, observers := m.Voters, m.Observers()
	if voters == nil {
		controllers := m.Controllers()
		errs = append(errs, l.keepVoters(ctx, controllers, m.Probe))
		voters = peers(l.voters())
		observers = append(observers, l.candidates(ctx, controllers, append(slices.Clone(voters), observers...), m.Probe)...)
	} else {
		errs = append(errs, l.settleMembers(ctx, voters, raft.Voter, m.Probe))
	}
	observing := slices.DeleteFunc(slices.Clone(observers), func(p Peer) bool { return containsNode(voters, p.NodeID) })
	errs = append(errs, l.settleMembers(ctx, observing, raft.Nonvoter, m.Probe))
	for _, s := range l.servers() {
		id, ok := parseServerID(s.ID)
		if s.Suffrage == raft.Voter || !ok || isSuccessor(s) {
			continue
		}
		if !containsNode(observers, id) || l.isFormer(s, id) {
			errs = append(errs, l.removeObserver(ctx, s.ID))
		}
	}
	return errors.Join(errs...)
}

// removeObserver takes one out that is still none but that. Nobody may change the voters
// meanwhile: whoever is about to be one may be registered nowhere yet, and may vote by the time
// that it is to go. While somebody does, it waits for the next time.
func (l *Log) removeObserver(ctx context.Context, id raft.ServerID) error {
	return l.unlessChanging(ctx, func() error {
		observes := func(s raft.Server) bool { return s.ID == id && s.Suffrage != raft.Voter }
		if !slices.ContainsFunc(l.servers(), observes) {
			return nil
		}
		l.logger.Info("observer of the metadata log is removed", "node", id)
		return l.removeServer(id)
	})
}

// unlessChanging makes a change of the members if nobody changes the voters.
func (l *Log) unlessChanging(ctx context.Context, change func() error) error {
	brief, cancel := context.WithTimeout(ctx, catchUpPause)
	defer cancel()
	err := l.changeVoters(brief, change)
	if errors.Is(err, errChanging) {
		return nil
	}
	return err
}

// isFormer tells whether an observer is what a node was on a disk that it has no more.
func (l *Log) isFormer(s raft.Server, node int32) bool {
	return l.isSilent(s.ID) && slices.ContainsFunc(l.servers(), func(other raft.Server) bool {
		id, ok := parseServerID(other.ID)
		return ok && id == node && other.ID != s.ID && !l.isSilent(other.ID)
	})
}

func (l *Log) settleMembers(ctx context.Context, list []Peer, suffrage raft.ServerSuffrage, probe Prober) error {
	var errs []error
	for _, p := range list {
		errs = append(errs, l.settleMember(ctx, p, suffrage, probe))
	}
	return errors.Join(errs...)
}

func containsNode(list []Peer, id int32) bool {
	return slices.ContainsFunc(list, func(p Peer) bool { return p.NodeID == id })
}

// keepVoters decides cases B and D for voters that the log itself names. Nobody may change
// them meanwhile: one that is removed would be added again. While somebody does it waits for
// the next time.
func (l *Log) keepVoters(ctx context.Context, controllers []Peer, probe Prober) error {
	return l.unlessChanging(ctx, func() error {
		return errors.Join(l.moveVoters(ctx, controllers, probe), l.finishSuccessions(ctx, probe), l.replaceVoters(ctx, controllers, probe))
	})
}

func peers(voters []Voter) (list []Peer) {
	for _, v := range voters {
		list = append(list, Peer{v.NodeID, v.Address})
	}
	return list
}

// moveVoters decides case D.
func (l *Log) moveVoters(ctx context.Context, controllers []Peer, probe Prober) error {
	var errs []error
	for _, v := range l.voters() {
		if v.NodeID == l.opts.NodeID {
			v.Address = l.opts.Address
		} else if i := slices.IndexFunc(controllers, func(p Peer) bool { return p.NodeID == v.NodeID }); i >= 0 {
			v.Address = controllers[i].Address
		}
		errs = append(errs, l.moveVoter(ctx, v, probe))
	}
	return errors.Join(errs...)
}

// candidates are the controllers that are in none of the lists, and live: nobody ever takes
// back the registration of a controller.
func (l *Log) candidates(ctx context.Context, controllers, others []Peer, probe Prober) (list []Peer) {
	for _, c := range controllers {
		if containsNode(others, c.NodeID) || c.NodeID == l.opts.NodeID {
			continue
		}
		member := slices.IndexFunc(l.servers(), func(s raft.Server) bool {
			id, ok := parseServerID(s.ID)
			return ok && id == c.NodeID && !l.isSilent(s.ID)
		})
		if member < 0 {
			if state, err := probe(ctx, c.Address); err != nil || state.NodeID != c.NodeID {
				continue
			}
		}
		list = append(list, c)
	}
	return list
}

// settleMember decides cases A and B for one node.
func (l *Log) settleMember(ctx context.Context, p Peer, suffrage raft.ServerSuffrage, probe Prober) error {
	var old *raft.Server
	for _, s := range l.servers() {
		if id, ok := parseServerID(s.ID); ok && id == p.NodeID {
			old = &s
			break
		}
	}
	if old != nil && !l.isSilent(old.ID) || p.NodeID == l.opts.NodeID {
		return nil
	}
	found, err := l.foundAt(ctx, p, probe)
	switch {
	case err != nil:
		return err
	case old != nil && old.ID == serverID(found) && addressOf(*old) == found.Address:
		return nil // it is on its way back
	case old != nil && old.ID != serverID(found):
		l.logger.Warn("member of the metadata log has another disk and is replaced", "old", old.ID, "new", serverID(found))
		if err := l.removeServer(old.ID); err != nil {
			return fmt.Errorf("remove %s: %w", old.ID, err)
		}
	}
	l.logger.Info("member of the metadata log is added", "node", serverID(found), "address", p.Address, "voter", suffrage == raft.Voter)
	return l.add(found, suffrage)
}

// foundAt is who answers at a node's address, if it is that node, and not of another cluster.
func (l *Log) foundAt(ctx context.Context, p Peer, probe Prober) (v Voter, err error) {
	state, err := probe(ctx, p.Address)
	switch {
	case err != nil:
		return v, fmt.Errorf("node %d: %w", p.NodeID, err)
	case state.NodeID != p.NodeID:
		return v, fmt.Errorf("at %s is node %d, not node %d", p.Address, state.NodeID, p.NodeID)
	case state.ClusterID != "" && state.ClusterID != l.Image().ClusterID():
		return v, fmt.Errorf("node %d belongs to cluster %s", p.NodeID, state.ClusterID)
	case l.isOfAnotherLineage(state):
		return v, fmt.Errorf("node %d %w", p.NodeID, errLineage)
	}
	return Voter{NodeID: p.NodeID, DirectoryID: state.DirectoryID, Address: p.Address}, nil
}

func (l *Log) add(v Voter, suffrage raft.ServerSuffrage) error {
	return l.addAt(v, l.serverAddress(v), suffrage)
}

func (l *Log) addAt(v Voter, address raft.ServerAddress, suffrage raft.ServerSuffrage) error {
	err := l.configure(func() raft.IndexFuture {
		if suffrage == raft.Voter {
			return l.raft.AddVoter(serverID(v), address, 0, memberTimeout)
		}
		return l.raft.AddNonvoter(serverID(v), address, 0, memberTimeout)
	})
	if err != nil {
		return fmt.Errorf("add %s: %w", serverID(v), err)
	}
	return nil
}

func sleep(ctx context.Context, closing <-chan struct{}, d time.Duration) error {
	return sleepOr(ctx, closing, nil, d)
}

// sleepOr sleeps until it is woken, or may not go on.
func sleepOr(ctx context.Context, closing, wake <-chan struct{}, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-wake:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-closing:
		return ErrClosed
	}
}
