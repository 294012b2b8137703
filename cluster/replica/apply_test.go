package replica

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// TestTopicRecreated: the same name is another topic. Nothing of the old one shows in it.
func TestTopicRecreated(t *testing.T) {
	bubble(t, func(h *harness) {
		old := h.topic("t", 2, alone)
		h.must(old, "old")
		h.apply(metadata.RemoveTopicRecord{ID: old.TopicID})
		expectError(t, "old id", h.produce(old, AcksAll, "x").result().Err, "UNKNOWN_TOPIC_OR_PARTITION")
		again := h.topic("t", 2, alone)
		expect(t, "empty", h.read(again, 0), []string(nil))
		expect(t, "offset", h.must(again, "new").BaseOffset, int64(0))
		expect(t, "new", h.read(again, 0), []string{"new"})
	})
}

// TestTopicRecreatedInOneDelta, as when this broker was behind.
func TestTopicRecreatedInOneDelta(t *testing.T) {
	bubble(t, func(h *harness) {
		old := h.topic("t", 1, alone)
		h.must(old, "old")
		id := uuid.UUID{0: 0x77}
		h.apply(
			metadata.RemoveTopicRecord{ID: old.TopicID},
			metadata.TopicRecord{Name: "t", ID: id},
			metadata.PartitionRecord{TopicID: id, Partition: metadata.Partition{
				Replicas: []int32{1}, ISR: []int32{1}, Leader: 1, Directories: []uuid.UUID{uuid.DirUnassigned},
			}},
		)
		expect(t, "empty", h.read(TopicIDPartition{TopicID: id}, 0), []string(nil))
	})
}

// TestRestartFindsEverything, and brings the high watermark back.
func TestRestartFindsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		h.start()
		id := h.topic("t", 3, alone)
		h.must(id, "a", "b")
		h.must(id.partition(2), "c")
		h.stop()
		h.start()
		expect(t, "partition 0", h.read(id, 0), []string{"a", "b"})
		expect(t, "partition 1", h.read(id.partition(1), 0), []string(nil))
		expect(t, "partition 2", h.read(id.partition(2), 0), []string{"c"})
		expect(t, "goes on", h.must(id, "d").BaseOffset, int64(2))
		h.stop()
	})
}

// TestStraysAreSetAside: what metadata does not place here any more is kept, out of the
// way, if it holds anything.
func TestStraysAreSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		h.start()
		gone, moved, kept := h.topic("gone", 1, alone), h.topic("moved", 1, alone), h.topic("kept", 1, alone)
		for _, id := range []TopicIDPartition{gone, moved, kept} {
			h.must(id, "v")
		}
		empty := h.topic("empty", 3, alone)
		time.Sleep(2 * time.Second) // they get their files
		h.stop()
		d := metadata.NewDelta(h.image)
		err := d.ReplayAll(metadata.RemoveTopicRecord{ID: gone.TopicID}, metadata.RemoveTopicRecord{ID: empty.TopicID},
			metadata.PartitionChangeRecord{
				TopicID: moved.TopicID, Replicas: []int32{2}, ISR: []int32{2},
				Directories: pairDirs[:1], Leader: metadata.Ptr(int32(2)),
			})
		if err != nil {
			t.Fatal(err)
		}
		h.image = d.Image(metadata.Position{Index: 99})
		h.start()
		expect(t, "kept", h.read(kept, 0), []string{"v"})
		expectError(t, "gone", h.produce(gone, AcksAll, "x").result().Err, "UNKNOWN_TOPIC_OR_PARTITION")
		expectError(t, "moved", h.produce(moved, AcksAll, "x").result().Err, "NOT_LEADER_FOR_PARTITION")
		expect(t, "set aside", h.count("-stray"), 2)
		expect(t, "deleted", h.count("-delete"), 3)
		h.stop()
	})
}

// TestConfigChanges reach the replicas of a topic, and what waits for them.
func TestConfigChanges(t *testing.T) {
	bubble(t, func(h *harness) {
		id := h.topic("t", 2, alone)
		h.gate.close()
		p := h.produce(id, AcksAll, "a")
		expect(t, "waits for the flush", p.answered(), false)
		h.apply(setConfig("t", "durability=replicated"))
		expect(t, "need not any more", p.answered(), true)
		h.gate.release()
		h.apply(setConfig("t", "max.message.bytes=10"))
		expectError(t, "too large", h.produce(id.partition(1), AcksAll, "0123456789").result().Err, "MESSAGE_TOO_LARGE")
	})
}

