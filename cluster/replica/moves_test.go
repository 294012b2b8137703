package replica

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/logstore/checkpoint"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// mover is a harness of several directories between which replicas move at a pace that the
// test sets.
type mover struct {
	*harness
	limit    atomic.Int64
	assigned map[TopicIDPartition]uuid.UUID // what the controller was told
}

// held is a pace at which a move comes to no end.
const held = 1

func movers(t *testing.T, f func(h *mover), change ...func(*harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newMover(t, change...)
		h.start()
		f(h)
		h.stop()
	})
}

func newMover(t *testing.T, change ...func(*harness)) *mover {
	h := &mover{assigned: map[TopicIDPartition]uuid.UUID{}}
	h.harness = newHarness(t, append([]func(*harness){withDirs("/d1", "/d2", "/d3"), withOptions(func(o *Options) {
		o.MoveBytesPerSecond = h.limit.Load
		o.AssignDirectory = func(id TopicIDPartition, dir uuid.UUID) { h.assigned[id] = dir }
	})}, change...)...)
	return h
}

// in creates a topic of one partition in a directory.
func (h *mover) in(name, dir string, config ...string) TopicIDPartition {
	a := alone
	a.dir = h.dirID(dir)
	return h.topic(name, 1, a, config...)
}

func (h *mover) dirID(path string) uuid.UUID {
	for _, d := range h.dirs {
		if d.Path() == path {
			return d.DirectoryID()
		}
	}
	h.t.Fatalf("no directory %s", path)
	return uuid.Zero
}

func (h *mover) alter(topic, dir string) error {
	wanted := []ReplicaDir{{Topic: topic, Dir: dir}}
	h.m.AlterReplicaLogDirs(wanted)
	return wanted[0].Err
}

func (h *mover) mustAlter(topic, dir string) {
	h.t.Helper()
	if err := h.alter(topic, dir); err != nil {
		h.t.Fatalf("move %s to %s: %v", topic, dir, err)
	}
}

// where lists the directories of a topic's replica; what is on its way has a lag.
func (h *mover) where(topic string) string {
	synctest.Wait()
	var found []string
	for _, d := range h.m.DescribeLogDirs() {
		for _, l := range d.Logs {
			switch {
			case l.Topic != topic:
			case l.Future:
				found = append(found, fmt.Sprintf("%s future, lag %d", d.Path, l.OffsetLag))
			default:
				found = append(found, fmt.Sprintf("%s lag %d", d.Path, l.OffsetLag))
			}
		}
	}
	return strings.Join(found, "; ")
}

// onDisk lists the names of partitions in all directories, without what is unique in them.
func (h *mover) onDisk() string {
	var found []string
	for _, dir := range h.names {
		entries, err := h.fs.ReadDir(dir)
		if err != nil {
			h.t.Fatal(err)
		}
		for _, e := range entries {
			if name := e.Name(); e.IsDir() {
				head, tail, unique := strings.Cut(name, ".")
				if unique {
					name = head + tail[32:]
				}
				found = append(found, dir+"/"+name)
			}
		}
	}
	return strings.Join(found, " ")
}

// assign makes metadata say where a replica is.
func (h *mover) assign(id TopicIDPartition, dir string) {
	h.apply(metadata.PartitionChangeRecord{TopicID: id.TopicID, Directories: []uuid.UUID{h.dirID(dir)}})
}

func (h *mover) all(id TopicIDPartition) (values []string) {
	for {
		more := h.read(id, int64(len(values)))
		if len(more) == 0 {
			return values
		}
		values = append(values, more...)
	}
}

func numbered(from, to int) (values []string) {
	for i := from; i < to; i++ {
		values = append(values, fmt.Sprint(i))
	}
	return values
}

