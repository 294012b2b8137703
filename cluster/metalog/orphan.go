package metalog

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/klamm-mq/klamm/cluster/peer"
)

// A follower whose leader's process has ended need not wait until its silence is long enough.
//
//	a connection from another node ends
//	  └─ the leader's address refuses connections, twice ── no ──► its silence decides
//	       └─ stand for election: the first voter at once, the next one later, and so on
//
// Timeouts can thus be as long as a busy machine needs, and only a machine that is gone, or a
// process that stands still, takes as long.
//
// Whoever stands asks for votes as one that the leader has handed over to: the others need not
// have noticed. Should the leader be alive after all, that costs a change of leader, as
// everything between Raft's members does that is cut off without an end.

// standingStagger lies between two voters: votes must not be split.
const standingStagger = 150 * time.Millisecond

// watchConnections stands for election when the leader's process has ended.
func (l *Log) watchConnections() {
	defer close(l.orphaned)
	if l.opts.Refuses == nil || l.trans.streams == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-l.closing:
		case <-l.failedCh:
		case <-ctx.Done():
		}
		cancel()
	}()
	for {
		select {
		case <-l.trans.streams.lost:
			l.connectionLost(ctx, time.Now())
		case <-ctx.Done():
			return
		}
	}
}

// connectionLost finds out what the end of a connection means. It may have been anybody's.
func (l *Log) connectionLost(ctx context.Context, at time.Time) {
	leader, id := l.leaderAt(at)
	rank, votes := l.standingRank(id)
	if leader == "" || !votes || !l.refusesTwice(ctx, leader) {
		return
	}
	if l.raft.LastContact().After(at) || !pauseFor(ctx, time.Duration(rank)*standingStagger) {
		return
	}
	now, _ := l.raft.LeaderWithID()
	if now == "" { // somebody stands already: if in vain, this node may have what he lacks
		if !pauseFor(ctx, standingStagger) {
			return
		}
		now, _ = l.raft.LeaderWithID()
	}
	if now != "" && now != leader || l.raft.State() != raft.Follower {
		return
	}
	l.logger.Info("the process of the metadata log's leader has ended, this node stands for election", "leader", string(id))
	l.trans.electNow(ctx.Done())
}

// justNow is how long a leader may be unknown for the end of its connections to be told.
const justNow = time.Second

// knownLeader is the last one that this node knew.
type knownLeader struct {
	address      raft.ServerAddress
	id           raft.ServerID
	unknownSince time.Time // zero while it is known, as far as has been heard
}

// leaderAt is who leads, or did until a moment before. Another node may have noticed first that
// it is gone: who is asked for a vote knows of no leader any more, and yet has to stand if that
// one is not elected.
func (l *Log) leaderAt(at time.Time) (raft.ServerAddress, raft.ServerID) {
	if leader, id := l.raft.LeaderWithID(); leader != "" {
		return leader, id
	}
	l.leaderMu.Lock()
	defer l.leaderMu.Unlock()
	last := l.lastLeader
	if !last.unknownSince.IsZero() && at.Sub(last.unknownSince) > justNow {
		return "", ""
	}
	return last.address, last.id
}

// standingRank is this node's place among the voters without the leader.
func (l *Log) standingRank(leader raft.ServerID) (rank int, votes bool) {
	self := serverID(l.self())
	var ids []raft.ServerID
	for _, s := range l.servers() {
		if s.Suffrage == raft.Voter && s.ID != leader {
			ids = append(ids, s.ID)
		}
	}
	slices.SortFunc(ids, func(a, b raft.ServerID) int { return strings.Compare(string(a), string(b)) })
	rank = slices.Index(ids, self)
	return rank, rank >= 0
}

func (l *Log) refusesTwice(ctx context.Context, leader raft.ServerAddress) bool {
	id, address := splitAddress(leader)
	if configured := configuredAt(l.opts.Voters, id); configured != "" {
		address = configured
	}
	return peer.RefusesTwice(ctx, func(ctx context.Context) bool { return l.opts.Refuses(ctx, address) })
}

// pauseFor sleeps, false if ctx ends first.
func pauseFor(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
