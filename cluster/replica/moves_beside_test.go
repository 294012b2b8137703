package replica

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
)

// busyDisk syncs one file after the other, at 100 MiB a second, and notes what was synced of copies.
type busyDisk struct {
	turn   chan struct{}
	mu     sync.Mutex
	dirty  map[string]int
	synced []syncedPiece
}

type syncedPiece struct {
	at    time.Time
	bytes int
}

func (d *busyDisk) wrap(fs vfs.FS) vfs.FS {
	if d.turn == nil {
		d.turn, d.dirty = make(chan struct{}, 1), map[string]int{}
	}
	return hookfs.Wrap(fs, false, func(c *hookfs.Call) error {
		switch c.Op {
		case hookfs.Write:
			d.mu.Lock()
			d.dirty[c.Name] += c.Bytes
			d.mu.Unlock()
		case hookfs.Sync:
			d.turn <- struct{}{}
			time.Sleep(d.sync(c.Name))
			<-d.turn
		default: // takes no time
		}
		return nil
	})
}

func (d *busyDisk) sync(name string) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	bytes := d.dirty[name]
	delete(d.dirty, name)
	if strings.Contains(name, "-future/") && strings.HasSuffix(name, ".log") && bytes > 0 {
		d.synced = append(d.synced, syncedPiece{time.Now(), bytes})
	}
	return takesToSync(bytes)
}

func takesToSync(bytes int) time.Duration {
	return 200*time.Microsecond + time.Duration(float64(bytes)/(100<<20)*float64(time.Second))
}

// TestProducersDoNotWaitForACopy: what moves to their directory is flushed beside the group
// commits, in small pieces, so that nobody waits for more than one of them; with a limit these come
// evenly.
func TestProducersDoNotWaitForACopy(t *testing.T) {
	const batch, size = 100 << 10, 8 << 20
	for name, limit := range map[string]int64{"no limit": 0, "a limit": 4 << 20} {
		t.Run(name, func(t *testing.T) {
			var disk busyDisk
			movers(t, func(h *mover) {
				moved, beside := h.in("t", "/d1", "segment.bytes=3000000"), h.in("beside", "/d2")
				for range size / batch {
					h.must(moved, strings.Repeat("v", batch))
				}
				slowest := func() (most time.Duration) {
					for range 100 {
						begin := time.Now()
						h.must(beside, "x")
						most = max(most, time.Since(begin))
						time.Sleep(time.Millisecond)
					}
					return most
				}
				h.must(beside, "the first")
				quiet := slowest()
				h.limit.Store(limit)
				h.mustAlter("t", "/d2")
				busy := slowest()
				t.Logf("the slowest acknowledgement took %v before, %v meanwhile", quiet, busy)
				if busy > quiet+takesToSync(moveStep) {
					t.Errorf("an acknowledgement takes %v, and took %v before the move", busy, quiet)
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				expect(t, "moved", h.where("t"), "/d2 lag 0")
				disk.judge(t, size, limit)
			}, withFS(disk.wrap))
		})
	}
}

// judge checks the pieces, and that none of them came earlier than the limit allows.
func (d *busyDisk) judge(t *testing.T, size int, limit int64) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	total := 0
	for _, p := range d.synced {
		if p.bytes > moveStep {
			t.Errorf("%d bytes were synced at once", p.bytes)
		}
		total += p.bytes
		if allowed := int64(p.at.Sub(d.synced[0].at).Seconds()*float64(limit)) + 3*moveStep; limit > 0 && int64(total) > allowed {
			t.Errorf("%d bytes after %v", total, p.at.Sub(d.synced[0].at))
		}
	}
	took := d.synced[len(d.synced)-1].at.Sub(d.synced[0].at)
	t.Logf("%d pieces in %v", len(d.synced), took)
	if total < size*9/10 || limit > 0 && took.Seconds() > 1.1*float64(size)/float64(limit) {
		t.Errorf("%d bytes in %v", total, took)
	}
}

// TestPace: a limit holds over all moves, but for a quarter of a second that was missed, and is
// noticed when it changes.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var limit atomic.Int64
		limit.Store(1000)
		p := &pace{limit: limit.Load}
		begin := time.Now()
		for range 10 {
			p.await(t.Context())
			p.spend(p.step())
		}
		p.await(t.Context())
		if took := time.Since(begin).Seconds(); math.Abs(took-10) > 0.1 {
			t.Errorf("10,000 bytes at 1,000 a second took %v s", took)
		}
		time.Sleep(time.Minute)
		begin = time.Now()
		for range 10 {
			p.await(t.Context())
			p.spend(100)
		}
		p.await(t.Context())
		if took := time.Since(begin); took != 750*time.Millisecond {
			t.Errorf("after a minute without a move 1,000 bytes took %v", took)
		}
		p.spend(1 << 30)
		time.AfterFunc(5*time.Second, func() { limit.Store(0) })
		begin = time.Now()
		p.await(t.Context())
		if took := time.Since(begin); took > 7*time.Second {
			t.Errorf("a limit that was lifted was noticed after %s", took)
		}
	})
}