func TestReplicaMoves(t *testing.T) {
	for _, durability := range []string{"fsync", "replicated"} {
		movers(t, func(h *mover) {
			id := h.in("t", "/d1", "durability="+durability, "segment.bytes=500")
			for i := range 20 {
				h.must(id, fmt.Sprint(i))
			}
			parked := h.park(withWait(fetchOf(id, 20), time.Hour))
			h.mustAlter("t", "/d2")
			expect(t, "moved", h.where("t"), "/d2 lag 0")
			expect(t, "on the disk", h.onDisk(), "/d1/t-0-delete /d2/t-0")
			expect(t, "told", h.assigned[id], h.dirID("/d2"))

			h.must(id, "20")
			expect(t, "who waits is answered from the new log", parked.answered(), true)
			releaseAll(parked.FetchRequest)
			expect(t, "all", h.all(id), numbered(0, 21))
			h.mustAlter("t", "/d2")
			expect(t, "again", h.where("t"), "/d2 lag 0")

			h.assign(id, "/d2")
			time.Sleep(2 * time.Minute)
			expect(t, "removed", h.onDisk(), "/d2/t-0")
			h.stop()
			h.start()
			expect(t, "after a restart", h.all(id), numbered(0, 21))
			expect(t, "offline", len(h.m.OfflineReplicas()), 0)
		})
	}
}

// TestMovesBesideWrites: writers never notice, and nothing is lost or twice.
func TestMovesBesideWrites(t *testing.T) {
	movers(t, func(h *mover) {
		id := h.in("t", "/d1", "segment.bytes=2000")
		ctx, stop := context.WithCancel(h.t.Context())
		n, done := 0, make(chan struct{})
		go func() {
			defer close(done)
			for ; ctx.Err() == nil; n++ {
				if r := h.produce(id, AcksAll, fmt.Sprint(n)).result(); r.Err != nil || r.BaseOffset != int64(n) {
					t.Errorf("produce %d: %+v", n, r)
					return
				}
				sleep(ctx, 10*time.Millisecond)
			}
		}()
		h.limit.Store(30_000)
		for i := range 6 {
			time.Sleep(3 * time.Second)
			h.mustAlter("t", h.names[(i+1)%3])
		}
		time.Sleep(time.Minute)
		stop()
		<-done
		expect(t, "moved", h.where("t"), "/d1 lag 0")
		expect(t, "all", h.all(id), numbered(0, n))
	})
}

func TestMoveInProgress(t *testing.T) {
	movers(t, func(h *mover) {
		id := h.in("t", "/d1")
		for i := range 10 {
			h.must(id, fmt.Sprint(i))
		}
		h.limit.Store(held)
		h.mustAlter("t", "/d2")
		expect(t, "after one batch", h.where("t"), "/d1 lag 0; /d2 future, lag 9")
		h.must(id, "10")
		expect(t, "appended meanwhile", h.where("t"), "/d1 lag 0; /d2 future, lag 10")
		h.mustAlter("t", "/d2")
		expect(t, "asked again", h.where("t"), "/d1 lag 0; /d2 future, lag 10")
		h.mustAlter("t", "/d3")
		time.Sleep(2 * time.Minute)
		expect(t, "another directory", h.where("t"), "/d1 lag 0; /d3 future, lag 10")
		h.mustAlter("t", "/d1")
		expect(t, "back", h.where("t"), "/d1 lag 0")
		time.Sleep(2 * time.Minute)
		expect(t, "on the disk", h.onDisk(), "/d1/t-0")
		expect(t, "nobody was told", len(h.assigned), 0)

		h.mustAlter("t", "/d3")
		h.limit.Store(0)
		time.Sleep(maxPaceWait)
		expect(t, "moved", h.where("t"), "/d3 lag 0")
		expect(t, "all", h.all(id), numbered(0, 11))
	})
}

// TestMoveIsTakenUpAgain after a crash and after a stop.
func TestMoveIsTakenUpAgain(t *testing.T) {
	for _, crash := range []bool{true, false} {
		movers(t, func(h *mover) {
			id := h.in("t", "/d1")
			for i := range 10 {
				h.must(id, fmt.Sprint(i))
			}
			h.limit.Store(held)
			h.mustAlter("t", "/d2")
			time.Sleep(5 * time.Minute)
			if crash {
				h.crash()
			} else {
				h.stop()
			}
			h.limit.Store(0)
			h.start()
			expect(t, "moved", h.where("t"), "/d2 lag 0")
			expect(t, "all", h.all(id), numbered(0, 10))
			expect(t, "told", h.assigned[id], h.dirID("/d2"))
		})
	}
}

