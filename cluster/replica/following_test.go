package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// duo is two brokers, 1 and 2, that see the same metadata and reach each other.
type duo struct {
	*harness // broker 1
	other    *harness
	cut      atomic.Bool
	requests atomic.Int64
}

// pairBubble runs f with two brokers in virtual time.
func pairBubble(t *testing.T, f func(d *duo), change ...func(*harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &duo{harness: newHarness(t, change...), other: newHarness(t, change...)}
		d.other.topics = d.topics
		for id, h := range map[int32]*harness{1: d.harness, 2: d.other} {
			h.id = id
			h.options.Following = Following{
				Leaders: d, BrokerEpoch: func() int64 { return int64(100 + h.id) }, Backoff: time.Second,
			}
			h.start()
		}
		d.mirror = d.other
		d.registerBrokers(1, 2)
		f(d)
		d.stop()
		d.other.stop()
	})
}

// Leader implements Leaders.
func (d *duo) Leader(broker int32) LeaderClient {
	h := d.harness
	if broker == 2 {
		h = d.other
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &inProcess{d, h, ctx, cancel}
}

type inProcess struct {
	d      *duo
	to     *harness
	ctx    context.Context
	cancel context.CancelFunc
}

func (c *inProcess) Close() { c.cancel() }

// Request implements LeaderClient: without sessions, as a leader that has no room for them.
func (c *inProcess) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	if c.d.cut.Load() {
		return nil, errors.New("cut off")
	}
	c.d.requests.Add(1)
	switch req := req.(type) {
	case *kmsg.FetchRequest:
		return c.to.serveFetch(ctx, req), nil
	case *kmsg.ListOffsetsRequest:
		return c.to.serveListOffsets(req), nil
	}
	return nil, fmt.Errorf("unexpected %T", req)
}

