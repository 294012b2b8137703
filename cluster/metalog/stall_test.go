package metalog

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// A leader whose disk hangs cannot step down, since Raft waits for it: it falls silent, so
// that the others elect one that can decide. When the disk is back, it follows.
func TestLeaderWithAHungDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.close()
		old := c.leader()
		old.mustPropose("before")
		hang := make(chan struct{})
		old.hung.Store(&hang)
		failed := make(chan error, 1)
		go func() {
			_, err := old.propose("hangs")
			failed <- err
		}()
		begin := time.Now()
		next := c.leader(old)
		if took := time.Since(begin); took > stallAfter+5*time.Second {
			t.Errorf("another leader after %v", took)
		}
		next.mustPropose("after")
		old.hung.Store(nil)
		close(hang)
		if err := <-failed; !errors.Is(err, kafkaerr.NotController) {
			t.Errorf("proposal of the old leader: %v", err)
		}
		c.wantConverged()
		if old.has("hangs") || !old.has("after") {
			t.Error("the old leader does not have what the new one decided")
		}
	})
}
