package replica

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

func (h *harness) led(id TopicIDPartition) Leadership {
	return Leadership{TopicIDPartition: id, Epoch: h.image.Partition(id.TopicID, id.Partition).LeaderEpoch}
}

// TestLeadershipOfACoordinator: an append is written at once and told of when it is
// flushed; what is not flushed is read by the leader itself.
func TestLeadershipOfACoordinator(t *testing.T) {
	bubble(t, func(h *harness) {
		id := h.topic("t", 1, alone)
		l := h.led(id)
		var told atomic.Int32
		stop, err := h.m.Watch(l, func() { told.Add(1) })
		if err != nil {
			t.Fatal(err)
		}
		h.gate.close()
		for i, want := range []int64{0, 2} {
			base, refused, err := h.m.AppendInEpoch(l, h.records(nil, "a", "b"))
			if base != want || refused || err != nil {
				t.Errorf("append %d: at %d, refused %v, %v", i, base, refused, err)
			}
		}
		at, err := h.m.OffsetsInEpoch(l)
		if want := (LedOffsets{0, 0, 4}); at != want || err != nil {
			t.Errorf("before the flush: %+v, %v", at, err)
		}
		buf := make([]byte, 1<<10)
		read, err := h.m.ReadInEpoch(l, 2, buf)
		if v, _, _ := batch.Next(read); err != nil || v.BaseOffset() != 2 || v.LeaderEpoch() != l.Epoch {
			t.Errorf("read: %x, %v", read, err)
		}
		if read, err := h.m.ReadInEpoch(l, 4, buf); read != nil || err != nil {
			t.Errorf("read at the end: %x, %v", read, err)
		}
		if read, err := h.m.ReadInEpoch(l, 0, make([]byte, 1)); err != nil || len(read) < batch.HeaderSize {
			t.Errorf("read of a batch larger than the buffer: %x, %v", read, err)
		}
		synctest.Wait()
		before := told.Load()
		h.gate.release()
		synctest.Wait()
		at, err = h.m.OffsetsInEpoch(l)
		if want := (LedOffsets{0, 4, 4}); at != want || err != nil || told.Load() == before {
			t.Errorf("after the flush: %+v, %v, told %d times", at, err, told.Load()-before)
		}
		stop()
		stop()
		before = told.Load()
		h.must(id, "c")
		synctest.Wait()
		if told.Load() != before {
			t.Error("told after the watch was stopped")
		}
		if n := h.m.MaxBatchBytes(l); n != int(logstore.DefaultConfig().MaxMessageBytes) {
			t.Errorf("batches of up to %d bytes", n)
		}
	})
}

// TestLeadershipEnds: with another epoch, role or place everything fails as not led, and
// who watches hears of it.
func TestLeadershipEnds(t *testing.T) {
	two := int32(2)
	one := int32(1)
	for _, c := range []struct {
		name string
		end  func(h *harness, id TopicIDPartition)
	}{
		{"led by another", func(h *harness, id TopicIDPartition) {
			h.apply(metadata.PartitionChangeRecord{TopicID: id.TopicID, Leader: &two})
		}},
		{"led in a new epoch", func(h *harness, id TopicIDPartition) {
			h.apply(metadata.PartitionChangeRecord{TopicID: id.TopicID, Leader: &one})
		}},
		{"deleted", func(h *harness, id TopicIDPartition) {
			h.apply(metadata.RemoveTopicRecord{ID: id.TopicID})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				id := h.topic("t", 1, pair)
				l := h.led(id)
				var told atomic.Int32
				stop, err := h.m.Watch(l, func() { told.Add(1) })
				if err != nil {
					t.Fatal(err)
				}
				defer stop()
				c.end(h, id)
				if told.Load() == 0 {
					t.Error("who watches was not told")
				}
				notLed := func(what string, err error) {
					t.Helper()
					if !errors.Is(err, kafkaerr.NotLeaderOrFollower) {
						t.Errorf("%s: %v", what, err)
					}
				}
				_, refused, err := h.m.AppendInEpoch(l, h.records(nil, "a"))
				if notLed("append", err); refused {
					t.Error("the append counts as refused only")
				}
				_, err = h.m.OffsetsInEpoch(l)
				notLed("offsets", err)
				_, err = h.m.ReadInEpoch(l, 0, make([]byte, 100))
				notLed("read", err)
				_, err = h.m.Watch(l, func() {})
				notLed("watch", err)
			})
		})
	}
}

// TestRefusedAppends: which errors of an append say that the next one may succeed.
func TestRefusedAppends(t *testing.T) {
	bubble(t, func(h *harness) {
		id := h.topic("t", 1, pair, "min.insync.replicas=2", "max.message.bytes=200")
		l := h.led(id)
		check := func(name string, records []byte, wantRefused bool, want error) {
			t.Helper()
			_, refused, err := h.m.AppendInEpoch(l, records)
			if refused != wantRefused || !errors.Is(err, want) {
				t.Errorf("%s: refused %v, %v", name, refused, err)
			}
		}
		check("good", h.records(nil, "a"), false, nil)
		check("too large", h.records(nil, strings.Repeat("a", 300)), true, kafkaerr.MessageTooLarge)
		h.apply(metadata.PartitionChangeRecord{TopicID: id.TopicID, ISR: []int32{1}})
		check("too few in-sync replicas", h.records(nil, "a"), true, kafkaerr.NotEnoughReplicas)
		h.apply(metadata.PartitionChangeRecord{TopicID: id.TopicID, ISR: []int32{1, 2}})
		h.fs.SetCapacity(1)
		time.Sleep(2 * time.Second) // the keeper looks
		synctest.Wait()
		check("disk full", h.records(nil, "a"), true, kafkaerr.KafkaStorageError)
		h.fs.SetCapacity(1 << 30)
		h.m.DirectoryFailed(h.dirs[0], kafkaerr.KafkaStorageError)
		check("disk failed", h.records(nil, "a"), false, kafkaerr.KafkaStorageError)
	})
}