// TestIdlePartitionsHaveNoGoroutine: 2,000 of them run nothing.
func TestIdlePartitionsHaveNoGoroutine(t *testing.T) {
	bubble(t, func(h *harness) {
		h.topic("first", 1, alone)
		synctest.Wait()
		before := runtime.NumGoroutine()
		h.topic("many", 2000, alone)
		synctest.Wait()
		if after := runtime.NumGoroutine(); after > before+100 {
			t.Errorf("%d goroutines with 1 partition, %d with 2,001", before, after)
		}
	})
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	bubble(t, func(h *harness) {
		id := h.topic("alone", 2, alone)
		h.topic("pair", 1, assignment{replicas: []int32{1, 2}, isr: []int32{1}, dir: uuid.DirUnassigned}, "min.insync.replicas=2")
		h.topic("follow", 1, assignment{replicas: []int32{2, 1}, isr: []int32{2, 1}, dir: uuid.DirUnassigned})
		got := gather(t, reg)
		for name, want := range map[string]float64{
			"partitioncount": 4, "leadercount": 3, "offlinereplicacount": 0, "underreplicatedpartitions": 1,
			"underminisrpartitioncount": 1, "atminisrpartitioncount": 2,
		} {
			expect(t, name, got["kafka_server_replicamanager_"+name], want)
		}
		expect(t, "producers", got["kafka_server_replicamanager_produceridcount"], 0.0)
		h.send(id, AcksOne, h.records(&batch.Producer{ID: 7}, "a")).result()
		expect(t, "producers", gather(t, reg)["kafka_server_replicamanager_produceridcount"], 1.0)
		h.m.DirectoryFailed(h.dirs[0], fmt.Errorf("gone"))
		expect(t, "offline", gather(t, reg)["kafka_server_replicamanager_offlinereplicacount"], 4.0)
	}, withOptions(func(o *Options) { o.Registerer = reg }))
}

// Whoever leaves an ISR that is below min.insync.replicas stays eligible to lead: so the
// number counts before the ISR does, where both come with one change of metadata.
func TestMinISRIsRaisedBeforeTheISRShrinks(t *testing.T) {
	bubble(t, func(h *harness) {
		h.registerBrokers(1, 2)
		id := h.topic("t", 1, assignment{replicas: []int32{1, 2}, isr: []int32{1, 2}})
		waits := h.produce(id, AcksAll, "only here")
		expect(t, "broker 2 is in the ISR", waits.answered(), false)
		h.apply(
			setConfig("t", "min.insync.replicas=2"),
			metadata.PartitionChangeRecord{TopicID: id.TopicID, ISR: []int32{1}, ELR: []int32{2}},
		)
		if waits.answered() {
			t.Errorf("acknowledged, although broker 2 may be elected without it: %v", waits.result().Err)
		}
		if hw := h.m.get(id).HighWatermark(); hw != 0 {
			t.Errorf("high watermark %d", hw)
		}
	})
}

// Two processes with one id: this one was paused, say, and another one has become broker 1.
// What metadata says of broker 1 is about the other one, whose log is not this one.
func TestNothingIsLedByAProcessThatWasReplaced(t *testing.T) {
	mine, others := uuid.UUID{1}, uuid.UUID{2}
	epoch := int64(100)
	register := func(h *harness, to int64, incarnation uuid.UUID) {
		h.apply(metadata.RegisterBrokerRecord{Broker: metadata.Broker{ID: 1, Epoch: to, IncarnationID: incarnation}}, metadata.BumpLeaderEpochsRecord{BrokerID: 1})
	}
	bubble(t, func(h *harness) {
		register(h, epoch, mine)
		id := h.topic("t", 1, alone)
		h.must(id, "a")
		register(h, 200, others)
		expectError(t, "produce", h.produce(id, AcksAll, "b").result().Err, "NOT_LEADER_FOR_PARTITION")
		again := h.topic("again", 1, alone)
		expectError(t, "produce", h.produce(again, AcksOne, "b").result().Err, "NOT_LEADER_FOR_PARTITION")
		epoch = 300
		register(h, epoch, mine)
		h.must(id, "c")
		expect(t, "records", h.read(id, 0), []string{"a", "c"})
	}, withOptions(func(o *Options) {
		o.Incarnation, o.Following.BrokerEpoch = mine, func() int64 { return epoch }
	}))
}
