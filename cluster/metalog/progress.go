package metalog

import (
	"io"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// progress is how far the peers of a leader have come, which Raft does not tell: it is read
// off the messages that really went to them and their answers. An answer is to Raft what a
// Fetch is to Kafka's followers, and so are the times that DescribeQuorum gives.
type progress struct {
	raftTransport
	end func() uint64 // index of this node's last entry

	mu    sync.Mutex
	peers map[int32]peerProgress // by node: a new disk takes the place of the old one
}

// peerProgress is about one term of one peer.
type peerProgress struct {
	id       raft.ServerID
	term     uint64
	index    uint64 // up to which the peer's log is the leader's; 0: not known yet
	answered time.Time
	end      uint64 // the leader's last index at that time
	caughtUp time.Time
}

func newProgress(t raftTransport, end func() uint64) *progress {
	return &progress{raftTransport: t, end: end, peers: map[int32]peerProgress{}}
}

// AppendEntries implements raft.Transport.
func (p *progress) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	err := p.raftTransport.AppendEntries(id, target, args, resp)
	if err == nil && resp.Term == args.Term {
		var index uint64
		if resp.Success { // a heartbeat asks about no entry, and its sum is 0
			index = args.PrevLogEntry + uint64(len(args.Entries))
		}
		p.note(id, args.Term, index, time.Now())
	}
	return err
}

// InstallSnapshot implements raft.Transport.
func (p *progress) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	err := p.raftTransport.InstallSnapshot(id, target, args, resp, data)
	if err == nil && resp.Success && resp.Term == args.Term {
		p.note(id, args.Term, args.LastLogIndex, time.Now())
	}
	return err
}

// note counts an answer. A peer has caught up when it has all that the leader has now, or,
// as of its previous answer, all that the leader had then: one that is always a message
// behind is in step.
func (p *progress) note(id raft.ServerID, term, index uint64, now time.Time) {
	node, ok := parseServerID(id)
	if !ok {
		return
	}
	end := p.end()
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.peers[node]
	if s.id != id || s.term < term {
		s = peerProgress{id: id, term: term}
	}
	if s.term > term {
		return
	}
	s.index = max(s.index, index)
	switch {
	case s.index == 0:
	case s.index >= end:
		s.caughtUp = now
	case s.end > 0 && s.index >= s.end && s.caughtUp.Before(s.answered):
		s.caughtUp = s.answered
	}
	s.answered, s.end = now, end
	p.peers[node] = s
}

// of tells how far a peer has come in a term; the zero value if it has not answered in it.
func (p *progress) of(id raft.ServerID, term uint64) peerProgress {
	node, _ := parseServerID(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.peers[node]; s.id == id && s.term == term {
		return s
	}
	return peerProgress{}
}
