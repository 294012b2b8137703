package metalog

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// refuses dials in the name of a node.
func (n *node) refuses(ctx context.Context, address string) bool {
	conn, err := n.c.net.Host(n.host()).DialContext(ctx, "tcp", address)
	if err != nil {
		return errors.Is(err, syscall.ECONNREFUSED)
	}
	_ = conn.Close()
	return false
}

// kill ends a node's process as far as the others see it.
func (n *node) kill() {
	n.c.net.Crash(n.host())
	n.stop()
}

// A leader whose process has ended is replaced long before its silence would tell.
func TestLeaderThatIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.close()
		for range 6 {
			old := c.leader()
			c.wantConverged()
			begin := time.Now()
			old.kill()
			c.leader(old)
			if took := time.Since(begin); took > 300*time.Millisecond {
				t.Errorf("another leader after %v", took)
			}
			old.start()
			c.wantConverged()
		}
	})
}

// nextLeads cuts the leader of three off from who would stand first, and kills it: the next one
// leads within a time. A record, if there is one, is committed without the first. Either function
// may be nil: before runs just before the kill, after just after it.
func nextLeads(t *testing.T, within time.Duration, record string, before, after func(first, next *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.close()
		old := c.leader()
		c.wantConverged()
		first, next := c.followers()[0], c.followers()[1]
		c.net.Cut(old.host(), first.host())
		if record != "" {
			old.mustPropose(record)
		}
		if before != nil {
			before(first, next)
		}
		begin := time.Now()
		old.kill()
		if after != nil {
			after(first, next)
		}
		if got := c.leader(old); got != next {
			t.Errorf("node %d leads", got.id)
		}
		if took := time.Since(begin); took > within {
			t.Errorf("another leader after %v", took)
		}
		c.net.HealAll()
		old.start()
		c.wantConverged()
		if record != "" && !first.has(record) {
			t.Error("what was committed is not there")
		}
	})
}

// Who would stand first does not notice, and believes in the leader still: the next one stands
// later, and has its vote.
func TestLeaderThatIsKilledUnnoticed(t *testing.T) {
	nextLeads(t, 450*time.Millisecond, "", nil, nil)
}

// Who stands first lacks what was committed, and is not elected; the next one is.
func TestLeaderThatIsKilledWhenTheFirstToStandIsBehind(t *testing.T) {
	nextLeads(t, 600*time.Millisecond, "committed by two of three", nil, func(first, _ *node) {
		first.log.trans.electNow(nil)
	})
}

// Who has been asked for a vote knows of no leader any more when the connections end, and stands
// all the same: who asked is behind, and is not elected.
func TestLeaderThatIsKilledAfterAVoteWasAskedFor(t *testing.T) {
	nextLeads(t, 600*time.Millisecond, "committed by two of three", func(first, next *node) {
		first.log.trans.electNow(nil)
		synctest.Wait()
		if leader, _ := next.log.raft.LeaderWithID(); leader != "" {
			t.Fatalf("%s leads", leader)
		}
	}, nil)
}

// Connections end, but the leader's process does not: nobody stands.
func TestConnectionsThatEndAreNoElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.close()
		lead := c.leader()
		term := lead.ready.Load()
		for i := range 10 {
			for _, n := range c.followers() {
				n.log.trans.streams.hangUp()
			}
			lead.mustPropose(string(rune('a' + i)))
			c.wantConverged()
		}
		if got := c.leader(); got != lead || got.ready.Load() != term {
			t.Errorf("node %d leads in term %d, it was %d in %d", got.id, got.ready.Load(), lead.id, term)
		}
	})
}

// hangUp closes the connections that this node has accepted.
func (s *streams) hangUp() {
	s.mu.Lock()
	var accepted []*trackedConn
	for c := range s.conns {
		if c.accepted {
			accepted = append(accepted, c)
		}
	}
	s.mu.Unlock()
	for _, c := range accepted {
		_ = c.Close()
	}
}
