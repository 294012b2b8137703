package metalog

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/klamm-mq/klamm/cluster/metalog/raftstore"
)

const (
	// trailingLogs is how many entries stay behind a snapshot, so that a follower that was
	// away for a moment needs none. It must exceed maxInFlight: see there.
	trailingLogs = 1024
	// snapshotThreshold and snapshotInterval say when Raft takes a snapshot by itself.
	snapshotThreshold = 8192
	snapshotInterval  = 2 * time.Minute
	// maxAppendEntries bounds the entries of one message and of one write.
	maxAppendEntries = 64
	// logCacheEntries keeps the newest entries at hand for replication.
	logCacheEntries = 64
)

// raftConfig is Raft's configuration of this node.
func (l *Log) raftConfig() *raft.Config {
	t := l.opts.Timing
	c := raft.DefaultConfig()
	c.LocalID = serverID(l.self())
	c.HeartbeatTimeout = t.HeartbeatTimeout
	c.ElectionTimeout = t.ElectionTimeout
	c.LeaderLeaseTimeout = t.LeaderLease
	c.CommitTimeout = t.CommitTimeout
	c.MaxAppendEntries = maxAppendEntries
	c.TrailingLogs = trailingLogs
	c.SnapshotThreshold = snapshotThreshold
	c.SnapshotInterval = snapshotInterval
	c.ShutdownOnRemove = false
	c.NoLegacyTelemetry = true
	c.Logger = newRaftLogger(l.logger)
	if l.opts.tune != nil {
		l.opts.tune(c)
	}
	return c
}

func (l *Log) self() Voter {
	return Voter{NodeID: l.opts.NodeID, DirectoryID: l.opts.DirectoryID, Address: l.opts.Address}
}

// startRaft opens the snapshots, bootstraps a cluster of one if asked to, and starts Raft.
func (l *Log) startRaft() error {
	snapshots, err := l.openSnapshots()
	if err != nil {
		return err
	}
	if err := l.settle(snapshots); err != nil {
		return err
	}
	cache, err := raft.NewLogCache(logCacheEntries, l.store)
	if err != nil {
		return err
	}
	config := l.raftConfig()
	l.trans = newTransport(l, config.Logger)
	err = l.newRaft(config, cache, snapshots)
	if err == nil {
		close(l.started)
		err = l.checkIdentity()
	}
	if err != nil {
		return errors.Join(err, l.stopRaft())
	}
	return nil
}

func (l *Log) openSnapshots() (raft.SnapshotStore, error) {
	files, err := raftstore.OpenSnapshots(l.opts.FS, filepath.Join(l.opts.Dir, "snapshots"), l.logger)
	return guardedSnapshots{files, l.space}, err
}

// newRaft runs on a goroutine of its own, since a store that fails ends the goroutine that
// it is called on.
func (l *Log) newRaft(config *raft.Config, logs raft.LogStore, snapshots raft.SnapshotStore) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if l.opts.BootstrapSelf {
			if err = l.bootstrapSelf(config, logs, snapshots); err != nil {
				return
			}
		}
		l.raft, err = raft.NewRaft(config, l.fsm, logs, l.store, snapshots, l.trans)
	}()
	<-done
	return errors.Join(err, l.failure())
}

func (l *Log) bootstrapSelf(config *raft.Config, logs raft.LogStore, snapshots raft.SnapshotStore) error {
	known, err := raft.HasExistingState(logs, l.store, snapshots)
	if err != nil || known {
		return err
	}
	if may := l.opts.MayBootstrap; may != nil {
		if err := may(); err != nil {
			return err
		}
	}
	l.logger.Info("new cluster of one", "node", serverID(l.self()))
	return raft.BootstrapCluster(config, logs, l.store, snapshots, l.trans, l.configuration([]Voter{l.self()}))
}

func (l *Log) configuration(voters []Voter) raft.Configuration {
	var c raft.Configuration
	for _, v := range voters {
		c.Servers = append(c.Servers, raft.Server{
			Suffrage: raft.Voter, ID: serverID(v), Address: l.serverAddress(v),
		})
	}
	return c
}

// settle repairs what a crash can leave between the writes of log, term and snapshots.
func (l *Log) settle(snapshots raft.SnapshotStore) error {
	list, err := snapshots.List()
	if err != nil {
		return err
	}
	first, err := l.store.FirstIndex()
	if err != nil {
		return err
	}
	last, err := l.store.LastIndex()
	if err != nil {
		return err
	}
	switch {
	case last == 0 && len(list) == 0:
		return undoBootstrap(l.store.Store)
	case last == 0:
		return nil
	default:
		return joinSnapshot(l.store, first, last, list)
	}
}

// keyCurrentTerm is where raft keeps its term.
const keyCurrentTerm = "CurrentTerm"

