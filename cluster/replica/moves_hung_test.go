package replica

import (
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
)

// hanging are the calls on a disk that come to no end before it is healed.
type hanging struct {
	is     atomic.Pointer[func(c *hookfs.Call) bool]
	healed chan struct{}
	hung   atomic.Int32
}

func (g *hanging) wrap(fs vfs.FS) vfs.FS {
	return hookfs.Wrap(fs, false, func(c *hookfs.Call) error {
		if is := g.is.Load(); is != nil && (*is)(c) {
			g.hung.Add(1)
			<-g.healed
		}
		return nil
	})
}

func (g *hanging) hang(is func(c *hookfs.Call) bool) {
	g.healed = make(chan struct{})
	g.is.Store(&is)
}

func (g *hanging) heal() {
	g.is.Store(nil)
	close(g.healed)
}

// TestNewDiskHangsWhileAMoveIsFinished, at each of the calls that Finish makes on it: the
// original goes on, whoever leads, and what comes of the copy is thrown away; later the replica
// moves after all.
func TestNewDiskHangsWhileAMoveIsFinished(t *testing.T) {
	syncOf := func(name string) func(c *hookfs.Call) bool {
		return func(c *hookfs.Call) bool { return isSync(c) && strings.HasPrefix(c.Name, name) }
	}
	for name, is := range map[string]func(c *hookfs.Call) bool{
		"seal": syncOf("/d2/t-0."),
		"marks": func(c *hookfs.Call) bool {
			return c.Op == hookfs.Rename && path.Dir(c.To) == "/d2" && strings.HasPrefix(path.Base(c.To), "recovery")
		},
		"rename": func(c *hookfs.Call) bool { return c.Op == hookfs.Rename && c.To == "/d2/t-0" },
		"root":   func(c *hookfs.Call) bool { return isSync(c) && c.Name == "/d2" },
		"reopen": func(c *hookfs.Call) bool { return strings.HasPrefix(c.Name, "/d2/t-0/") },
	} {
		t.Run(name, func(t *testing.T) {
			var disk hanging
			movers(t, func(h *mover) {
				id := h.in("t", "/d1")
				h.must(id, "0")
				disk.hang(is)
				h.mustAlter("t", "/d2")
				synctest.Wait()
				expect(t, "hangs", disk.hung.Load() > 0, true)
				time.Sleep(finishBound)
				h.must(id, "1")
				h.must(id, "2")
				h.apply(metadata.PartitionChangeRecord{TopicID: id.TopicID, Leader: new(int32(1))})
				h.must(id, "3")
				disk.heal()
				time.Sleep(time.Second)
				expect(t, "where it was", h.where("t"), "/d1 lag 0")
				h.must(id, "4")
				time.Sleep(hungPause)
				expect(t, "moved", h.where("t"), "/d2 lag 0")
				expect(t, "all", h.all(id), numbered(0, 5))
				h.stop()
				h.start()
				expect(t, "after a restart", h.all(id), numbered(0, 5))
				expect(t, "where", h.where("t"), "/d2 lag 0")
			}, withFS(disk.wrap))
		})
	}
}

func isSync(c *hookfs.Call) bool {
	return c.Op == hookfs.Sync || c.Op == hookfs.SyncDir || c.Op == hookfs.SyncAll
}

// TestDiskHangsWhileItsTopicIsDeleted: metadata is not held up, and of the copy nothing is left.
func TestDiskHangsWhileItsTopicIsDeleted(t *testing.T) {
	var disk hanging
	movers(t, func(h *mover) {
		id := h.in("t", "/d1")
		h.must(id, "0")
		disk.hang(func(c *hookfs.Call) bool { return isSync(c) && strings.HasPrefix(c.Name, "/d2/t-0.") })
		h.mustAlter("t", "/d2")
		synctest.Wait()
		began := time.Now()
		h.apply(metadata.RemoveTopicRecord{ID: id.TopicID})
		if took := time.Since(began); took > finishBound {
			t.Errorf("metadata waits for %s", took)
		}
		disk.heal()
		time.Sleep(2 * time.Minute)
		expect(t, "on the disk", h.onDisk(), "")
	}, withFS(disk.wrap))
}

