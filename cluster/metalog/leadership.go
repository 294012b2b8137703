package metalog

import (
	"strconv"
	"strings"

	"github.com/hashicorp/raft"
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
	return string(a), nodeID, ok
}

// serverID is a node's identity as a Raft server (D19): an empty disk under an old node id
// is another server.
func serverID(v Voter) raft.ServerID {
	return raft.ServerID(strconv.Itoa(int(v.NodeID)) + "/" + v.DirectoryID.String())
}

func parseServerID(id raft.ServerID) (nodeID int32, ok bool) {
	number, _, ok := strings.Cut(string(id), "/")
	n, err := strconv.ParseInt(number, 10, 32)
	return int32(n), ok && err == nil
}
