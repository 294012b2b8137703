package metalog

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// scriptedPeer answers as it is told to.
type scriptedPeer struct {
	raftTransport
	success bool
	term    uint64
	err     error
}

func (s *scriptedPeer) AppendEntries(_ raft.ServerID, _ raft.ServerAddress, _ *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	resp.Success, resp.Term = s.success, s.term
	return s.err
}

func (s *scriptedPeer) InstallSnapshot(_ raft.ServerID, _ raft.ServerAddress, _ *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, _ io.Reader) error {
	resp.Success, resp.Term = s.success, s.term
	return s.err
}

// What an answer says of the peer's log.
func TestProgressOfAnswers(t *testing.T) {
	entries := []*raft.Log{{Index: 8}, {Index: 9}}
	for _, c := range []struct {
		name  string
		peer  scriptedPeer
		args  raft.AppendEntriesRequest
		index uint64
		heard bool
	}{
		{"entries", scriptedPeer{success: true, term: 3}, raft.AppendEntriesRequest{Term: 3, PrevLogEntry: 7, Entries: entries}, 9, true},
		{"no entries", scriptedPeer{success: true, term: 3}, raft.AppendEntriesRequest{Term: 3, PrevLogEntry: 7}, 7, true},
		{"a heartbeat", scriptedPeer{success: true, term: 3}, raft.AppendEntriesRequest{Term: 3}, 0, true},
		{"refused", scriptedPeer{term: 3}, raft.AppendEntriesRequest{Term: 3, PrevLogEntry: 7, Entries: entries}, 0, true},
		{"of a newer term", scriptedPeer{term: 4}, raft.AppendEntriesRequest{Term: 3, PrevLogEntry: 7, Entries: entries}, 0, false},
		{"no answer", scriptedPeer{success: true, term: 3, err: errors.New("cut")}, raft.AppendEntriesRequest{Term: 3, PrevLogEntry: 7, Entries: entries}, 0, false},
	} {
		p := newProgress(&c.peer, func() uint64 { return 9 })
		_ = p.AppendEntries("2/b", "", &c.args, &raft.AppendEntriesResponse{})
		if got := p.of("2/b", 3); got.index != c.index || got.answered.IsZero() == c.heard || got.caughtUp.IsZero() == (c.index == 9) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestProgressOfSnapshots(t *testing.T) {
	peer := &scriptedPeer{term: 3}
	p := newProgress(peer, func() uint64 { return 50 })
	args := &raft.InstallSnapshotRequest{Term: 3, LastLogIndex: 40}
	_ = p.InstallSnapshot("2/b", "", args, &raft.InstallSnapshotResponse{}, nil)
	if got := p.of("2/b", 3); !got.answered.IsZero() {
		t.Errorf("refused: %+v", got)
	}
	peer.success = true
	_ = p.InstallSnapshot("2/b", "", args, &raft.InstallSnapshotResponse{}, nil)
	if got := p.of("2/b", 3); got.index != 40 || !got.caughtUp.IsZero() {
		t.Errorf("installed: %+v", got)
	}
}

// When a peer counts as caught up, and which of its lives counts at all.
func TestProgressOverTime(t *testing.T) {
	var end uint64
	p := newProgress(nil, func() uint64 { return end })
	at := func(s int64) time.Time { return time.Unix(1000+s, 0) }
	var clock int64
	for _, c := range []struct {
		what     string
		id       raft.ServerID
		term     uint64
		index    uint64
		end      uint64
		want     uint64
		caughtUp int64 // second; -1: never
	}{
		1:  {"behind", "2/b", 3, 5, 9, 5, -1},
		2:  {"has what the leader had at second 1", "2/b", 3, 9, 12, 9, 1},
		3:  {"again a message behind", "2/b", 3, 12, 14, 12, 2},
		4:  {"has less than the leader had at second 3", "2/b", 3, 13, 20, 13, 2},
		5:  {"has everything", "2/b", 3, 20, 20, 20, 5},
		6:  {"a heartbeat: still everything", "2/b", 3, 0, 20, 20, 6},
		7:  {"a heartbeat: the leader has more", "2/b", 3, 0, 21, 20, 6},
		8:  {"an answer that comes late takes nothing back", "2/b", 3, 4, 21, 20, 6},
		9:  {"a new term: not known", "2/b", 4, 0, 21, 0, -1},
		10: {"an answer of the term before is nothing", "2/b", 3, 21, 21, 0, -1},
		11: {"known", "2/b", 4, 21, 21, 21, 11},
		12: {"another disk", "2/c", 4, 7, 21, 7, -1},
	} {
		if c.id == "" {
			continue
		}
		clock++
		end = c.end
		p.note(c.id, c.term, c.index, at(clock))
		got := p.of(c.id, max(c.term, p.peers[2].term))
		if got.index != c.want || c.caughtUp < 0 != got.caughtUp.IsZero() || c.caughtUp >= 0 && !got.caughtUp.Equal(at(c.caughtUp)) {
			t.Errorf("%s: %+v, caught up at %d", c.what, got, got.caughtUp.Unix()-1000)
		}
	}
	if got := p.of("2/b", 4); got != (peerProgress{}) {
		t.Errorf("the disk that was replaced: %+v", got)
	}
}
