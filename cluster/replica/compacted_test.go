package replica

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/batch/batchtest"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// elsewhere is an assignment whose leader is not here, in leader epoch 4.
var elsewhere = assignment{replicas: []int32{3, 1, 2}, isr: []int32{3}, dir: uuid.DirUnassigned, epoch: 4}

// compactedBatch is a batch of a compacted log: those of its records that are left are listed.
type compactedBatch struct {
	base, last int64
	epoch      int32
	left       []int64
}

func (c compactedBatch) view() batch.View {
	b := batch.NewBuilder(batch.BuilderOptions{BaseOffset: c.base, LeaderEpoch: c.epoch})
	for o := c.base; o <= c.last; o++ {
		b.Append(batch.NewRecord{TimestampMs: time.Now().UnixMilli() + o, Key: []byte("k"), Value: []byte{byte(o)}})
	}
	whole, err := b.Build(nil)
	if err != nil {
		panic(err)
	}
	return batchtest.Thin(whole, nil, func(r *batch.Record) bool { return slices.Contains(c.left, r.Offset) })
}

// compacted is a log that begins in a gap, and has one before and behind every batch; epoch 2
// has lost all of its batches, 3 all of its records.
var compacted = []compactedBatch{
	{4, 6, 1, []int64{5}},
	{10, 12, 1, nil},
	{20, 20, 3, nil},
	{30, 33, 4, []int64{30, 33}},
	{39, 39, 4, nil},
}

// has gives a broker's replica batches.
func (h *harness) has(id TopicIDPartition, batches ...compactedBatch) {
	h.t.Helper()
	var all []byte
	for _, b := range batches {
		all = append(all, b.view()...)
	}
	if _, err := h.log(id).AppendAsFollower(time.Now(), all, 4); err != nil {
		h.t.Fatal(err)
	}
}

// leadsCompacted has broker 1 lead a topic with a log that was compacted, in epoch 5, and write
// a record behind that. The follower hears nothing yet.
func (d *duo) leadsCompacted() TopicIDPartition {
	d.cut.Store(true)
	id := d.topic("t", 1, elsewhere)
	d.has(id, compacted...)
	d.lead(id, 1, 1)
	d.must(id, "x")
	return id
}

// batchesOf is the base offset of each batch of a log, from an offset on.
func (h *harness) batchesOf(log *logstore.Log, from int64) (bases []int64) {
	h.t.Helper()
	for from < int64(log.LogEnd()) {
		info, err := log.Read(logstore.ReadParams{Offset: from, MaxBytes: 1 << 20, UpTo: int64(log.LogEnd())})
		if err != nil || info.Region == nil {
			h.t.Fatalf("read at %d: %v", from, err)
		}
		buf := make([]byte, info.Region.Len())
		_, _ = info.Region.ReadAt(buf, 0)
		info.Region.Release()
		for {
			v, rest, err := batch.Next(buf)
			if err != nil {
				break
			}
			bases, buf, from = append(bases, v.BaseOffset()), rest, v.NextOffset()
		}
	}
	return bases
}

// TestFollowersOfACompactedLog have the same batches, are in sync, and lead from the same end.
func TestFollowersOfACompactedLog(t *testing.T) {
	pairBubble(t, func(d *duo) {
		id := d.leadsCompacted()
		want := []int64{4, 10, 20, 30, 39, 40}
		expectSame(t, "batches of the leader", d.batchesOf(d.log(id), 0), want)
		d.cut.Store(false)
		time.Sleep(2 * time.Second)
		expectSame(t, "batches of the follower", d.batchesOf(d.other.log(id), 0), want)
		d.lead(id, 1, 1, 2)
		expect(t, "offset", d.must(id, "y").BaseOffset, int64(41))
		d.lead(id, 2, 1, 2)
		expect(t, "offset of the next leader", d.other.must(id, "z").BaseOffset, int64(42))
		time.Sleep(time.Second)
		expect(t, "end of the old leader", int64(d.log(id).LogEnd()), int64(43))
		for o, i := int64(0), 0; o < 40; o++ {
			if o > compacted[i].last {
				i++
			}
			if got := d.batchesOf(d.other.log(id), o); got[0] != want[i] {
				t.Errorf("a reader at %d is given batches %v, want %d first", o, got, want[i])
			}
		}
	})
}