func TestChangesDuringAMove(t *testing.T) {
	begun := func(t *testing.T, f func(h *mover, id TopicIDPartition)) {
		t.Helper()
		movers(t, func(h *mover) {
			id := h.in("t", "/d1", "segment.bytes=300")
			for i := range 10 {
				h.must(id, fmt.Sprint(i))
			}
			h.limit.Store(held)
			h.mustAlter("t", "/d2")
			expect(t, "begun", h.where("t"), "/d1 lag 0; /d2 future, lag 9")
			f(h, id)
		})
	}
	t.Run("the topic is deleted", func(t *testing.T) {
		begun(t, func(h *mover, id TopicIDPartition) {
			h.apply(metadata.RemoveTopicRecord{ID: id.TopicID})
			expect(t, "gone", h.where("t"), "")
			time.Sleep(2 * time.Minute)
			expect(t, "on the disk", h.onDisk(), "")
			h.in("t", "/d2")
			expect(t, "the next one", h.where("t"), "/d2 lag 0")
		})
	})
	t.Run("records are deleted", func(t *testing.T) {
		begun(t, func(h *mover, id TopicIDPartition) {
			h.deleteRecords(id, 8)
			h.limit.Store(0)
			time.Sleep(maxPaceWait * 2)
			expect(t, "moved", h.where("t"), "/d2 lag 0")
			h.crash()
			h.start()
			expect(t, "log start", h.read(id, 8), []string{"8", "9"})
			expect(t, "log start", int64(h.m.get(id).log().LogStart()), int64(8))
		})
	})
	t.Run("configuration", func(t *testing.T) {
		begun(t, func(h *mover, id TopicIDPartition) {
			h.apply(setConfig("t", "segment.bytes=100000"))
			h.limit.Store(0)
			time.Sleep(maxPaceWait * 2)
			expect(t, "moved", h.where("t"), "/d2 lag 0")
			at := h.m.get(id).at().log
			expect(t, "in force", at.Config().SegmentBytes, int32(100000))
			expect(t, "for what was copied later, too", at.NumSegments() < 3, true)
		})
	})
	t.Run("a new leader epoch without records", func(t *testing.T) {
		begun(t, func(h *mover, id TopicIDPartition) {
			h.apply(metadata.PartitionChangeRecord{TopicID: id.TopicID, Leader: metadata.Ptr[int32](1)})
			want, _ := h.m.get(id).Leader()
			h.limit.Store(0)
			time.Sleep(maxPaceWait * 2)
			expect(t, "moved", h.where("t"), "/d2 lag 0")
			epoch, _ := h.m.get(id).at().log.LatestEpoch()
			expect(t, "its epoch", epoch, want.Epoch)
		})
	})
}

// TestCopyOfAnEmptyReplica: a log without records has no files, but its copy does. A crash in
// between must not leave the replica offline for good.
func TestCopyOfAnEmptyReplica(t *testing.T) {
	movers(t, func(h *mover) {
		id := h.in("t", "/d1")
		h.limit.Store(held)
		h.mustAlter("t", "/d2")
		expect(t, "a copy", h.count("-future"), 1)
		h.crash()
		h.limit.Store(0)
		h.start()
		h.must(id, "a")
		time.Sleep(maxPaceWait * 2)
		expect(t, "moved", h.where("t"), "/d2 lag 0")
		expect(t, "records", h.all(id), []string{"a"})
	})
}