func (h *harness) serveFetch(ctx context.Context, req *kmsg.FetchRequest) *kmsg.FetchResponse {
	ask := &FetchRequest{
		ReplicaID: req.ReplicaState.ID, ReplicaEpoch: req.ReplicaState.Epoch, MinBytes: int(req.MinBytes), MaxBytes: int(req.MaxBytes),
		MaxWait: time.Duration(req.MaxWaitMillis) * time.Millisecond,
	}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			ask.Partitions = append(ask.Partitions, FetchPartition{
				TopicIDPartition: TopicIDPartition{t.TopicID, p.Partition}, CurrentLeaderEpoch: p.CurrentLeaderEpoch,
				FetchOffset: p.FetchOffset, LastFetchedEpoch: p.LastFetchedEpoch, LogStartOffset: p.LogStartOffset,
				HighWatermark: p.HighWatermark, MaxBytes: int(p.PartitionMaxBytes),
			})
		}
	}
	h.m.Fetch(ctx, ask)
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	for i := range ask.Partitions {
		t := kmsg.NewFetchResponseTopic()
		t.TopicID = ask.Partitions[i].TopicID
		t.Partitions = append(t.Partitions, fetchAnswer(&ask.Partitions[i]))
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

func fetchAnswer(of *FetchPartition) kmsg.FetchResponseTopicPartition {
	p, r := kmsg.NewFetchResponseTopicPartition(), &of.Result
	p.Partition, p.ErrorCode = of.Partition, kafkaerr.Code(r.Err)
	p.HighWatermark, p.LogStartOffset = r.HighWatermark, r.LogStartOffset
	if r.Diverging != nil {
		p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = r.Diverging.Epoch, r.Diverging.EndOffset
	}
	if r.Records != nil {
		p.RecordBatches = make([]byte, r.Records.Len())
		if _, err := r.Records.ReadAt(p.RecordBatches, 0); err != nil && !errors.Is(err, io.EOF) {
			p.ErrorCode = kafkaerr.KafkaStorageError.Code
		}
		r.release()
	}
	return p
}

func (h *harness) serveListOffsets(req *kmsg.ListOffsetsRequest) *kmsg.ListOffsetsResponse {
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	for _, t := range req.Topics {
		answer := kmsg.NewListOffsetsResponseTopic()
		answer.Topic = t.Topic
		ask := &ListOffsetsRequest{Version: req.Version, ReplicaID: req.ReplicaID}
		for _, p := range t.Partitions {
			id := TopicIDPartition{h.image.Topic(t.Topic).ID, p.Partition}
			ask.Partitions = append(ask.Partitions, ListOffsetsPartition{TopicIDPartition: id, CurrentLeaderEpoch: p.CurrentLeaderEpoch, Timestamp: p.Timestamp})
		}
		h.m.ListOffsets(ask)
		for _, p := range ask.Partitions {
			part := kmsg.NewListOffsetsResponseTopicPartition()
			part.Partition, part.ErrorCode, part.Offset = p.Partition, kafkaerr.Code(p.Result.Err), p.Result.Offset
			answer.Partitions = append(answer.Partitions, part)
		}
		resp.Topics = append(resp.Topics, answer)
	}
	return resp
}

// lead makes a broker the leader of a partition.
func (d *duo) lead(id TopicIDPartition, leader int32, isr ...int32) {
	d.apply(metadata.PartitionChangeRecord{TopicID: id.TopicID, Index: id.Partition, Leader: &leader, ISR: isr})
}

func (h *harness) log(id TopicIDPartition) *logstore.Log { return h.m.get(id).at().log }

// TestAcksAllNeedsTheFollowersFlush: the follower fetches again, and so acknowledges, only
// when its disk has what it fetched last.
func TestAcksAllNeedsTheFollowersFlush(t *testing.T) {
	pairBubble(t, func(d *duo) {
		id := d.topic("t", 1, pair)
		d.must(id, "a")
		d.other.gate.close()
		p := d.produce(id, AcksAll, "b")
		expect(t, "acknowledged before the follower's flush", p.answered(), false)
		expect(t, "the follower has it", int64(d.other.log(id).LogEnd()), int64(2))
		d.other.gate.release()
		expect(t, "acknowledged", p.answered(), true)
		time.Sleep(highWatermarkPatience + time.Millisecond)
		expect(t, "the follower's high watermark", int64(d.other.m.get(id).HighWatermark()), int64(2))
	})
}

// TestNewLeaderCutsWhatItDoesNotHave: an old leader gives up its unacknowledged tail, by
// epochs, and follows.
func TestNewLeaderCutsWhatItDoesNotHave(t *testing.T) {
	pairBubble(t, func(d *duo) {
		id := d.topic("t", 1, pair)
		d.must(id, "a")
		d.cut.Store(true)
		time.Sleep(time.Second) // the fetch that waits ends
		lost := d.produce(id, AcksAll, "lost", "lost too")
		expect(t, "acknowledged by one", lost.answered(), false)
		d.lead(id, 2, 2)
		expectError(t, "leadership lost", lost.result().Err, "NOT_LEADER_FOR_PARTITION")
		d.cut.Store(false)
		r := d.other.must(id, "b")
		expect(t, "offset", r.BaseOffset, int64(1))
		time.Sleep(5 * time.Second)
		expect(t, "end", int64(d.log(id).LogEnd()), int64(2))
		d.lead(id, 1, 1)
		expect(t, "the same records", d.read(id, 0), []string{"a", "b"})
	})
}

// TestFollowerBehindTheLogStart begins anew where the leader's log does.
func TestFollowerBehindTheLogStart(t *testing.T) {
	pairBubble(t, func(d *duo) {
		d.cut.Store(true) // before a fetch of what is empty yet asks for the ISR
		id := d.topic("t", 1, assignment{replicas: []int32{1, 2}, isr: []int32{1}, dir: uuid.DirUnassigned})
		for range 5 {
			d.must(id, "x")
		}
		del := &DeleteRecordsRequest{Timeout: time.Second, Partitions: []DeleteRecordsPartition{{TopicIDPartition: id, Offset: 3}}}
		go d.m.DeleteRecords(context.Background(), del)
		time.Sleep(2 * time.Second)
		d.cut.Store(false)
		time.Sleep(5 * time.Second)
		l := d.other.log(id)
		expect(t, "start and end", [2]int64{int64(l.LogStart()), int64(l.LogEnd())}, [2]int64{3, 5})
	})
}

// TestManyReplicasInOneRequest: one fetcher for each leader and directory, however many
// replicas there are, and none where nobody is followed.
func TestManyReplicasInOneRequest(t *testing.T) {
	pairBubble(t, func(d *duo) {
		id := d.topic("t", 20, pair)
		d.topic("own", 5, alone)
		d.requests.Store(0)
		time.Sleep(3 * time.Second)
		running, replicas := d.other.m.fetchers.counts()
		expect(t, "fetchers and replicas", [2]int{running, replicas}, [2]int{1, 20})
		running, _ = d.m.fetchers.counts()
		expect(t, "of the leader", running, 0)
		if n := d.requests.Load(); n > 10 {
			t.Errorf("%d requests of an idle follower in 3 s", n)
		}
		d.apply(metadata.RemoveTopicRecord{ID: id.TopicID})
		running, _ = d.other.m.fetchers.counts()
		expect(t, "after the deletion", running, 0)
	})
}

// TestFarBehindTakesFewRequests: a replica that is far behind is brought more with each
// answer than replica.fetch.max.bytes.
func TestFarBehindTakesFewRequests(t *testing.T) {
	pairBubble(t, func(d *duo) {
		d.cut.Store(true)
		id := d.topic("t", 1, assignment{replicas: []int32{1, 2}, isr: []int32{1}, dir: uuid.DirUnassigned})
		half := strings.Repeat("x", 512<<10)
		for range 16 {
			d.must(id, half)
		}
		d.requests.Store(0)
		d.cut.Store(false)
		time.Sleep(time.Second)
		expect(t, "log end", int64(d.other.log(id).LogEnd()), int64(16))
		if n := d.requests.Load(); n > 5 { // one of 1 MiB, one of 10, and a few that bring the high watermark
			t.Errorf("%d requests", n)
		}
	})
}

// TestFollowersKnowProducers: a duplicate is recognised by whoever leads next.
func TestFollowersKnowProducers(t *testing.T) {
	pairBubble(t, func(d *duo) {
		id := d.topic("t", 1, pair)
		p := &batch.Producer{ID: 7, Epoch: 0, BaseSequence: 0}
		first := d.send(id, AcksAll, d.records(p, "a")).result()
		d.lead(id, 2, 2)
		again := d.other.send(id, AcksAll, d.records(p, "a")).result()
		expect(t, "error", errors.Join(first.Err, again.Err), nil)
		expect(t, "offset", again.BaseOffset, first.BaseOffset)
		expect(t, "end", int64(d.other.log(id).LogEnd()), int64(1))
	})
}

// TestDamagedReplicaIsFetchedAgain (D24), but not before metadata says that it is needed no
// more: while it is in the ISR it stays as it is.
func TestDamagedReplicaIsFetchedAgain(t *testing.T) {
	var repaired []TopicIDPartition
	pairBubble(t, func(d *duo) {
		id := d.topic("t", 1, pair)
		d.must(id, "a", "b")
		time.Sleep(2 * time.Second) // the flushed offsets are persisted
		log := d.other.log(id).Path() + "/00000000000000000000.log"
		d.other.crash()
		if err := d.other.fs.Remove(log); err != nil {
			t.Fatal(err)
		}
		d.other.start()
		expect(t, "reported", d.other.m.DamagedReplicas(), []TopicIDPartition{id})
		expect(t, "kept in the ISR", d.other.count("-stray"), 0)

		d.apply(metadata.PartitionChangeRecord{TopicID: id.TopicID, Index: id.Partition, ISR: []int32{1}})
		expect(t, "set aside", d.other.count("-stray"), 1)
		expect(t, "repaired", repaired, []TopicIDPartition{id})
		time.Sleep(time.Second)
		expect(t, "fetched again", int64(d.other.log(id).LogEnd()), int64(2))
		expect(t, "no longer reported", len(d.other.m.DamagedReplicas()), 0)
		d.lead(id, 2, 2)
		expect(t, "the same records", d.other.read(id, 0), []string{"a", "b"})
	}, withOptions(func(o *Options) {
		o.OnReplicaRepaired = func(id TopicIDPartition) { repaired = append(repaired, id) }
	}))
}

// TestRepairAwaitsALaterLeaderEpoch: a replica that fails when it is in neither ISR nor ELR
// any more is fetched again, but not in a leader epoch in which it has fetched. A fetch of
// before, come late, would take it into the ISR with what it has lost.
func TestRepairAwaitsALaterLeaderEpoch(t *testing.T) {
	pairBubble(t, func(d *duo) {
		id := d.topic("t", 1, pair)
		d.must(id, "a", "b")
		d.other.stop()
		d.flip(d.other.log(id).Path()+"/00000000000000000000.log", 70)
		d.other.start()
		d.lead(id, 1, 1)
		time.Sleep(time.Second)
		_, err := d.other.log(id).Read(logstore.ReadParams{MaxBytes: 100, UpTo: 2})
		if err == nil {
			t.Fatal("the damage was not noticed")
		}
		synctest.Wait()
		d.apply(metadata.PartitionChangeRecord{TopicID: id.TopicID, Index: id.Partition, ISR: []int32{1}})
		expect(t, "set aside in the same epoch", d.other.count("-stray"), 0)
		d.lead(id, 1, 1)
		expect(t, "set aside in the next", d.other.count("-stray"), 1)
		time.Sleep(time.Second)
		expect(t, "fetched again", int64(d.other.log(id).LogEnd()), int64(2))
	})
}

// flip changes a bit of a file of the other broker.
func (d *duo) flip(name string, at int64) {
	d.t.Helper()
	f, err := d.other.fs.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		d.t.Fatal(err)
	}
	b[0] ^= 4
	if _, err := f.WriteAt(b, at); err != nil {
		d.t.Fatal(err)
	}
}
