package replica

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// TestOldDiskFailsWhileAMoveIsFinished: the replica is given up then, until a restart, and
// the controller must not count on it in the new directory before.
func TestOldDiskFailsWhileAMoveIsFinished(t *testing.T) {
	var whenInPlace func()
	movers(t, func(h *mover) {
		id := h.in("t", "/d1")
		h.must(id, "a")
		whenInPlace = func() { h.m.DirectoryFailed(h.dirs[0], errors.New("the disk has failed")) }
		h.mustAlter("t", "/d2")
		expect(t, "moved", h.where("t"), "/d2 lag -1")
		expectError(t, "given up", h.produce(id, AcksAll, "x").result().Err, "KAFKA_STORAGE_ERROR")
		expect(t, "told", h.assigned[id], uuid.Zero)
		h.stop()
		h.start()
		expect(t, "there again", h.all(id), []string{"a"})
		expect(t, "told then", h.assigned[id], h.dirID("/d2"))
	}, withFS(func(fs vfs.FS) vfs.FS {
		return hookfs.Wrap(fs, false, func(c *hookfs.Call) error {
			if c.Op == hookfs.Rename && path.Dir(c.To) == "/d2" && path.Base(c.To) == "t-0" && whenInPlace != nil {
				whenInPlace()
				whenInPlace = nil
			}
			return nil
		})
	}))
}

// TestFollowerOfALogThatBeginsInABatch: records were deleted up to the middle of one.
func TestFollowerOfALogThatBeginsInABatch(t *testing.T) {
	pairBubble(t, func(d *duo) {
		d.cut.Store(true) // before a fetch of what is empty yet asks for the ISR
		id := d.topic("t", 1, assignment{replicas: []int32{1, 2}, isr: []int32{1}, dir: uuid.DirUnassigned})
		for range 3 {
			d.must(id, "x", "y")
		}
		del := &DeleteRecordsRequest{Timeout: time.Second, Partitions: []DeleteRecordsPartition{{TopicIDPartition: id, Offset: 3}}}
		go d.m.DeleteRecords(context.Background(), del)
		time.Sleep(2 * time.Second)
		d.cut.Store(false)
		time.Sleep(5 * time.Second)
		l := d.other.log(id)
		expect(t, "start and end", [2]int64{int64(l.LogStart()), int64(l.LogEnd())}, [2]int64{3, 6})
	})
}

// TestDeletedRecordsStayDeletedOfTwoLogs: a power cut has brought back the directory that a
// replica had left, with the records that were deleted just then.
func TestDeletedRecordsStayDeletedOfTwoLogs(t *testing.T) {
	movers(t, func(h *mover) {
		id := h.in("t", "/d1")
		h.must(id, "a")
		h.must(id, "b")
		h.mustAlter("t", "/d2")
		expect(t, "moved", h.where("t"), "/d2 lag 0")
		h.deleteRecords(id, 1)
		h.stop()
		h.copyTree("/d2/t-0", "/d1/t-0")
		h.start()
		expect(t, "taken", h.where("t"), "/d2 lag 0")
		expect(t, "start", int64(h.log(id).LogStart()), int64(1))
	})
}

// TestMoveThatMetadataDoesNotKnowIsNoAlarm: the process died when a replica had been moved, and
// before the controller had heard of it. Nothing is wrong, in the new place it is as it was.
func TestMoveThatMetadataDoesNotKnowIsNoAlarm(t *testing.T) {
	var said bytes.Buffer
	movers(t, func(h *mover) {
		id := h.in("t", "/d1")
		h.must(id, "a")
		h.mustAlter("t", "/d2")
		expect(t, "moved", h.where("t"), "/d2 lag 0")
		h.crash()
		said.Reset()
		h.start()
		expect(t, "there", h.all(id), []string{"a"})
		for line := range strings.Lines(said.String()) {
			if !strings.Contains(line, "level=INFO") {
				t.Errorf("it is told so: %s", line)
			}
		}
		if want := `msg="replica is where it was moved to before the process ended" topic=t partition=0 from=/d1 dir=/d2`; !strings.Contains(said.String(), want) {
			t.Errorf("%s is not in %s", want, said.String())
		}
	}, withOptions(func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&said, nil)) }))
}
