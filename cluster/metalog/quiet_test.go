package metalog

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

func TestQuiet(t *testing.T) {
	begin := time.Unix(1000, 0)
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	heartbeat := &raft.AppendEntriesRequest{Term: 3}
	idle := &raft.AppendEntriesRequest{Term: 3, PrevLogEntry: 9, PrevLogTerm: 3, LeaderCommitIndex: 8}
	good := &raft.AppendEntriesResponse{Term: 3, Success: true, LastLog: 9}
	for _, c := range []struct {
		name  string
		noted *raft.AppendEntriesRequest
		resp  *raft.AppendEntriesResponse
		err   error
		asked *raft.AppendEntriesRequest
		after int
		want  bool
	}{
		{"heartbeat again", heartbeat, good, nil, heartbeat, 299, true},
		{"heartbeat later", heartbeat, good, nil, heartbeat, 300, false},
		{"heartbeat after an idle message", idle, good, nil, heartbeat, 20, true},
		{"the same again", idle, good, nil, idle, 299, true},
		{"a heartbeat says nothing of the log", heartbeat, good, nil, idle, 20, false},
		{"a newer commit", idle, good, nil, &raft.AppendEntriesRequest{Term: 3, PrevLogEntry: 9, PrevLogTerm: 3, LeaderCommitIndex: 9}, 20, false},
		{"another place", idle, good, nil, &raft.AppendEntriesRequest{Term: 3, PrevLogEntry: 8, PrevLogTerm: 3, LeaderCommitIndex: 8}, 20, false},
		{"entries", idle, good, nil, &raft.AppendEntriesRequest{Term: 3, PrevLogEntry: 9, PrevLogTerm: 3, LeaderCommitIndex: 8, Entries: []*raft.Log{{}}}, 20, false},
		{"another term", idle, good, nil, &raft.AppendEntriesRequest{Term: 4}, 20, false},
		{"behind entries", &raft.AppendEntriesRequest{Term: 3, PrevLogEntry: 7, PrevLogTerm: 3, LeaderCommitIndex: 8, Entries: []*raft.Log{{Index: 8, Term: 3}, {Index: 9, Term: 3}}}, good, nil, idle, 20, true},
		{"after a failure", heartbeat, good, raft.ErrTransportShutdown, heartbeat, 20, false},
		{"after a refusal", idle, &raft.AppendEntriesResponse{Term: 3}, nil, heartbeat, 20, false},
		{"after a newer term", heartbeat, &raft.AppendEntriesResponse{Term: 4, Success: true}, nil, heartbeat, 20, false},
	} {
		q := newQuiet(TimingForQuorum())
		q.note("1/a", "a:1", c.noted, c.resp, c.err, at(0))
		var resp raft.AppendEntriesResponse
		if got := q.answer("1/a", c.asked, &resp, at(c.after)); got != c.want {
			t.Errorf("%s: answered here: %v", c.name, got)
		} else if got && (resp.Term != c.resp.Term || resp.LastLog != c.resp.LastLog || !resp.Success) {
			t.Errorf("%s: answer %+v", c.name, resp)
		}
		if q.answer("2/b", c.asked, &resp, at(c.after)) {
			t.Errorf("%s: answered for another peer", c.name)
		}
	}
}

// An idle leader leaves its peers alone, and tells them of a commit at once all the same.
func TestIdleLeaderIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.close()
		lead := c.leader()
		lead.mustPropose("t")
		c.wantConverged()
		sent := func() int {
			q := lead.log.trans.quiet
			q.mu.Lock()
			defer q.mu.Unlock()
			return q.sent
		}
		before := sent()
		<-time.After(10 * time.Second)
		if n := sent() - before; n > 2*10*4 {
			t.Errorf("%d messages to two peers in ten seconds", n)
		}
		if c.leader() != lead {
			t.Error("another node leads")
		}
		for range 20 {
			<-time.After(37 * time.Millisecond)
			at := lead.mustPropose(time.Now().Format("05.000") + " of a topic")
			begin := time.Now()
			c.eventually("all have applied it", func() bool {
				for _, n := range c.nodes {
					if n.log.Image().Position().Index < at.Index {
						return false
					}
				}
				return true
			})
			if took := time.Since(begin); took > 2*time.Millisecond {
				t.Errorf("a commit was known everywhere after %v", took)
			}
		}
	})
}

// TestVoterIsBackWithALaterTerm: it was a candidate, and died. The leader, which is not followed
// by it any more, must hear of the term: else the two would ignore each other for ever, as long
// as the leader has a majority without it.
func TestVoterIsBackWithALaterTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.close()
		lead := c.leader()
		lead.mustPropose("before")
		c.wantConverged()
		away := c.followers()[0]
		away.kill()
		lead.mustPropose("meanwhile")
		<-time.After(time.Second)
		store, err := openStore(&Options{Dir: "/metadata", FS: away.disk.Process(), Stores: FileStores})
		if err != nil {
			t.Fatal(err)
		}
		term, err := store.GetUint64([]byte("CurrentTerm"))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(store.SetUint64([]byte("CurrentTerm"), term+3), store.Close()); err != nil {
			t.Fatal(err)
		}
		away.start()
		c.eventually("it has what was proposed meanwhile", func() bool { return away.has("meanwhile") })
		c.leader().mustPropose("after")
		c.wantConverged()
	})
}
