package metalog

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// quiet sends peers what is new at once, and spares them what is not.
//
// Raft tells a peer what is committed with the next entries, or after CommitTimeout. That can
// be long, since with each entry that this leader has applied those peers that have it are
// told here. Such a message is one that Raft might have sent: the last one that the peer
// agreed with, and a commit that is not behind what it agreed with.
//
// Raft's heartbeats are a tenth of the timeout apart. While the peer has just answered, and
// nothing has changed since, the answer is known, and the peer is left alone.
//
// A message that is answered from here makes the leader believe that it has heard of the peer
// just now, when it was up to quietFor ago: so much later than its lease it steps down. So
// quietFor is well below that, and below the time after which a peer looks for another
// leader. raft.VerifyLeader would be deceived, too; nobody asks it.
type quiet struct {
	quietFor time.Duration

	mu      sync.Mutex
	peers   map[raft.ServerID]heard         // that answered last time; bounded by the members
	absent  map[raft.ServerID]chan struct{} // closed when the peer answers again
	applied uint64                          // index of the last entry that this node has applied
	term    uint64                          // the highest of a message
	sent    int                             // messages that went to peers; for tests
	closed  bool
	telling sync.WaitGroup // of commits; no more than one for each peer
}

// heard is the last good answer of a peer.
type heard struct {
	at     time.Time // when it was asked
	term   uint64
	commit uint64 // that it was told
	resp   raft.AppendEntriesResponse
	// agreed is the last message about the log, without its entries: they are before it.
	agreed  raft.AppendEntriesRequest
	target  raft.ServerAddress
	telling bool // of a commit, right now
}

// last is the index up to which the peer's log is the leader's.
func (h *heard) last() uint64 { return h.agreed.PrevLogEntry }

func newQuiet(t Timing) *quiet {
	return &quiet{quietFor: min(t.HeartbeatTimeout, t.LeaderLease) / 5, peers: map[raft.ServerID]heard{}, absent: map[raft.ServerID]chan struct{}{}}
}

// errStalled is why a leader is silent whose disk does not answer.
var errStalled = errors.New("this node waits for its disk")

// AppendEntries implements raft.Transport.
//
// A leader whose disk hangs can decide nothing, nor step down: Raft waits for the write where
// it would look at its lease. Its heartbeats go on by themselves and would keep the others
// from electing one that can. So nothing is sent for as long.
func (t *transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if t.stalled(time.Now()) {
		return errStalled
	}
	if t.quiet.answer(id, args, resp, time.Now()) {
		return nil
	}
	began := time.Now()
	err := t.raftTransport.AppendEntries(id, target, args, resp)
	t.quiet.note(id, target, args, resp, err, began)
	t.tellCommit(id)
	if err != nil && !isHeartbeat(args) {
		t.awaitReturn(id, target, args)
	}
	return err
}

func (q *quiet) answer(id raft.ServerID, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	h, ok := q.peers[id]
	if !ok || len(args.Entries) > 0 || args.Term != h.term || now.Sub(h.at) >= q.quietFor {
		return false
	}
	if !isHeartbeat(args) && (args.PrevLogEntry != h.last() || args.LeaderCommitIndex != h.commit) {
		return false
	}
	*resp = h.resp
	return true
}

func (q *quiet) note(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse, err error, began time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sent++
	q.term = max(q.term, args.Term)
	if err == nil {
		q.isBack(id) // also one that refuses: Raft is to hear of a later term, and lead no more
	}
	if err != nil || !resp.Success || resp.Term > args.Term {
		delete(q.peers, id)
		return
	}
	h := q.peers[id]
	if h.term != args.Term {
		h = heard{term: args.Term, telling: h.telling}
	}
	if h.at.Before(began) {
		h.at = began
	}
	h.resp, h.target = *resp, target
	h.commit = max(h.commit, args.LeaderCommitIndex)
	if !isHeartbeat(args) && args.PrevLogEntry+uint64(len(args.Entries)) >= h.last() {
		h.agreed = *args
		h.agreed.Entries = nil
		if n := len(args.Entries); n > 0 {
			h.agreed.PrevLogEntry, h.agreed.PrevLogTerm = args.Entries[n-1].Index, args.Entries[n-1].Term
		}
	}
	q.peers[id] = h
}