// TestNoMemoryOfAReplicaThatLeft: a replica has moved, and the process died before the
// directory that it has left forgot it. The replica is taken away, and comes back: there it
// may begin.
func TestNoMemoryOfAReplicaThatLeft(t *testing.T) {
	movers(t, func(h *mover) {
		id := h.in("t", "/d1")
		h.must(id, "a")
		h.mustAlter("t", "/d2")
		time.Sleep(5 * time.Minute)
		expect(t, "moved", h.where("t"), "/d2 lag 0")
		h.crash()
		h.start()
		h.apply(metadata.PartitionChangeRecord{TopicID: id.TopicID, Replicas: []int32{2}, ISR: []int32{2}, Leader: new(int32(2))})
		h.apply(metadata.PartitionChangeRecord{TopicID: id.TopicID, Replicas: []int32{1, 2}, Directories: []uuid.UUID{h.dirID("/d1"), uuid.DirUnassigned}, ISR: []int32{1}, Leader: new(int32(1))})
		expect(t, "here again", h.where("t"), "/d1 lag 0")
	})
}

// TestMovedReplicaIsTakenAway before metadata knows where it is.
func TestMovedReplicaIsTakenAway(t *testing.T) {
	movers(t, func(h *mover) {
		id := h.in("t", "/d1")
		h.must(id, "a")
		h.mustAlter("t", "/d2")
		time.Sleep(5 * time.Minute)
		expect(t, "moved", h.where("t"), "/d2 lag 0")
		h.apply(metadata.PartitionChangeRecord{TopicID: id.TopicID, Replicas: []int32{2}, ISR: []int32{2}, Leader: new(int32(2))})
		known, err := checkpoint.ReadFlushed(h.fs, "/d1/"+checkpoint.FlushedFile)
		expect(t, "forgotten where it was", fmt.Sprint(known, err), "map[] <nil>")
	})
}

// TestCopyOfADamagedReplica is kept as long as the replica: it may be all that can be read.
func TestCopyOfADamagedReplica(t *testing.T) {
	movers(t, func(h *mover) {
		id := h.in("t", "/d1")
		for i := range 10 {
			h.must(id, fmt.Sprint(i))
		}
		h.limit.Store(held)
		h.mustAlter("t", "/d2")
		time.Sleep(time.Minute)
		h.crash()
		if err := h.fs.Remove("/d1/t-0/00000000000000000000.log"); err != nil {
			t.Fatal(err)
		}
		h.start()
		expectError(t, "damaged", h.produce(id, AcksAll, "x").result().Err, "KAFKA_STORAGE_ERROR")
		expect(t, "kept", h.onDisk(), "/d1/t-0 /d2/t-0-future")
		h.apply(metadata.RemoveTopicRecord{ID: id.TopicID})
		time.Sleep(2 * time.Minute)
		expect(t, "gone", h.onDisk(), "")
	})
}

func (h *mover) deleteRecords(id TopicIDPartition, to int64) {
	h.t.Helper()
	req := &DeleteRecordsRequest{Timeout: time.Second, Partitions: []DeleteRecordsPartition{{TopicIDPartition: id, Offset: to}}}
	h.m.DeleteRecords(h.t.Context(), req)
	if r := req.Partitions[0].Result; r.Err != nil || r.LowWatermark != to {
		h.t.Fatalf("delete records: %+v", r)
	}
}

// TestWhoMayMove checks errors in the order of Kafka.
func TestWhoMayMove(t *testing.T) {
	movers(t, func(h *mover) {
		h.in("t", "/d1")
		long := strings.Repeat("x", 220)
		expectError(t, "long name before anything", h.alter(long, "/nowhere"), "INVALID_TOPIC_EXCEPTION")
		expectError(t, "unknown directory before topic", h.alter("nope", "/nowhere"), "LOG_DIR_NOT_FOUND")
		expectError(t, "no path of it", h.alter("t", "/d1/"), "LOG_DIR_NOT_FOUND")
		expectError(t, "missing directory", h.alter("nope", "/d9"), "KAFKA_STORAGE_ERROR")
		expectError(t, "unknown topic", h.alter("nope", "/d1"), "UNKNOWN_TOPIC_OR_PARTITION")
		elsewhere := alone
		elsewhere.replicas, elsewhere.isr = []int32{2}, []int32{2}
		h.topic("elsewhere", 1, elsewhere)
		expectError(t, "on another broker", h.alter("elsewhere", "/d2"), "REPLICA_NOT_AVAILABLE")
		expectError(t, "while a directory is offline", h.alter("t", "/d2"), "KAFKA_STORAGE_ERROR")
		expect(t, "to where it is", h.alter("t", "/d1"), error(nil))
	}, withOptions(func(o *Options) { o.DirsMissing = []string{"/d9"} }))
}

