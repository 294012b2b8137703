package replica

import (
	"testing"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// ledByOne is broker 1 as leader of itself and broker 2, with min.insync.replicas 2.
type ledByOne struct {
	t   *testing.T
	log *fakeLog
	p   *Partition
	now time.Time
	pe  int32
}

func newLedByOne(t *testing.T, isr ...int32) *ledByOne {
	l := &ledByOne{t: t, log: &fakeLog{config: logstore.DefaultConfig(), lso: -1}, now: time.Unix(1000, 0)}
	l.p = NewPartition(PartitionOptions{
		ID: TopicIDPartition{TopicID: uuid.UUID{1}}, Topic: "t", BrokerID: 1, Log: l.log,
		Config:  TopicConfig{Log: logstore.DefaultConfig(), MinInSyncCount: 2},
		Brokers: fakeBrokers{1: 101, 2: 102}, ReplicaLagMax: 30 * time.Second,
	})
	l.lead(isr...)
	return l
}

// lead lets the controller commit an ISR.
func (l *ledByOne) lead(isr ...int32) {
	l.t.Helper()
	l.pe++
	if _, err := l.p.BecomeLeader(l.now, &metadata.Partition{Replicas: []int32{1, 2}, ISR: isr, Leader: 1, PartitionEpoch: l.pe}); err != nil {
		l.t.Fatal(err)
	}
}

func (l *ledByOne) produce() (AppendResult, Awaited) {
	result, awaited, _ := l.p.AppendAsLeader(l.now, LeaderAppend{Records: make([]byte, 1), Acks: AcksAll})
	return result, awaited
}

// acknowledge lets both flush, and broker 2 fetch.
func (l *ledByOne) acknowledge() { l.t.Helper(); l.acknowledgeIn(0) }

// acknowledgeIn is acknowledge in a later leader epoch.
func (l *ledByOne) acknowledgeIn(epoch int32) {
	l.t.Helper()
	l.log.flushed = l.log.end
	l.p.FlushDone(l.now)
	f := FollowerFetch{ReplicaID: 2, LeaderEpoch: epoch, BrokerEpoch: 102, Offset: l.log.end, LeaderEnd: l.log.end}
	if _, err := l.p.FollowerFetched(l.now, f); err != nil {
		l.t.Fatal(err)
	}
}

func (l *ledByOne) expectReached(a Awaited, done bool, kind string) {
	l.t.Helper()
	reached, err := l.p.Reached(a)
	expect(l.t, "done", reached, done)
	if kind != "" {
		expectError(l.t, "answer", err, kind)
	}
}

// TestDelayedProduce has the cases of Partition.Reached, by their names.
func TestDelayedProduce(t *testing.T) {
	t.Run("A: too few in-sync replicas before the append", func(t *testing.T) {
		l := newLedByOne(t, 1)
		result, _ := l.produce()
		expectError(t, "answer", result.Err, "NOT_ENOUGH_REPLICAS")
		expect(t, "written", l.log.end, int64(0))
	})
	t.Run("B: the high watermark has not passed it", func(t *testing.T) {
		l := newLedByOne(t, 1, 2)
		_, a := l.produce()
		l.log.flushed = l.log.end
		l.p.FlushDone(l.now)
		l.expectReached(a, false, "")
		l.lead(1) // below the minimum: it only waits
		l.acknowledge()
		l.expectReached(a, false, "")
		l.lead(1, 2)
		l.acknowledge()
		l.expectReached(a, true, "")
	})
	t.Run("B: until it times out", func(t *testing.T) {
		bubble(t, func(h *harness) {
			h.registerBrokers(1, 2)
			id := h.topic("t", 1, pair, "min.insync.replicas=2")
			p := h.produce(id, AcksAll, "a")
			begin := time.Now()
			h.apply(metadata.PartitionChangeRecord{TopicID: id.TopicID, ISR: []int32{1}})
			expect(t, "answered", p.answered(), false)
			expectError(t, "answer", p.result().Err, "REQUEST_TIMED_OUT")
			expect(t, "after", time.Since(begin), 30*time.Second)
		})
	})
	t.Run("C.1: the high watermark has passed it", func(t *testing.T) {
		l := newLedByOne(t, 1, 2)
		_, a := l.produce()
		l.acknowledge()
		reached, err := l.p.Reached(a)
		expect(t, "answer", []any{reached, err}, []any{true, nil})
	})
	t.Run("C.2: but the ISR is below the minimum", func(t *testing.T) {
		l := newLedByOne(t, 1, 2)
		_, a := l.produce()
		l.acknowledge()
		l.lead(1)
		l.expectReached(a, true, "NOT_ENOUGH_REPLICAS_AFTER_APPEND")
	})
	t.Run("D: leadership lost", func(t *testing.T) {
		l := newLedByOne(t, 1, 2)
		_, a := l.produce()
		l.pe++
		l.p.BecomeFollower(&metadata.Partition{Replicas: []int32{1, 2}, ISR: []int32{2}, Leader: 2, LeaderEpoch: 1, PartitionEpoch: l.pe})
		l.expectReached(a, true, "NOT_LEADER_FOR_PARTITION")
		l.pe++
		if _, err := l.p.BecomeLeader(l.now, &metadata.Partition{Replicas: []int32{1, 2}, ISR: []int32{1, 2}, Leader: 1, LeaderEpoch: 2, PartitionEpoch: l.pe}); err != nil {
			t.Fatal(err)
		}
		l.acknowledgeIn(2)
		l.expectReached(a, true, "NOT_LEADER_FOR_PARTITION") // though it leads again
	})
}

// TestAcknowledgementOfAnEarlierEpoch counts for nothing: between the reading of a fetch and
// its taking into account the log may have been cut and grown again.
func TestAcknowledgementOfAnEarlierEpoch(t *testing.T) {
	l := newLedByOne(t, 1, 2)
	if _, err := l.p.BecomeLeader(l.now, &metadata.Partition{Replicas: []int32{1, 2}, ISR: []int32{1, 2}, Leader: 1, LeaderEpoch: 1, PartitionEpoch: l.pe + 1}); err != nil {
		t.Fatal(err)
	}
	l.produce()
	_, err := l.p.FollowerFetched(l.now, FollowerFetch{ReplicaID: 2, LeaderEpoch: 0, BrokerEpoch: 102, Offset: 1, LeaderEnd: 1})
	expectError(t, "an offset of epoch 0", err, "NOT_LEADER_FOR_PARTITION")
}
