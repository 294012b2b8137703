package replica

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// count counts the entries of all directories whose names end so.
func (h *harness) count(suffix string) (n int) {
	h.t.Helper()
	for _, name := range h.names {
		entries, err := h.fs.ReadDir(name)
		if err != nil {
			h.t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), suffix) {
				n++
			}
		}
	}
	return n
}

// logs is the number of logs in each directory.
func (h *harness) logs() (n []int) {
	for _, d := range h.dirs {
		n = append(n, len(d.Logs()))
	}
	return n
}

func TestNewLogsGoWhereFewestAre(t *testing.T) {
	bubble(t, func(h *harness) {
		h.topic("a", 2, alone)
		expect(t, "spread", h.logs(), []int{1, 1, 0})
		assigned := alone
		assigned.dir = h.dirs[1].DirectoryID()
		h.topic("b", 3, assigned)
		expect(t, "assigned", h.logs(), []int{1, 4, 0})
		h.topic("c", 4, alone)
		expect(t, "levelled", h.logs(), []int{3, 4, 2})
	}, withDirs("/d1", "/d2", "/d3"))
}

// TestDirectoryFails: one disk of two. Its partitions are offline, those who wait for it
// are told, the others go on.
func TestDirectoryFails(t *testing.T) {
	var faults *errfs.FS
	bubble(t, func(h *harness) {
		id := h.topic("t", 2, alone)
		h.must(id, "a")
		h.must(id.partition(1), "b")
		bad, good := id, id.partition(1)
		if h.m.get(id).at().dir.Path() == "/d2" {
			bad, good = good, bad
		}
		faults.Add("sync dir=/d1 err=EIO")
		parked := h.park(withWait(fetchOf(bad, 1), time.Hour))
		expectError(t, "waits for the flush that fails", h.produce(bad, AcksAll, "c").result().Err, "KAFKA_STORAGE_ERROR")
		expectError(t, "with acks=1 too", h.produce(bad, AcksOne, "c").result().Err, "KAFKA_STORAGE_ERROR")
		expect(t, "fetch", parked.answered(), true)
		expectError(t, "fetch", parked.Partitions[0].Result.Err, "KAFKA_STORAGE_ERROR")

		h.must(good, "d")
		expect(t, "the other goes on", len(h.read(good, 0)), 2)
		expect(t, "offline", len(h.m.OfflineReplicas()), 1)
		expect(t, "not all", h.offline, error(nil))
		expect(t, "reported", h.m.OfflineDirs(), []uuid.UUID{h.dirs[0].DirectoryID()})
		expect(t, "no replica is damaged", len(h.m.DamagedReplicas()), 0)

		h.topic("new", 2, alone)
		expect(t, "new logs go to the other", len(h.dirs[1].Logs()), 3)

		faults.Add("sync dir=/d2 err=EIO")
		expectError(t, "the last one", h.produce(good, AcksAll, "e").result().Err, "KAFKA_STORAGE_ERROR")
		synctest.Wait()
		if h.offline == nil {
			t.Error("nobody was told that all directories are offline")
		}
		h.ignoreClose = true
	}, withDirs("/d1", "/d2"), withFS(func(fs vfs.FS) vfs.FS {
		if faults == nil {
			faults = errfs.Wrap(fs)
		}
		return faults
	}))
}

// TestDiskFull: appends are refused, reads go on, and it ends by itself.
func TestDiskFull(t *testing.T) {
	bubble(t, func(h *harness) {
		id := h.topic("t", 1, alone)
		h.must(id, "a")
		h.fs.SetCapacity(1)
		time.Sleep(2 * time.Second) // the keeper looks
		synctest.Wait()
		expectError(t, "full", h.produce(id, AcksAll, "b").result().Err, "KAFKA_STORAGE_ERROR")
		expect(t, "reads go on", h.read(id, 0), []string{"a"})
		expect(t, "full is not offline", len(h.m.OfflineReplicas()), 0)
		h.fs.SetCapacity(1 << 30)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		h.must(id, "c")
		expect(t, "goes on", h.read(id, 0), []string{"a", "c"})
	})
}