// TestWishForAReplicaToCome: a directory that was asked for before there was a replica.
func TestWishForAReplicaToCome(t *testing.T) {
	movers(t, func(h *mover) {
		expectError(t, "unknown", h.alter("t", "/d3"), "UNKNOWN_TOPIC_OR_PARTITION")
		id := h.in("t", "/d1")
		expect(t, "is where it was wanted", h.where("t"), "/d3 lag 0")
		expect(t, "told", h.assigned[id], h.dirID("/d3"))
		h.apply(metadata.RemoveTopicRecord{ID: id.TopicID})
		h.in("t", "/d1")
		expect(t, "once", h.where("t"), "/d1 lag 0")
	})
}

// TestNoEmptyLogWhereAReplicaHasBeen: the controller has not heard of a move when the
// broker comes back without the new directory (D19).
func TestNoEmptyLogWhereAReplicaHasBeen(t *testing.T) {
	movers(t, func(h *mover) {
		id := h.in("t", "/d1")
		h.must(id, "a")
		h.mustAlter("t", "/d2")
		expect(t, "moved", h.where("t"), "/d2 lag 0")
		h.must(id, "b")
		h.stop()
		h.names, h.options.DirsMissing = []string{"/d1", "/d3"}, []string{"/d2"}
		h.start()
		expectError(t, "not begun anew", h.produce(id, AcksAll, "x").result().Err, "KAFKA_STORAGE_ERROR")
		h.stop()
		h.names, h.options.DirsMissing = []string{"/d1", "/d2", "/d3"}, nil
		clear(h.assigned)
		h.start()
		expect(t, "there again", h.all(id), []string{"a", "b"})
		expect(t, "told again", h.assigned[id], h.dirID("/d2"))
		h.assign(id, "/d2")
		h.stop()
		h.start()
		expect(t, "nothing is damaged", len(h.m.OfflineReplicas())+len(h.m.DamagedReplicas()), 0)
	})
}

// TestOlderCopyComesBack with a disk that was away during a move: the better one is taken
// wherever metadata says the replica is.
func TestOlderCopyComesBack(t *testing.T) {
	movers(t, func(h *mover) {
		id := h.in("t", "/d1")
		h.must(id, "a")
		h.stop()
		h.copyTree("/d1/t-0", "/d3/t-0")
		h.start()
		expect(t, "the same: as metadata says", h.where("t"), "/d1 lag 0")
		h.must(id, "b")
		h.stop()
		h.copyTree("/d1/t-0", "/d3/t-0")
		if err := h.fs.RemoveAll("/d3/.kafka_cleanshutdown"); err != nil {
			t.Fatal(err)
		}
		h.start()
		h.must(id, "c")
		h.mustAlter("t", "/d2")
		expect(t, "moved", h.where("t"), "/d2 lag 0")
		h.stop()
		h.copyTree("/d2/t-0", "/d1/t-0")
		h.start()
		expect(t, "all", h.all(id), []string{"a", "b", "c"})
		expect(t, "not set aside", h.count("-stray"), 0)
	})
}

