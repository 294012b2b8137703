package replica

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// TestProduceAwaits: what each kind of produce waits for, by the cases of
// Partition.Reached.
func TestProduceAwaits(t *testing.T) {
	for _, c := range []struct {
		name   string
		acks   int16
		topic  assignment
		config string
		early  bool // answered before the flush
		after  bool // answered after the flush
	}{
		{"C all, leader alone", AcksAll, alone, "", false, true},
		{"D one, leader alone", AcksOne, alone, "", false, true},
		{"D none, leader alone", AcksNone, alone, "", false, true},
		{"all, replicated", AcksAll, alone, "durability=replicated", true, true},
		{"one, replicated", AcksOne, alone, "durability=replicated", true, true},
		{"all, another member", AcksAll, pair, "", false, false},
		{"one, another member", AcksOne, pair, "", true, true},
		{"none, another member", AcksNone, pair, "", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				id := h.topic("t", 1, c.topic, configOf(c.config)...)
				h.gate.close()
				p := h.produce(id, c.acks, "a")
				expect(t, "before the flush", p.answered(), c.early)
				if p.Partitions[0].Records != nil {
					t.Error("the request keeps the records after Append")
				}
				h.gate.release()
				expect(t, "after the flush", p.answered(), c.after)
				if c.after {
					expectError(t, "error", p.result().Err, "NONE")
				}
			})
		})
	}
}

var pair = assignment{replicas: []int32{1, 2}, isr: []int32{1, 2}, dir: uuid.DirUnassigned}

func configOf(kv string) []string {
	if kv == "" {
		return nil
	}
	return []string{kv}
}

// TestProduceCaseA: the replica goes while a batch waits.
func TestProduceCaseA(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(h *harness, id TopicIDPartition)
		err  string
	}{
		{
			"topic deleted", func(h *harness, id TopicIDPartition) { h.apply(metadata.RemoveTopicRecord{ID: id.TopicID}) },
			"UNKNOWN_TOPIC_OR_PARTITION",
		},
		{"replica moved", func(h *harness, id TopicIDPartition) {
			h.apply(metadata.PartitionChangeRecord{
				TopicID: id.TopicID, Replicas: []int32{2}, ISR: []int32{2},
				Directories: pairDirs[:1], Leader: metadata.Ptr(int32(2)),
			})
		}, "NOT_LEADER_FOR_PARTITION"},
		{
			"directory offline", func(h *harness, _ TopicIDPartition) { h.m.DirectoryFailed(h.dirs[0], errDisk) },
			"KAFKA_STORAGE_ERROR",
		},
		{
			"log damaged", func(h *harness, _ TopicIDPartition) { h.m.LogFailed(h.dirs[0].Logs()[0], errDisk) },
			"KAFKA_STORAGE_ERROR",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				id := h.topic("t", 1, pair)
				p := h.produce(id, AcksAll, "a")
				expect(t, "waits", p.answered(), false)
				c.end(h, id)
				expectError(t, "error", p.result().Err, c.err)
				expect(t, "base offset stays", p.result().BaseOffset, int64(0))
			})
		})
	}
}

var (
	errDisk  = fmt.Errorf("the disk is on fire")
	pairDirs = pair.dirs()
)

// TestProduceCaseB: the leadership goes while a batch waits, and comes back.
func TestProduceCaseB(t *testing.T) {
	bubble(t, func(h *harness) {
		id := h.topic("t", 1, pair)
		p := h.produce(id, AcksAll, "a")
		h.apply(metadata.PartitionChangeRecord{TopicID: id.TopicID, Leader: metadata.Ptr(int32(2))})
		expectError(t, "error", p.result().Err, "NOT_LEADER_FOR_PARTITION")
		expect(t, "leader", p.result().CurrentLeader, Leader{ID: 2, Epoch: 1})

		refused := h.produce(id, AcksAll, "b").result()
		expectError(t, "error", refused.Err, "NOT_LEADER_FOR_PARTITION")
		expect(t, "leader", refused.CurrentLeader, Leader{ID: 2, Epoch: 1})
	})
}

// TestProduceCaseC2: the ISR shrinks below min ISR while a batch waits for a follower.
func TestProduceCaseC2(t *testing.T) {
	bubble(t, func(h *harness) {
		h.registerBrokers(2)
		id := h.topic("t", 1, pair, "min.insync.replicas=2")
		h.gate.close()
		p := h.produce(id, AcksAll, "a")
		follower := fetchOf(id, 1)
		follower.ReplicaID = 2
		h.m.Fetch(context.Background(), follower)
		// The leader's flush is the last that is missing. The ISR shrinks before it.
		h.apply(metadata.PartitionChangeRecord{TopicID: id.TopicID, ISR: []int32{1}})
		h.gate.release()
		expect(t, "the high watermark stands still", p.answered(), false)
		expectError(t, "refused at once", h.produce(id, AcksAll, "b").result().Err, "NOT_ENOUGH_REPLICAS")
		expectError(t, "at the end", p.result().Err, "REQUEST_TIMED_OUT")
	})
}

