package fieldcases

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// redpanda PR #1532, kafka-python#1232, kafka-rest#111: a consumer was stuck at a batch
// above its limits. The first batch comes whole (KIP-74).
func TestBatchAboveTheLimitsIsReturnedWhole(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1)
		w.must("t", batch.New(batch.BuilderOptions{}, batch.NewRecord{TimestampMs: nowMs(), Value: make([]byte, 1_000_000)}))
		for _, limits := range [][2]int32{{100, 1 << 20}, {1 << 20, 100}, {0, 100}, {1, 0}} {
			req := fetchRequest("t", 0)
			req.Topics[0].Partitions[0].PartitionMaxBytes, req.MaxBytes = limits[0], limits[1]
			if rs := readAll(t, ask[*kmsg.FetchResponse](w.conn, req).Topics[0].Partitions[0]); len(rs) != 1 || len(rs[0].Value) != 1_000_000 {
				t.Errorf("limits %v: %d records", limits, len(rs))
			}
		}
	})
}

// sarama#1370, PR #3538, redpanda#3409, PR #3420: many partitions made answers far above
// the limit.
func TestAnswerIsBoundedWhateverTheNumberOfPartitions(t *testing.T) {
	const partitions, size, limit = 200, 20_000, 1 << 20
	run(t, func(t *testing.T, w *world) {
		w.create("t", partitions)
		fill := produceRequest("t", -1, nil)
		req := fetchRequest("t", 0)
		req.MaxBytes = limit
		fill.Topics[0].Partitions, req.Topics[0].Partitions = nil, nil
		for i := range int32(partitions) {
			part := kmsg.NewProduceRequestTopicPartition()
			part.Partition = i
			part.Records = batch.New(batch.BuilderOptions{}, batch.NewRecord{TimestampMs: nowMs(), Value: make([]byte, size)})
			fill.Topics[0].Partitions = append(fill.Topics[0].Partitions, part)
			want := fetchRequest("t", 0).Topics[0].Partitions[0]
			want.Partition = i
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, want)
		}
		ask[*kmsg.ProduceResponse](w.conn, fill)
		total, some := 0, 0
		for _, p := range ask[*kmsg.FetchResponse](w.conn, req).Topics[0].Partitions {
			if total += len(p.RecordBatches); len(p.RecordBatches) > 0 {
				some++
			}
			if p.HighWatermark != 1 {
				t.Errorf("partition %d: %+v", p.Partition, p)
			}
		}
		if total > limit || total < limit-2*size || some < limit/size-2 {
			t.Errorf("%d bytes of %d partitions", total, some)
		}
	})
}

// materialize#6078, redpanda PR #990: the log start was left out; redpanda#1646, #12549:
// after retention the earliest offset was out of range.
func TestLogStartAfterRetention(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1, "retention.ms=1000", "segment.ms=500")
		for range 3 {
			w.must("t", records(batch.BuilderOptions{}, nowMs()))
			time.Sleep(time.Second)
		}
		w.eventually("the start moves", 10*time.Minute, func() bool { return w.list("t", earliest).Offset > 0 })
		w.must("t", records(batch.BuilderOptions{}, nowMs()))
		start := w.list("t", earliest).Offset
		p := w.fetch("t", start)
		if p.ErrorCode != 0 || p.LogStartOffset != start || len(readAll(t, p)) == 0 {
			t.Errorf("at the earliest offset %d: %+v", start, p)
		}
		if p := w.fetch("t", start-1); p.ErrorCode != kafkaerr.OffsetOutOfRange.Code {
			t.Errorf("before it: error %d", p.ErrorCode)
		}
	})
}

// nisshi#672: the longest wait was ignored.
func TestFetchWaitsAsLongAsItIsTold(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1)
		req := fetchRequest("t", 0)
		req.MaxWaitMillis = 500
		begin := time.Now()
		ask[*kmsg.FetchResponse](w.conn, req)
		if waited := time.Since(begin); waited < 500*time.Millisecond || waited > 550*time.Millisecond {
			t.Errorf("an empty fetch waited %v", waited)
		}
		begin = time.Now()
		w.send(req)
		time.Sleep(100 * time.Millisecond)
		w.dial().must("t", records(batch.BuilderOptions{}, nowMs()))
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		if err := w.receive(resp); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(begin); waited > 150*time.Millisecond || len(resp.Topics[0].Partitions[0].RecordBatches) == 0 {
			t.Errorf("a fetch that gets enough waited %v: %+v", waited, resp.Topics)
		}
		req.MinBytes = 1000 // more than there is
		begin = time.Now()
		if p := ask[*kmsg.FetchResponse](w.conn, req).Topics[0].Partitions[0]; len(p.RecordBatches) == 0 {
			t.Error("what there is was not answered")
		}
		if waited := time.Since(begin); waited != 500*time.Millisecond {
			t.Errorf("a fetch that wants more waited %v", waited)
		}
	})
}

// klite 263631f: waiting fetches of idle partitions were never forgotten.
func TestIdlePollsLeaveNothingBehind(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 20)
		req := fetchRequest("t", 0)
		req.MaxWaitMillis = 100
		for i := int32(1); i < 20; i++ {
			part := req.Topics[0].Partitions[0]
			part.Partition = i
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, part)
		}
		for range 2000 {
			ask[*kmsg.FetchResponse](w.conn, req)
		}
		if n := w.metric("kafka_server_delayedoperationpurgatory_numdelayedoperations"); n != 0 {
			t.Errorf("%v operations wait", n)
		}
		if n := w.metric("klamm_purgatory_expired_total"); n != 2000 {
			t.Errorf("%v fetches waited to their end", n)
		}
	})
}