// TestOldDiskHangsWhileAMoveIsFinished: writes wait for it, as they would have without the move,
// but the replica may change its role.
func TestOldDiskHangsWhileAMoveIsFinished(t *testing.T) {
	var disk hanging
	movers(t, func(h *mover) {
		id := h.in("t", "/d1")
		h.must(id, "0")
		disk.hang(func(c *hookfs.Call) bool { return c.Op == hookfs.Rename && strings.HasPrefix(c.Name, "/d1/t-0") })
		h.mustAlter("t", "/d2")
		synctest.Wait()
		expect(t, "hangs", disk.hung.Load(), int32(1))
		began := time.Now()
		h.apply(metadata.PartitionChangeRecord{TopicID: id.TopicID, Leader: new(int32(1))})
		if took := time.Since(began); took > finishBound {
			t.Errorf("metadata waits for %s", took)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			h.must(id, "1")
		}()
		time.Sleep(time.Minute)
		select {
		case <-done:
			t.Error("a write has not waited until the replica has left the old place")
		default:
		}
		expectError(t, "another move", h.alter("t", "/d3"), "KAFKA_STORAGE_ERROR")
		disk.heal()
		<-done
		expect(t, "moved", h.where("t"), "/d2 lag 0")
		expect(t, "all", h.all(id), numbered(0, 2))
	}, withFS(disk.wrap))
}

// TestNewDiskHangsWhileAMoveBegins: who asks is told so, metadata is not held up, and when the
// disk answers again nothing is left of the copy.
func TestNewDiskHangsWhileAMoveBegins(t *testing.T) {
	for name, is := range map[string]func(c *hookfs.Call) bool{
		"directory": func(c *hookfs.Call) bool { return c.Op == hookfs.Mkdir && strings.HasPrefix(c.Name, "/d2/t-0.") },
		"file":      func(c *hookfs.Call) bool { return c.Op == hookfs.Write && strings.HasPrefix(c.Name, "/d2/t-0.") },
	} {
		t.Run(name, func(t *testing.T) {
			var disk hanging
			movers(t, func(h *mover) {
				id := h.in("t", "/d1")
				h.must(id, "0")
				disk.hang(is)
				for _, bound := range []time.Duration{finishBound, 0} {
					began := time.Now()
					expectError(t, "move", h.alter("t", "/d2"), "KAFKA_STORAGE_ERROR")
					if took := time.Since(began); took > bound {
						t.Errorf("the answer takes %s", took)
					}
				}
				h.apply(metadata.PartitionChangeRecord{TopicID: id.TopicID, Leader: new(int32(1))})
				h.must(id, "1")
				expect(t, "elsewhere it can go", h.alter("t", "/d3"), error(nil))
				time.Sleep(time.Second)
				expect(t, "moved", h.where("t"), "/d3 lag 0")
				disk.heal()
				time.Sleep(2 * time.Minute)
				for _, d := range h.dirs {
					expect(t, "copies in "+d.Path(), len(d.Futures()), 0)
				}
				h.mustAlter("t", "/d2")
				time.Sleep(time.Second)
				expect(t, "moved", h.where("t"), "/d2 lag 0")
				expect(t, "all", h.all(id), numbered(0, 2))
			}, withFS(disk.wrap))
		})
	}
}

// TestStopDoesNotWaitForAHungDisk: neither for who moves a replica there, nor for the directory
// itself. The others are closed, and what was acknowledged is there.
func TestStopDoesNotWaitForAHungDisk(t *testing.T) {
	for name, is := range map[string]func(c *hookfs.Call) bool{
		"move":      func(c *hookfs.Call) bool { return isSync(c) && strings.HasPrefix(c.Name, "/d2/t-0.") },
		"directory": func(c *hookfs.Call) bool { return isSync(c) && strings.HasPrefix(c.Name, "/d2") },
	} {
		t.Run(name, func(t *testing.T) {
			var disk hanging
			synctest.Test(t, func(t *testing.T) {
				h := newMover(t, withFS(disk.wrap))
				h.start()
				id := h.in("t", "/d1")
				h.must(id, "0")
				disk.hang(is)
				h.mustAlter("t", "/d2")
				synctest.Wait()
				expect(t, "hangs", disk.hung.Load() > 0, true)
				began := time.Now()
				err := h.m.Close(7)
				if took := time.Since(began); took > finishBound+closeBound {
					t.Errorf("the stop takes %s", took)
				}
				if name == "directory" {
					expectError(t, "stop", err, "KAFKA_STORAGE_ERROR")
				}
				disk.heal()
				synctest.Wait()
				h.start()
				expect(t, "all", h.all(id), numbered(0, 1))
				h.must(id, "1")
				time.Sleep(time.Minute)
				h.stop()
			})
		})
	}
}