func TestProduceTimesOut(t *testing.T) {
	bubble(t, func(h *harness) {
		id := h.topic("t", 1, alone)
		h.gate.close()
		all, one := h.produce(id, AcksAll, "a"), h.produce(id, AcksOne, "b")
		begin := time.Now()
		expectError(t, "acks=all", all.result().Err, "REQUEST_TIMED_OUT")
		expect(t, "after", time.Since(begin), 30*time.Second)
		// The leader has written it, and that is all that acks=1 promises.
		expectError(t, "acks=1", one.result().Err, "NONE")
		h.gate.release()
		synctest.Wait()
		expect(t, "both are in the log", h.read(id, 0), []string{"a", "b"})
	})
}

// TestTimeoutIsForReplicas: a leader alone is answered by Kafka at once, so its own flush
// does not run against the timeout of the request.
func TestTimeoutIsForReplicas(t *testing.T) {
	for _, timeout := range []time.Duration{0, -time.Second, time.Millisecond} {
		bubble(t, func(h *harness) {
			leading, shared := h.topic("alone", 1, alone), h.topic("shared", 1, pair)
			h.gate.close()
			produce := func(id TopicIDPartition) *produced {
				p := &produced{done: make(chan struct{})}
				p.AppendRequest = &AppendRequest{
					Acks: AcksAll, Timeout: timeout, RequestVersion: 12, Done: func(*AppendRequest) { close(p.done) },
					Partitions: []AppendPartition{{TopicIDPartition: id, Records: h.records(nil, "a")}},
				}
				if h.m.Append(p.AppendRequest) {
					close(p.done)
				}
				return p
			}
			p := produce(leading)
			expectError(t, "with another replica", produce(shared).result().Err, "REQUEST_TIMED_OUT")
			expect(t, "alone, before the flush", p.answered(), false)
			h.gate.release()
			expectError(t, "alone", p.result().Err, "NONE")
		})
	}
}

// TestDuplicateWaitsLikeTheOriginal: to answer it earlier would acknowledge what a power
// cut could still take.
func TestDuplicateWaitsLikeTheOriginal(t *testing.T) {
	bubble(t, func(h *harness) {
		id := h.topic("t", 1, alone)
		send := func() *produced {
			return h.send(id, AcksAll, h.records(&batch.Producer{ID: 5}, "a", "b"))
		}
		h.gate.close()
		original := send()
		duplicate := send()
		expect(t, "original", original.answered(), false)
		expect(t, "duplicate", duplicate.answered(), false)
		h.gate.release()
		for _, p := range []*produced{original, duplicate, send()} {
			expectError(t, "error", p.result().Err, "NONE")
			expect(t, "base offset", p.result().BaseOffset, int64(0))
		}
		expect(t, "once in the log", h.read(id, 0), []string{"a", "b"})
	})
}

// TestProduceToSeveralPartitions: one request, each partition with its own fate, answered
// when the last one is.
func TestProduceToSeveralPartitions(t *testing.T) {
	bubble(t, func(h *harness) {
		id := h.topic("t", 3, alone)
		other := h.topic("elsewhere", 1, assignment{replicas: []int32{2}, isr: []int32{2}, dir: uuid.DirUnassigned})
		done := make(chan struct{})
		req := &AppendRequest{Acks: AcksAll, Timeout: time.Second, RequestVersion: 12, Done: func(*AppendRequest) { close(done) }}
		for _, to := range []TopicIDPartition{id, id.partition(1), id.partition(2), id.partition(3), other} {
			req.Partitions = append(req.Partitions, AppendPartition{TopicIDPartition: to, Records: h.records(nil, "v")})
		}
		req.Partitions[1].Records = []byte("no batch")
		h.gate.close() // else the committer may be faster than the request
		if h.m.Append(req) {
			t.Fatal("answered before the flush")
		}
		h.gate.release()
		<-done
		for i, want := range []string{"NONE", "INVALID_RECORD", "NONE", "UNKNOWN_TOPIC_OR_PARTITION", "NOT_LEADER_FOR_PARTITION"} {
			expectError(t, fmt.Sprint("partition ", i), req.Partitions[i].Result.Err, want)
		}
		expect(t, "leader elsewhere", req.Partitions[4].Result.CurrentLeader, Leader{ID: 2, Epoch: 0})
	})
}

func TestInvalidAcks(t *testing.T) {
	bubble(t, func(h *harness) {
		id := h.topic("t", 1, alone)
		for _, acks := range []int16{-2, 2} {
			r := h.produce(id, acks, "a").result()
			expectError(t, fmt.Sprint("acks ", acks), r.Err, "INVALID_REQUIRED_ACKS")
			expect(t, "base offset", r.BaseOffset, int64(-1))
		}
		expect(t, "nothing appended", h.read(id, 0), []string(nil))
	})
}

// TestCloseAnswersProduces: the flush of the stop acknowledges what waits.
func TestCloseAnswersProduces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		h.start()
		id := h.topic("t", 1, alone)
		stuck := h.topic("stuck", 1, pair)
		waits, never := h.produce(id, AcksAll, "a"), h.produce(stuck, AcksAll, "b")
		fetch := h.park(withWait(fetchOf(id, 1), time.Hour))
		h.stop()
		expectError(t, "flushed by the stop", waits.result().Err, "NONE")
		expectError(t, "not replicated", never.result().Err, "NOT_LEADER_FOR_PARTITION")
		expect(t, "fetch", fetch.answered(), true)
		expectError(t, "after the stop", h.produce(id, AcksAll, "c").result().Err, "NOT_LEADER_FOR_PARTITION")
		h.start()
		expect(t, "found again", h.read(id, 0), []string{"a"})
		h.stop()
	})
}