func expectSame(t *testing.T, what string, got, want []int64) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestFollowerThatEndsInAGapOfTheLeader keeps what it has, and goes on behind the gap: what its
// leader lacks was replaced by newer records.
func TestFollowerThatEndsInAGapOfTheLeader(t *testing.T) {
	for _, own := range [][]compactedBatch{
		{{0, 0, 1, []int64{0}}, {4, 6, 1, []int64{4, 5, 6}}, {7, 8, 1, []int64{7, 8}}}, // an epoch that the leader has
		{{0, 0, 1, []int64{0}}, {4, 6, 1, []int64{4, 5, 6}}, {13, 14, 2, []int64{13}}}, // one of which nothing is left there
	} {
		pairBubble(t, func(d *duo) {
			id := d.leadsCompacted()
			d.other.has(id, own...)
			d.cut.Store(false)
			time.Sleep(5 * time.Second)
			got := d.batchesOf(d.other.log(id), 0)
			expectSame(t, "the last batches", got[len(got)-4:], []int64{20, 30, 39, 40})
			expect(t, "end", int64(d.other.log(id).LogEnd()), int64(41))
			d.lead(id, 1, 1, 2)
			expect(t, "offset", d.must(id, "y").BaseOffset, int64(41))
		})
	}
}

// TestOffsetsOfACompactedLog: where epochs end, and where records of a time are.
func TestOffsetsOfACompactedLog(t *testing.T) {
	pairBubble(t, func(d *duo) {
		begin := time.Now().UnixMilli()
		id := d.leadsCompacted()
		time.Sleep(time.Second)
		d.must(id, "y")
		for epoch, want := range map[int32]EpochEndOffset{1: {1, 20}, 2: {1, 20}, 3: {3, 30}, 4: {4, 40}, 5: {5, 42}} {
			ask := []EpochRequestPartition{{TopicIDPartition: id, CurrentLeaderEpoch: NoEpoch, LeaderEpoch: epoch}}
			d.m.OffsetForLeaderEpoch(ask)
			if ask[0].Result != want {
				t.Errorf("epoch %d ends: %v, want %v", epoch, ask[0].Result, want)
			}
		}
		for after, want := range map[int64]int64{0: 5, 5: 5, 6: 30, 20: 30, 31: 33, 34: 41} {
			expect(t, "first record", d.list(id, begin+after).Offset, want)
		}
		expect(t, "largest timestamp", d.list(id, MaxTimestamp).Offset, int64(41))
		expect(t, "earliest", d.list(id, EarliestTimestamp).Offset, int64(0))
	})
}

// TestDeleteRecordsIntoAGap moves the log start there.
func TestDeleteRecordsIntoAGap(t *testing.T) {
	pairBubble(t, func(d *duo) {
		id := d.leadsCompacted()
		d.cut.Store(false)
		time.Sleep(2 * time.Second)
		for _, to := range []int64{2, 8, 11, 35} {
			del := &DeleteRecordsRequest{Timeout: time.Second, Partitions: []DeleteRecordsPartition{{TopicIDPartition: id, Offset: to}}}
			go d.m.DeleteRecords(context.Background(), del)
			time.Sleep(2 * time.Second)
			expect(t, "start", int64(d.log(id).LogStart()), to)
			expect(t, "start of the follower", int64(d.other.log(id).LogStart()), to)
			expect(t, "earliest", d.list(id, EarliestTimestamp).Offset, to)
		}
		expectSame(t, "what is read", d.batchesOf(d.other.log(id), 35), []int64{39, 40})
	})
}