// copyTree copies a directory without its subdirectories.
func (h *mover) copyTree(from, to string) {
	h.t.Helper()
	entries, err := h.fs.ReadDir(from)
	if err == nil {
		err = h.fs.MkdirAll(to, 0o755)
	}
	for _, e := range entries {
		data, readErr := vfs.ReadFile(h.fs, from+"/"+e.Name())
		if readErr != nil {
			h.t.Fatal(readErr)
		}
		if writeErr := vfs.WriteFileAtomic(h.fs, to+"/"+e.Name(), data); writeErr != nil {
			h.t.Fatal(writeErr)
		}
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// TestDiskOfAMoveFails: the one that the replica is to leave, at the last moment; the one
// that it was to go to.
func TestDiskOfAMoveFails(t *testing.T) {
	var faults *errfs.FS
	broken := withFS(func(fs vfs.FS) vfs.FS {
		if faults == nil {
			faults = errfs.Wrap(fs)
		}
		return faults
	})
	t.Run("old", func(t *testing.T) {
		faults = nil
		movers(t, func(h *mover) {
			id := h.in("t", "/d1")
			h.must(id, "a")
			time.Sleep(2 * time.Second)
			faults.Add("rename t-0 dir=/d1 err=EIO")
			h.mustAlter("t", "/d2")
			expect(t, "moved", h.where("t"), "/d2 lag 0")
			h.must(id, "b")
			expect(t, "all", h.all(id), []string{"a", "b"})
			expect(t, "offline", h.m.OfflineDirs(), []uuid.UUID{h.dirID("/d1")})
			h.ignoreClose = true
		}, broken)
	})
	t.Run("new", func(t *testing.T) {
		faults = nil
		movers(t, func(h *mover) {
			id := h.in("t", "/d1")
			h.must(id, "a")
			faults.Add("sync dir=/d2 err=EIO")
			h.mustAlter("t", "/d2")
			expect(t, "stays", h.where("t"), "/d1 lag 0")
			h.must(id, "b")
			expect(t, "all", h.all(id), []string{"a", "b"})
			expectError(t, "not now", h.alter("t", "/d3"), "KAFKA_STORAGE_ERROR")
			h.ignoreClose = true
		}, broken)
	})
	t.Run("new, full for a while", func(t *testing.T) {
		faults = nil
		movers(t, func(h *mover) {
			id := h.in("t", "/d1")
			h.must(id, "a")
			faults.Add("write *.log dir=/d2 err=ENOSPC nth=1")
			h.mustAlter("t", "/d2")
			expect(t, "waits", h.where("t"), "/d1 lag 0; /d2 future, lag 1")
			h.must(id, "b")
			time.Sleep(2 * movePause)
			expect(t, "moved", h.where("t"), "/d2 lag 0")
			expect(t, "all", h.all(id), []string{"a", "b"})
		}, broken)
	})
}

// TestFollowerMoves: what it fetches goes on in the new directory, and is acknowledged by a
// flush there; a truncation before the move is followed.
func TestFollowerMoves(t *testing.T) {
	var limit atomic.Int64
	limit.Store(held)
	pairBubble(t, func(d *duo) {
		id := d.topic("t", 1, pair)
		for i := range 5 {
			d.must(id, fmt.Sprint(i))
		}
		there := "/d2"
		if d.other.m.get(id).at().dir.Path() == there {
			there = "/d1"
		}
		wanted := []ReplicaDir{{Topic: "t", Dir: there}}
		d.other.m.AlterReplicaLogDirs(wanted)
		expect(t, "begun", wanted[0].Err, error(nil))
		d.lead(id, 2, 2)
		d.cut.Store(true)
		time.Sleep(time.Second)
		d.other.produce(id, AcksOne, "lost") // by whom nobody follows
		d.lead(id, 1, 1)
		d.cut.Store(false)
		d.must(id, "5")
		limit.Store(0)
		time.Sleep(5 * time.Second)
		expect(t, "moved", d.other.m.get(id).at().dir.Path(), there)
		d.must(id, "6")
		time.Sleep(5 * time.Second)
		running, replicas := d.other.m.fetchers.counts()
		expect(t, "fetchers and replicas", [2]int{running, replicas}, [2]int{1, 1})
		d.lead(id, 2, 2)
		expect(t, "all", d.other.read(id, 0)[:1], []string{"0"})
		expect(t, "end", int64(d.other.log(id).LogEnd()), int64(d.log(id).LogEnd()))
		d.other.must(id, "7")
	}, withDirs("/d1", "/d2"), withOptions(func(o *Options) { o.MoveBytesPerSecond = limit.Load }))
}
