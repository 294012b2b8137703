package metalog

import (
	"strconv"

	"github.com/hashicorp/raft"
)

// Whom Raft votes for. hashicorp/raft votes for nobody whom its own newest configuration does
// not have as a voter. But the candidate may be a voter by an entry that is committed and has
// not come here:
//
//	voters 1, 2   3 is added: entries at 1 and 3, which commit them   1 dies
//	2 does not know that 3 votes, and is behind it: neither of the two could ever be elected
//
// Raft's rule is that a server votes whatever its own configuration says. So who has a log
// that goes beyond this one is presented as one that votes. A voter that was taken out
// has the shorter log, and is refused as before.

// admit prepares a request for a vote, or for the promise of one, for Raft.
func (t *transport) admit(rpc raft.RPC) {
	switch req := rpc.Command.(type) {
	case *raft.RequestVoteRequest:
		req.ID = t.asVoter(req.ID, req.LastLogTerm, req.LastLogIndex)
	case *raft.RequestPreVoteRequest:
		req.ID = t.asVoter(req.ID, req.LastLogTerm, req.LastLogIndex)
	}
}

// asVoter is the id of a voter to stand for that of a candidate, whose vote Raft notes by its
// address.
func (l *Log) asVoter(id []byte, lastTerm, lastIndex uint64) []byte {
	select {
	case <-l.started:
	default:
		return id
	}
	var any []byte
	for _, s := range l.servers() {
		if s.Suffrage != raft.Voter {
			continue
		}
		if string(s.ID) == string(id) {
			return id
		}
		any = []byte(s.ID)
	}
	if term, index := l.lastEntry(); any == nil || lastTerm < term || lastTerm == term && lastIndex <= index {
		return id
	}
	return any
}

// lastEntry is the last one of this node's log, or that of its snapshot.
func (l *Log) lastEntry() (term, index uint64) {
	stats := l.raft.Stats()
	number := func(key string) uint64 {
		n, _ := strconv.ParseUint(stats[key], 10, 64)
		return n
	}
	if index = number("last_log_index"); index >= number("last_snapshot_index") {
		return number("last_log_term"), index
	}
	return number("last_snapshot_term"), number("last_snapshot_index")
}