// undoBootstrap takes back a bootstrap that a crash has interrupted: raft.BootstrapCluster
// stores term 1, then the first entry, and refuses to run where it finds a term. Nothing
// else sets term 1: elections begin with 2.
func undoBootstrap(store raft.StableStore) error {
	term, err := store.GetUint64([]byte(keyCurrentTerm))
	if err != nil || term != 1 {
		return err
	}
	return store.SetUint64([]byte(keyCurrentTerm), 0)
}

// joinSnapshot makes log and newest snapshot fit together. After an installed snapshot and
// a crash the log may end before the snapshot: what is left of it is covered and goes,
// since the next entry would leave a gap. A log that begins after the snapshot has lost
// entries.
func joinSnapshot(logs raft.LogStore, first, last uint64, list []*raft.SnapshotMeta) error {
	var covered uint64
	if len(list) > 0 {
		covered = list[0].Index
	}
	switch {
	case last < covered:
		return logs.DeleteRange(first, last)
	case first > covered+1:
		return fmt.Errorf("metadata entries %d to %d are missing", covered+1, first-1)
	default:
		return nil
	}
}

// checkIdentity refuses a log that says that this node is someone else: with another
// directory id it would wait for ever for votes that nobody may cast.
func (l *Log) checkIdentity() error {
	servers := l.servers()
	self := serverID(l.self())
	if err := l.checkVoters(servers); err != nil {
		return err
	}
	for _, s := range servers {
		if s.ID == self {
			return nil
		}
	}
	if l.opts.BootstrapSelf && len(servers) == 0 {
		return fmt.Errorf("this node has taken part in an election of a quorum (term %d), but never received its log; "+
			"it cannot become a cluster of its own", l.raft.CurrentTerm())
	}
	if l.opts.BootstrapSelf && len(servers) == 1 {
		return fmt.Errorf("the log is that of node %s, this is node %s (node id/directory id)", servers[0].ID, self)
	}
	return nil
}

// checkVoters refuses the log of other voters than those that are configured: on the disk of
// a cluster of one, this node would go on as that. One or the other voter may be missing
// while it is being replaced, or is new. A log that was restored begins with one voter, and
// takes in the others.
func (l *Log) checkVoters(servers []raft.Server) error {
	if len(l.opts.Voters) < 2 || len(servers) == 0 || !l.Lineage().IsZero() {
		return nil
	}
	var known []int32
	for _, s := range servers {
		if id, ok := parseServerID(s.ID); ok && s.Suffrage == raft.Voter {
			known = append(known, id)
		}
	}
	both := 0
	var configured []int32
	for _, v := range l.opts.Voters {
		configured = append(configured, v.NodeID)
		if slices.Contains(known, v.NodeID) {
			both++
		}
	}
	if 2*both <= len(configured) {
		return fmt.Errorf("the log is that of the voters %v, controller.quorum.voters names %v: "+
			"is this the disk of another cluster? A cluster of one cannot become one of several by configuration", known, configured)
	}
	return nil
}

// leads is for those that Raft itself may call before it is known here.
func (l *Log) leads() bool {
	select {
	case <-l.started:
		return l.raft.State() == raft.Leader
	default:
		return true
	}
}

// lastIndex is 0 as long as Raft is not known here.
func (l *Log) lastIndex() uint64 {
	select {
	case <-l.started:
		return l.raft.LastIndex()
	default:
		return 0
	}
}

func (l *Log) servers() []raft.Server { return l.raft.GetConfiguration().Configuration().Servers }

func (l *Log) isOnlyVoter() bool {
	voters := 0
	self := false
	for _, s := range l.servers() {
		if s.Suffrage == raft.Voter {
			voters++
			self = self || s.ID == serverID(l.self())
		}
	}
	return self && voters == 1
}

// Empty tells that this node knows of no cluster: it has no entry, snapshot or term. It is
// what a voter answers when it is asked before a bootstrap (D8).
func (l *Log) Empty() bool { return len(l.servers()) == 0 && l.raft.LastIndex() == 0 }

// BootstrapVoters makes an empty log the first of a cluster with the given voters, this
// one included. The caller has made sure that all of them are empty (D8).
func (l *Log) BootstrapVoters(voters []Voter) error {
	if err := l.raft.BootstrapCluster(l.configuration(voters)).Error(); err != nil {
		return fmt.Errorf("bootstrap metadata voters: %w", err)
	}
	return nil
}

// stopRaft ends Raft. Its connections are closed under it: it would wait for answers.
func (l *Log) stopRaft() error {
	if l.raft == nil {
		return l.trans.Close()
	}
	future := l.raft.Shutdown()
	err := l.trans.Close()
	return errors.Join(err, future.Error())
}