// isBack ends the waits for a peer. Callers hold mu.
func (q *quiet) isBack(id raft.ServerID) {
	if back := q.absent[id]; back != nil {
		close(back)
		delete(q.absent, id)
	}
}

// hasApplied has peers told that entries up to index are committed.
func (t *transport) hasApplied(index uint64) {
	q := t.quiet
	q.mu.Lock()
	q.applied = index
	var ids []raft.ServerID
	for id := range q.peers {
		ids = append(ids, id)
	}
	q.mu.Unlock()
	for _, id := range ids {
		t.tellCommit(id)
	}
}

// tellCommit tells one peer, unless that is under way: then it is looked at again afterwards.
func (t *transport) tellCommit(id raft.ServerID) {
	args, target, ok := t.quiet.news(id)
	if !ok {
		return
	}
	go func() {
		defer t.quiet.telling.Done()
		var resp raft.AppendEntriesResponse
		began := time.Now()
		err := t.raftTransport.AppendEntries(id, target, &args, &resp)
		t.quiet.note(id, target, &args, &resp, err, began)
		t.quiet.told(id)
		if err == nil {
			t.tellCommit(id)
		}
	}()
}

// news is the message that tells a peer what it does not know of what is committed. Who gets
// one sends it.
func (q *quiet) news(id raft.ServerID) (args raft.AppendEntriesRequest, target raft.ServerAddress, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	h, known := q.peers[id]
	commit := min(q.applied, h.last())
	if q.closed || !known || h.telling || commit <= h.commit {
		return args, target, false
	}
	h.telling = true
	q.telling.Add(1)
	q.peers[id] = h
	args = h.agreed
	args.LeaderCommitIndex = commit
	return args, h.target, true
}

// close waits for the messages that are under way; what they travel on is closed.
func (q *quiet) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.telling.Wait()
}

func (q *quiet) told(id raft.ServerID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if h, ok := q.peers[id]; ok {
		h.telling = false
		q.peers[id] = h
	}
}

// returnPoll is how often a wait for a peer asks whether it is back, and looks whether this
// node still leads.
const returnPoll = 100 * time.Millisecond

// awaitReturn holds a message back that could not be sent, until the peer answers heartbeats
// again: Raft's, or those that are sent from here. Raft would wait by itself, but longer and
// longer, up to ten seconds, and with heartbeats up to half of their timeout: so long a node
// that is back would see nothing of the log.
func (t *transport) awaitReturn(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest) {
	timer := time.NewTimer(returnPoll)
	defer timer.Stop()
	for {
		back := t.quiet.awaitAnswer(id)
		if back == nil {
			return
		}
		select {
		case <-back:
			return
		case <-t.stop:
			return
		case <-timer.C:
			if t.quiet.highest() > args.Term || !t.leads() || t.stalled(time.Now()) {
				return
			}
			t.knock(id, target, args)
			timer.Reset(returnPoll)
		}
	}
}

// knock sends a heartbeat of the leadership that a message is of.
func (t *transport) knock(id raft.ServerID, target raft.ServerAddress, of *raft.AppendEntriesRequest) {
	heartbeat := raft.AppendEntriesRequest{RPCHeader: of.RPCHeader, Term: of.Term}
	var resp raft.AppendEntriesResponse
	began := time.Now()
	err := t.raftTransport.AppendEntries(id, target, &heartbeat, &resp)
	t.quiet.note(id, target, &heartbeat, &resp, err, began)
}

// awaitAnswer is closed when a peer has answered; nil if it has since it last failed to.
func (q *quiet) awaitAnswer(id raft.ServerID) <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, answers := q.peers[id]; answers {
		return nil
	}
	if q.absent[id] == nil {
		q.absent[id] = make(chan struct{})
	}
	return q.absent[id]
}

// highest is the highest term of a message to a peer.
func (q *quiet) highest() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.term
}

// isHeartbeat knows a message that says nothing of the log.
func isHeartbeat(args *raft.AppendEntriesRequest) bool {
	return args.PrevLogEntry == 0 && args.PrevLogTerm == 0 && len(args.Entries) == 0 && args.LeaderCommitIndex == 0
}
