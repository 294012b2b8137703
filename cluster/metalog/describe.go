package metalog

import (
	"time"

	"github.com/hashicorp/raft"

	"github.com/klamm-mq/klamm/protocol/uuid"
)

// QuorumState is what this node knows of the quorum. Below Leader it is known on the
// leader alone.
type QuorumState struct {
	Leader     int32 // -1: not known
	LeaderHere bool

	Term      Term
	Committed uint64 // index of the last entry that is
	Voters    []Member
	Observers []Member
}

// Member is a member of the quorum as its leader sees it.
type Member struct {
	NodeID      int32
	DirectoryID uuid.UUID
	Self        bool
	// LastIndex is that of its last entry; of others, of the last one that this leader knows
	// it to have. -1: not known.
	LastIndex int64
	// Answered is when it last answered this leader, CaughtUp when it last had all that the
	// leader has; zero: not in this term. Both are now for the leader itself.
	Answered, CaughtUp time.Time
}

// Voters are those that this node knows of, be the newest change committed or not; none on one
// that has no log yet.
func (l *Log) Voters() []Voter { return l.voters() }

// Quorum tells who keeps the metadata log.
func (l *Log) Quorum() QuorumState {
	q := QuorumState{Leader: -1, Term: l.raft.CurrentTerm()}
	if _, id, known := l.Leader(); known {
		q.Leader = id
	}
	if l.raft.State() != raft.Leader {
		return q
	}
	q.Leader, q.LeaderHere = l.opts.NodeID, true
	q.Committed = l.raft.CommitIndex()
	for _, s := range l.servers() {
		m, ok := l.member(s, q.Term)
		switch {
		case !ok:
		case s.Suffrage == raft.Voter:
			q.Voters = append(q.Voters, m)
		default:
			q.Observers = append(q.Observers, m)
		}
	}
	return q
}

func (l *Log) member(s raft.Server, term Term) (m Member, ok bool) {
	v, ok := parseServer(s)
	if !ok {
		return m, false
	}
	m = Member{NodeID: v.NodeID, DirectoryID: v.DirectoryID, LastIndex: -1, Self: s.ID == serverID(l.self())}
	if m.Self {
		m.LastIndex, m.Answered = int64(l.raft.LastIndex()), time.Now()
		m.CaughtUp = m.Answered
		return m, true
	}
	p := l.trans.progress.of(s.ID, term)
	m.Answered, m.CaughtUp = p.answered, p.caughtUp
	if p.index > 0 {
		m.LastIndex = int64(p.index)
	}
	return m, true
}