// TestDamagedLogIsOffline: the broker starts, everything else serves, and the last copy is
// left where it is.
func TestDamagedLogIsOffline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		h.start()
		bad, good := h.topic("bad", 1, alone), h.topic("good", 1, alone)
		h.must(bad, "a")
		h.must(good, "b")
		log := h.m.get(bad).at().log.Path() + "/00000000000000000000.log"
		time.Sleep(2 * time.Second) // the flushed offsets are persisted
		synctest.Wait()
		h.crash()
		if err := h.fs.Remove(log); err != nil {
			t.Fatal(err)
		}
		h.start()
		expectError(t, "damaged", h.produce(bad, AcksAll, "x").result().Err, "KAFKA_STORAGE_ERROR")
		expect(t, "the other", h.read(good, 0), []string{"b"})
		expect(t, "not set aside", h.count("-stray"), 0)
		expect(t, "reported", h.m.DamagedReplicas(), []TopicIDPartition{bad})
		expect(t, "directories reported", len(h.m.OfflineDirs()), 0)
		h.stop()
	})
}

// TestReplicaOfALostDirectoryIsNotBegunAnew (D19).
func TestReplicaOfALostDirectoryIsNotBegunAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, withDirs("/d1", "/d2"))
		h.start()
		assigned := alone
		assigned.dir = h.dirs[1].DirectoryID()
		lost, unknown := h.topic("lost", 1, assigned), h.topic("unknown", 3, alone)
		h.must(lost, "a")
		time.Sleep(2 * time.Second) // all get their files
		h.stop()

		h.names = []string{"/d1"}
		h.options.DirsMissing = []string{"/d9"}
		h.start()
		expectError(t, "assigned to the lost one", h.produce(lost, AcksAll, "x").result().Err, "KAFKA_STORAGE_ERROR")
		offline := 0
		for i := range 3 {
			if err := h.produce(unknown.partition(i), AcksAll, "x").result().Err; err != nil {
				expectError(t, "perhaps in the lost one", err, "KAFKA_STORAGE_ERROR")
				offline++
			}
		}
		expect(t, "offline of unknown", offline, 1)
		h.must(h.topic("new", 1, alone), "new topics are begun")
		later := h.topic("later", 1, assigned) // also when start is long over
		expectError(t, "placed in the lost one", h.produce(later, AcksAll, "x").result().Err, "KAFKA_STORAGE_ERROR")
		h.stop()
	})
}

// TestTopicOfADamagedLogIsCreatedAgain: what an operator does with a damaged partition
// that nobody needs. The new topic must not stumble over the files of the old one, and
// those go like any deleted topic's.
func TestTopicOfADamagedLogIsCreatedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		h.apply(metadata.RemoveTopicRecord{ID: h.damage("bad").TopicID})
		expect(t, "renamed", h.count("-delete"), 1)
		h.must(h.topic("bad", 1, alone), "new")
		time.Sleep(time.Hour)
		synctest.Wait()
		expect(t, "removed", h.count("-delete"), 0)
		h.stop()
		h.start()
		expect(t, "clean", h.clean(), true)
		h.stop()
	})
}

// TestDamagedLogOfADeletedTopicIsSetAside: the topic was deleted while the broker was
// down. Its files must not stand in the way of the next topic of that name, nor of clean
// stops.
func TestDamagedLogOfADeletedTopicIsSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		id := h.damage("bad")
		h.crash()
		d := metadata.NewDelta(h.image)
		if err := d.ReplayAll(metadata.RemoveTopicRecord{ID: id.TopicID}); err != nil {
			t.Fatal(err)
		}
		h.image = d.Image(h.image.Position())
		h.start()
		expect(t, "set aside", h.count("-stray"), 1)
		h.must(h.topic("bad", 1, alone), "new")
		h.stop()
		h.start()
		expect(t, "clean", h.clean(), true)
		h.stop()
	})
}

// damage starts a broker with one topic of one partition, and again without its log file.
func (h *harness) damage(name string) TopicIDPartition {
	h.t.Helper()
	h.start()
	id := h.topic(name, 1, alone)
	h.must(id, "a")
	log := h.m.get(id).at().log.Path() + "/00000000000000000000.log"
	time.Sleep(2 * time.Second) // the flushed offsets are persisted
	synctest.Wait()
	h.crash()
	if err := h.fs.Remove(log); err != nil {
		h.t.Fatal(err)
	}
	h.start()
	if h.produce(id, AcksAll, "x").result().Err == nil {
		h.t.Fatal("a damaged log takes records")
	}
	return id
}

// TestLogSaysWhatIsMissing: of a log whose directory is gone the disk knows the topic's id alone;
// who reads the line wants its name.
func TestLogSaysWhatIsMissing(t *testing.T) {
	var said bytes.Buffer
	bubble(t, func(h *harness) {
		id := h.topic("orders", 1, alone)
		h.must(id, "a")
		directory := h.m.get(id).at().log.Path()
		time.Sleep(2 * time.Second) // the flushed offsets are persisted
		synctest.Wait()
		h.crash()
		if err := h.fs.RemoveAll(directory); err != nil {
			t.Fatal(err)
		}
		h.start()
		if !strings.Contains(said.String(), `msg="replica is offline" topic=orders partition=0`) {
			t.Errorf("the log says %s", said.String())
		}
	}, withOptions(func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&said, nil)) }))
}