// nisshi PR #689, kop#1321: read_committed failed on topics without transactions, or used
// another bound than the last stable offset.
func TestReadCommittedWithoutTransactions(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1)
		w.must("t", records(batch.BuilderOptions{}, 1, 2, 3))
		req := fetchRequest("t", 0)
		req.IsolationLevel = 1
		p := ask[*kmsg.FetchResponse](w.conn, req).Topics[0].Partitions[0]
		if p.LastStableOffset != 3 || p.HighWatermark != 3 || len(readAll(t, p)) != 3 || p.AbortedTransactions == nil {
			t.Errorf("%+v", p)
		}
		if end := w.listWith("t", latest, 1); end.Offset != 3 {
			t.Errorf("the stable end is %+v", end)
		}
	})
}

// byID is a Fetch of a topic's partition 0 by id.
func byID(id [16]byte, session, epoch int32) *kmsg.FetchRequest {
	req := fetchRequest("", 0)
	req.Version, req.SessionID, req.SessionEpoch = 16, session, epoch
	req.Topics[0].TopicID = id
	return req
}

// franz-go 1ef0614b, d222eb3f: a session went on with the topic that was made anew under
// the same name. Its fetcher learns that what it reads is gone, whatever bears the name.
func TestSessionOfATopicThatIsMadeAnew(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		id := w.create("t", 1)
		w.must("t", records(batch.BuilderOptions{}, 1, 2))
		opened := ask[*kmsg.FetchResponse](w.conn, byID(id, 0, 0))
		next := func(epoch int32) kmsg.FetchResponseTopicPartition {
			req := byID(id, opened.SessionID, epoch)
			req.Topics = nil
			return ask[*kmsg.FetchResponse](w.conn, req).Topics[0].Partitions[0]
		}
		w.delete("t")
		gone := next(1)
		newID := w.create("t", 1)
		w.must("t", records(batch.BuilderOptions{}, 3))
		other := next(2)
		fresh := ask[*kmsg.FetchResponse](w.conn, byID(id, 0, -1)).Topics[0].Partitions[0]
		got := [][2]int{{int(gone.ErrorCode), len(gone.RecordBatches)}, {int(other.ErrorCode), len(other.RecordBatches)}, {int(fresh.ErrorCode), len(fresh.RecordBatches)}}
		want := [][2]int{
			{int(kafkaerr.UnknownTopicOrPartition.Code), 0},
			{int(kafkaerr.InconsistentTopicID.Code), 0},
			{int(kafkaerr.UnknownTopicID.Code), 0},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("deleted, made anew, without session: errors and bytes (-want +got):\n%s", diff)
		}
		if rs := readAll(t, ask[*kmsg.FetchResponse](w.conn, byID(newID, 0, -1)).Topics[0].Partitions[0]); len(rs) != 1 || rs[0].TimestampMs != 3 {
			t.Errorf("the new topic has %+v", rs)
		}
	})
}

// franz-go#1222: where sessions are declined, answers were empty for seconds although
// there was data.
func TestDataComesAtOnceWithoutSessions(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		id := w.create("t", 1)
		w.must("t", records(batch.BuilderOptions{}, 1))
		for range 3 {
			req := byID(id, 0, 0)
			req.MaxWaitMillis = 5000
			begin := time.Now()
			resp := ask[*kmsg.FetchResponse](w.conn, req)
			if resp.SessionID != 0 || len(readAll(t, resp.Topics[0].Partitions[0])) != 1 || time.Since(begin) > 0 {
				t.Errorf("after %v: %+v", time.Since(begin), resp)
			}
		}
	}, "max.incremental.fetch.session.cache.slots=0")
}

// The same for a session that lost its place in the cache: it is told so, and the next
// request without it has the data.
func TestDataComesAtOnceAfterEviction(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		id := w.create("t", 1)
		first := ask[*kmsg.FetchResponse](w.conn, byID(id, 0, 0)).SessionID
		time.Sleep(3 * time.Minute) // long enough unused to lose its place
		if second := ask[*kmsg.FetchResponse](w.conn, byID(id, 0, 0)).SessionID; second == 0 || second == first {
			t.Fatalf("sessions %d and %d", first, second)
		}
		w.must("t", records(batch.BuilderOptions{}, 1))
		if resp := ask[*kmsg.FetchResponse](w.conn, byID(id, first, 1)); resp.ErrorCode != kafkaerr.FetchSessionIDNotFound.Code {
			t.Errorf("error %d", resp.ErrorCode)
		}
		if resp := ask[*kmsg.FetchResponse](w.conn, byID(id, 0, 0)); len(readAll(t, resp.Topics[0].Partitions[0])) != 1 {
			t.Errorf("%+v", resp)
		}
	}, "max.incremental.fetch.session.cache.slots=1")
}

// A deleted topic must not leave a fetch waiting that will never be answered.
func TestFetchThatWaitsWhileItsTopicIsDeleted(t *testing.T) {
	for _, version := range []int16{4, 12, 13, 18} {
		t.Run(fmt.Sprint("v", version), func(t *testing.T) {
			run(t, func(t *testing.T, w *world) {
				id := w.create("t", 1)
				req := byID(id, 0, -1)
				req.Version, req.MaxWaitMillis = version, 30_000
				if version < 13 {
					req.Topics[0].Topic = "t"
				}
				begin := time.Now()
				waiting := w.dial()
				waiting.send(req)
				time.Sleep(time.Second)
				w.delete("t")
				resp := req.ResponseKind().(*kmsg.FetchResponse)
				if err := waiting.receive(resp); err != nil {
					t.Fatal(err)
				}
				if code := resp.Topics[0].Partitions[0].ErrorCode; code != kafkaerr.UnknownTopicOrPartition.Code || time.Since(begin) > 2*time.Second {
					t.Errorf("error %d after %v", code, time.Since(begin))
				}
			})
		})
	}
}
