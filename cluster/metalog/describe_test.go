package metalog

import (
	"testing"
	"testing/synctest"

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

// Only the leader knows the quorum; the others know who leads. Of the others' logs Raft
// tells nothing.
func TestQuorumOfThree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.close()
		lead := c.leader()
		q := lead.log.Quorum()
		if !q.LeaderHere || q.Leader != lead.id || len(q.Voters) != 3 {
			t.Fatalf("%+v", q)
		}
		for _, m := range q.Voters {
			if m.Self != (m.NodeID == lead.id) || m.Self != (m.LastIndex >= 0) {
				t.Errorf("%+v", m)
			}
		}
		for _, n := range c.followers() {
			if q := n.log.Quorum(); q.LeaderHere || q.Leader != lead.id || q.Voters != nil {
				t.Errorf("follower %d: %+v", n.id, q)
			}
		}
	})
}
