package replica

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// What an ISR went through is counted once the controller has answered.
func TestChangesOfTheISRAreCounted(t *testing.T) {
	sent, reg := &sender{}, prometheus.NewRegistry()
	counts := func(t *testing.T) [3]float64 {
		got := gather(t, reg)
		return [3]float64{
			got["kafka_server_replicamanager_isrexpands_total"], got["kafka_server_replicamanager_isrshrinks_total"],
			got["kafka_server_replicamanager_failedisrupdates_total"],
		}
	}
	bubble(t, func(h *harness) {
		h.registerBrokers(1, 2)
		id := h.topic("t", 1, assignment{replicas: []int32{1, 2}, isr: []int32{1}, dir: uuid.DirUnassigned})
		h.must(id, "a")
		req := fetchOf(id, 1)
		req.ReplicaID, req.ReplicaEpoch = 2, 102
		h.m.Fetch(context.Background(), req)
		expect(t, "proposed", counts(t), [3]float64{})
		sent.done(ISRResult{Err: kafkaerr.UnknownServerError})
		expect(t, "refused, and proposed again", counts(t), [3]float64{0, 0, 1})
		sent.done(ISRResult{PartitionEpoch: 1, ISR: []int32{1, 2}})
		expect(t, "joined", counts(t), [3]float64{1, 0, 1})
		h.produce(id, AcksOne, "b").result()
		<-time.After(46 * time.Second) // the follower is silent
		synctest.Wait()
		sent.done(ISRResult{PartitionEpoch: 2, ISR: []int32{1}})
		expect(t, "left", counts(t), [3]float64{1, 1, 1})
	}, withOptions(func(o *Options) { o.AlterPartition, o.Registerer = sent, reg }))
}

func TestReassignedPartitionsAreCounted(t *testing.T) {
	reg := prometheus.NewRegistry()
	bubble(t, func(h *harness) {
		h.registerBrokers(1, 2)
		id := h.topic("t", 3, alone)
		is := func() float64 { return gather(t, reg)["kafka_server_replicamanager_reassigningpartitions"] }
		expect(t, "none", is(), 0.0)
		h.apply(metadata.PartitionChangeRecord{TopicID: id.TopicID, Replicas: []int32{1, 2}, Directories: make([]uuid.UUID, 2), AddingReplicas: []int32{2}})
		expect(t, "one", is(), 1.0)
		h.apply(metadata.PartitionChangeRecord{TopicID: id.TopicID, AddingReplicas: []int32{}})
		expect(t, "done", is(), 0.0)
	}, withOptions(func(o *Options) { o.Registerer = reg }))
}

// A follower that lacks what its leader has acknowledged without it lags; one that cannot
// take in what it fetched is given up until there is a new leader epoch.
func TestFollowersThatLagAreCounted(t *testing.T) {
	pairBubble(t, func(d *duo) {
		id := d.topic("t", 1, assignment{replicas: []int32{1, 2}, isr: []int32{1}, dir: uuid.DirUnassigned})
		d.must(id, "a", "b")
		<-time.After(time.Second)
		metrics := func() [2]float64 {
			got := gather(t, d.other.options.Registerer.(*prometheus.Registry))
			return [2]float64{got["kafka_server_replicafetchermanager_maxlag"], got["kafka_server_replicafetchermanager_failedpartitionscount"]}
		}
		expect(t, "in step", metrics(), [2]float64{0, 0})
		p := d.other.m.get(id).Partition
		leader, _ := p.Leader()
		_, _, err := p.AppendFetched(time.Now(), Fetched{Epoch: leader.Epoch, Offset: 2, HighWatermark: 9})
		expect(t, "an answer without records", err, error(nil))
		expect(t, "behind", metrics(), [2]float64{7, 0})

		f := NewFetcher(FetcherOptions{BrokerEpoch: func() int64 { return 1 }, Backoff: time.Second})
		f.Follow(p, leader.Epoch)
		a := answer{f: f, now: time.Now()}
		a.storageFailed(f.parts[id], "append", errors.New("no such device"))
		expect(t, "given up", metrics(), [2]float64{7, 1})
		f.Follow(p, leader.Epoch)
		expect(t, "the same epoch again", metrics(), [2]float64{7, 1})
		f.Follow(p, leader.Epoch+1)
		expect(t, "a new epoch", metrics(), [2]float64{7, 0})
		d.lead(id, 2, 2)
		expect(t, "a leader does not lag", metrics(), [2]float64{0, 0})
	}, withOptions(func(o *Options) { o.Registerer = prometheus.NewRegistry() }))
}
