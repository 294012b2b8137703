package metalog

import (
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/klamm-mq/klamm/protocol/uuid"
)

// Leadership gives the newest state of this node's leadership each time it changes; what
// was not received is replaced. A leadership that was lost and regained shows as a higher
// term. The channel has one receiver and is never closed.
func (l *Log) Leadership() <-chan Leadership { return l.leadership }

// watch turns Raft's notices into leadership events.
func (l *Log) watch() {
	defer close(l.watched)
	var last Leadership
	for {
		select {
		case <-l.raft.LeaderCh():
		case <-l.failedCh:
		case <-l.closing:
			l.announce(Leadership{Term: l.raft.CurrentTerm()}, &last)
			return
		}
		// State and term are read one after the other. Should the leadership be lost in
		// between, the notice of that is still to come; an event of a term that this node
		// does not lead is harmless, since Barrier fails in it.
		now := Leadership{Leader: l.raft.State() == raft.Leader && l.failure() == nil, Term: l.raft.CurrentTerm()}
		l.announce(now, &last)
		if l.failure() != nil {
			return
		}
	}
}

func (l *Log) announce(now Leadership, last *Leadership) {
	if now == *last {
		return
	}
	*last = now
	l.metrics.leader.Set(0)
	if now.Leader {
		l.metrics.leader.Set(1)
	}
	select {
	case <-l.leadership:
	default:
	}
	l.leadership <- now // this goroutine is the only sender
}

// Leader tells who leads the log, as far as this node knows.
func (l *Log) Leader() (address string, nodeID int32, known bool) {
	a, id := l.raft.LeaderWithID()
	nodeID, ok := parseServerID(id)
	_, address = splitAddress(a)
	return address, nodeID, ok
}

// LeaderMoved is closed when this node next hears of another leader, or of none.
func (l *Log) LeaderMoved() <-chan struct{} {
	l.leaderMu.Lock()
	defer l.leaderMu.Unlock()
	return l.leaderMoved
}

// maxNews bounds the news that wait; what is dropped is followed by more, or repeats what
// is there.
const maxNews = 64

// observe tells those who wait on LeaderMoved, and keeps account of who does not answer
// this node while it leads. It returns what ends that.
func (l *Log) observe() (stop func()) {
	news := make(chan raft.Observation, maxNews)
	observer := raft.NewObserver(news, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.LeaderObservation, raft.FailedHeartbeatObservation, raft.ResumedHeartbeatObservation:
			return true
		}
		return false
	})
	l.raft.RegisterObserver(observer)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case o := <-news:
				l.observed(o)
			case <-l.closing:
				return
			}
		}
	}()
	return func() {
		<-done
		l.raft.DeregisterObserver(observer)
	}
}

func (l *Log) observed(o raft.Observation) {
	l.leaderMu.Lock()
	defer l.leaderMu.Unlock()
	switch data := o.Data.(type) {
	case raft.LeaderObservation:
		clear(l.silent)
		if data.LeaderAddr != "" {
			l.lastLeader = knownLeader{address: data.LeaderAddr, id: data.LeaderID}
		} else if l.lastLeader.unknownSince.IsZero() {
			l.lastLeader.unknownSince = time.Now()
		}
		close(l.leaderMoved)
		l.leaderMoved = make(chan struct{})
	case raft.FailedHeartbeatObservation:
		l.silent[data.PeerID] = time.Now()
	case raft.ResumedHeartbeatObservation:
		delete(l.silent, data.PeerID)
	}
}

// isSilent tells whether a peer did not answer this leader's last heartbeat. Raft does not say
// that one is back which was no member in between.
func (l *Log) isSilent(id raft.ServerID) bool {
	l.leaderMu.Lock()
	since, silent := l.silent[id]
	l.leaderMu.Unlock()
	return silent && !l.trans.progress.of(id, l.raft.CurrentTerm()).answered.After(since)
}

// silentMembers counts them.
func (l *Log) silentMembers() (n int) {
	select {
	case <-l.started:
	default:
		return 0
	}
	for _, s := range l.servers() {
		if l.isSilent(s.ID) {
			n++
		}
	}
	return n
}

// Resign has another voter lead, if this one does and there is one that is up to date; it
// returns when that is so, or does not come about.
func (l *Log) Resign() {
	if l.raft.State() != raft.Leader || l.isOnlyVoter() {
		return
	}
	if err := l.raft.LeadershipTransfer().Error(); err != nil {
		l.logger.Info("leadership of the metadata log is not handed over", "reason", err)
	}
}

// serverID is a node's identity as a Raft server (D19): an empty disk under an old node id
// is another server.
func serverID(v Voter) raft.ServerID {
	return raft.ServerID(strconv.Itoa(int(v.NodeID)) + "/" + v.DirectoryID.String())
}

// serverAddress is where Raft reaches a node. Between nodes the identity goes with it, so
// that a node refuses what is meant for the one that had its address before: an empty disk
// must not vote for what was on the old one.
func (l *Log) serverAddress(v Voter) raft.ServerAddress {
	if l.opts.Stream == nil {
		return raft.ServerAddress(v.Address)
	}
	return raft.ServerAddress(string(serverID(v)) + "@" + v.Address)
}

func splitAddress(a raft.ServerAddress) (id, address string) {
	whole := strings.TrimSuffix(string(a), successorMark)
	id, address, ok := strings.Cut(whole, "@")
	if !ok {
		return "", whole
	}
	return id, address
}

func addressOf(s raft.Server) string {
	_, address := splitAddress(s.Address)
	return address
}

func parseServerID(id raft.ServerID) (nodeID int32, ok bool) {
	number, _, ok := strings.Cut(string(id), "/")
	n, err := strconv.ParseInt(number, 10, 32)
	return int32(n), ok && err == nil
}

// parseServer reads what is known of a member.
func parseServer(s raft.Server) (v Voter, ok bool) {
	_, dir, _ := strings.Cut(string(s.ID), "/")
	if v.NodeID, ok = parseServerID(s.ID); !ok {
		return v, false
	}
	var err error
	v.DirectoryID, err = uuid.Parse(dir)
	_, v.Address = splitAddress(s.Address)
	return v, err == nil
}
