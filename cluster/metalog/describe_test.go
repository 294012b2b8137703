package metalog

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

func TestQuorumOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, term := lead(t, alone(t, vfs.NewMem()))
		defer mustClose(t, l)
		if err := create(l, term, "a"); err != nil {
			t.Fatal(err)
		}
		q := l.Quorum()
		if q.Leader != 1 || !q.LeaderHere || q.Term != term || len(q.Observers) != 0 || len(q.Voters) != 1 {
			t.Fatalf("%+v", q)
		}
		self := q.Voters[0]
		if self.NodeID != 1 || self.DirectoryID != (uuid.UUID{15: 1}) || !self.Self || self.LastIndex != int64(q.Committed) {
			t.Errorf("%+v, committed %d", self, q.Committed)
		}
		if at := l.Image().Position().Index; at != q.Committed {
			t.Errorf("committed %d, the image is at %d", q.Committed, at)
		}
	})
}

// Only the leader knows the quorum; the others know who leads.
func TestQuorumOfThree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.close()
		lead := c.leader()
		lead.mustPropose("a")
		c.wantConverged()
		q := lead.log.Quorum()
		if !q.LeaderHere || q.Leader != lead.id || len(q.Voters) != 3 {
			t.Fatalf("%+v", q)
		}
		now := time.Now()
		for _, m := range q.Voters {
			if m.Self != (m.NodeID == lead.id) || m.LastIndex != int64(q.Committed) {
				t.Errorf("%+v, committed %d", m, q.Committed)
			}
			if now.Sub(m.Answered) > time.Second || now.Sub(m.CaughtUp) > time.Second {
				t.Errorf("at %v: %+v", now, m)
			}
		}
		for _, n := range c.followers() {
			if q := n.log.Quorum(); q.LeaderHere || q.Leader != lead.id || q.Voters != nil {
				t.Errorf("follower %d: %+v", n.id, q)
			}
		}
	})
}

// The leader goes on telling of a follower that is gone what it knew: how far that had come,
// and when.
func TestQuorumWithoutFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.close()
		lead := c.leader()
		before := lead.mustPropose("a")
		c.wantConverged()
		gone := c.followers()[0]
		gone.stop()
		stopped := time.Now()
		<-time.After(time.Minute)
		lead.mustPropose("b")
		if n := lead.log.silentMembers(); n != 1 {
			t.Errorf("%d members are silent", n)
		}
		of := func() Member {
			for _, m := range lead.log.Quorum().Voters {
				if m.NodeID == gone.id {
					return m
				}
			}
			t.Fatal("not listed")
			return Member{}
		}
		if m := of(); m.LastIndex != int64(before.Index) || m.Answered.After(stopped) || stopped.Sub(m.CaughtUp) > time.Second {
			t.Errorf("stopped at %v with %d: %+v", stopped, before.Index, m)
		}
		gone.start()
		c.wantConverged()
		c.eventually("it is known to have caught up", func() bool {
			m := of()
			return m.LastIndex == int64(lead.log.Quorum().Committed) && m.CaughtUp.After(stopped.Add(time.Minute)) && lead.log.silentMembers() == 0
		})
	})
}