// clean tells whether the last stop of every directory was clean.
func (h *harness) clean() bool {
	for _, d := range h.dirs {
		if _, clean := d.PreviousBrokerEpoch(); !clean {
			return false
		}
	}
	return true
}

// TestLogIsCreatedWhenThereIsRoom: a topic that was created on a full disk, or while
// clients held all descriptors, can be used when that has passed.
func TestLogIsCreatedWhenThereIsRoom(t *testing.T) {
	for _, rule := range []string{"mkdir err=ENOSPC", "open *.log err=ENOSPC", "open *.index err=EMFILE"} {
		t.Run(rule, func(t *testing.T) {
			var faults *errfs.FS
			bubble(t, func(h *harness) {
				faults.Add(rule)
				id := h.topic("t", 2, alone)
				gone := h.topic("gone", 1, alone)
				expectError(t, "no log", h.produce(id, AcksAll, "x").result().Err, "KAFKA_STORAGE_ERROR")
				h.apply(metadata.RemoveTopicRecord{ID: gone.TopicID})
				time.Sleep(5 * creationPause)
				expectError(t, "still none", h.produce(id, AcksAll, "x").result().Err, "KAFKA_STORAGE_ERROR")
				faults.Clear()
				time.Sleep(2 * creationPause)
				synctest.Wait()
				h.must(id, "a")
				h.must(id.partition(1), "b")
				expect(t, "logs", h.logs(), []int{2})
			}, withFS(func(fs vfs.FS) vfs.FS {
				faults = errfs.Wrap(fs)
				return faults
			}))
		})
	}
}

// A replica that was on a disk that has been replaced is fetched again, when metadata shows
// that nobody counts on what was there, and the controller is told where it is now.
func TestReplicaOfAReplacedDisk(t *testing.T) {
	pairBubble(t, func(d *duo) {
		told := map[TopicIDPartition]uuid.UUID{}
		d.other.m.opts.AssignDirectory = func(id TopicIDPartition, dir uuid.UUID) { told[id] = dir }
		id := TopicIDPartition{TopicID: uuid.UUID{1: 0xdd}}
		d.apply(
			metadata.TopicRecord{Name: "t", ID: id.TopicID},
			metadata.PartitionRecord{TopicID: id.TopicID, Partition: metadata.Partition{
				Replicas: []int32{1, 2}, ISR: []int32{1}, ELR: []int32{2}, Leader: 1,
				Directories: []uuid.UUID{uuid.DirUnassigned, {15: 9}},
			}},
		)
		d.must(id, "a", "b")
		time.Sleep(time.Second)
		if d.other.m.get(id).Failure() == nil {
			t.Error("an eligible leader replica began anew")
		}
		d.apply(metadata.PartitionChangeRecord{TopicID: id.TopicID, ELR: []int32{}})
		time.Sleep(time.Second)
		h := d.other.m.get(id)
		if err := h.Failure(); err != nil {
			t.Fatal(err)
		}
		expect(t, "fetched", int64(h.log().LogEnd()), int64(2))
		expect(t, "the controller is told", told[id], d.other.dirs[0].DirectoryID())
	})
}

// While a directory is missing, the replica may be there.
func TestReplicaOfAMissingDirectoryIsNotBegunAnew(t *testing.T) {
	missing := withOptions(func(o *Options) { o.DirsMissing = []string{"/d2"} })
	pairBubble(t, func(d *duo) {
		id := TopicIDPartition{TopicID: uuid.UUID{1: 0xdd}}
		d.apply(
			metadata.TopicRecord{Name: "t", ID: id.TopicID},
			metadata.PartitionRecord{TopicID: id.TopicID, Partition: metadata.Partition{
				Replicas: []int32{1, 2}, ISR: []int32{1}, Leader: 1, Directories: []uuid.UUID{uuid.DirUnassigned, {15: 9}},
			}},
		)
		time.Sleep(time.Second)
		expectError(t, "replica", d.other.m.get(id).Failure(), "KAFKA_STORAGE_ERROR")
		d.apply(metadata.PartitionChangeRecord{TopicID: id.TopicID, ELR: []int32{}})
		time.Sleep(time.Second)
		expectError(t, "replica", d.other.m.get(id).Failure(), "KAFKA_STORAGE_ERROR")
	}, missing)
}
