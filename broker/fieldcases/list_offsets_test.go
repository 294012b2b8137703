package fieldcases

import (
	"testing"
	"time"

	"github.com/klamm-mq/klamm/broker/brokertest"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// none is the answer that nothing was found.
var none = at{Offset: -1, TimestampMs: -1, Epoch: -1}

// redpanda#4308, PR #4322, kop#135: where nothing was found there was a negative
// timestamp, or an offset; redpanda 1a080ee1, 3dd1c3a4: a time on an empty topic failed.
func TestNoRecordAtATimeIsNoError(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1, "retention.ms=1000", "segment.ms=500")
		for _, ts := range []int64{0, nowMs(), largestTime} {
			if got := w.list("t", ts); got != none {
				t.Errorf("empty topic, time %d: %+v", ts, got)
			}
		}
		w.must("t", records(batch.BuilderOptions{}, nowMs()))
		if got := w.list("t", nowMs()+1); got != none {
			t.Errorf("after the last record: %+v", got)
		}
		end := w.list("t", latest).Offset
		w.eventually("all of it expires", 20*time.Minute, func() bool { return w.list("t", earliest).Offset == end })
		for _, ts := range []int64{0, largestTime} {
			if got := w.list("t", ts); got != none {
				t.Errorf("expired topic, time %d: %+v", ts, got)
			}
		}
	})
}

// redpanda PR #27674: with append times the wrong record was found. All records of a batch
// bear its append time, so it is the first.
func TestTimeOfBatchesWithAppendTime(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1, "message.timestamp.type=LogAppendTime")
		var times []int64
		for range 3 {
			times = append(times, w.must("t", records(batch.BuilderOptions{}, 9, 1, 5)).LogAppendTime)
			time.Sleep(time.Second)
		}
		for i, ts := range times {
			want := at{Offset: int64(3 * i), TimestampMs: ts}
			if got := w.list("t", ts); got != want {
				t.Errorf("at the time of batch %d: %+v, want %+v", i, got, want)
			}
			if got := w.list("t", ts-500); got != want {
				t.Errorf("before the time of batch %d: %+v, want %+v", i, got, want)
			}
		}
		if got, want := w.list("t", largestTime), (at{Offset: 6, TimestampMs: times[2]}); got != want {
			t.Errorf("the largest: %+v, want %+v", got, want)
		}
	})
}

// apache/kafka PR #15621: the largest timestamp was found at the wrong record when it was
// not the last; of equal ones it is the first.
func TestLargestTimestampIsThatOfItsRecord(t *testing.T) {
	for _, c := range []struct {
		timestamps []int64
		want       int64
	}{{[]int64{5, 9, 3}, 1}, {[]int64{9, 9, 9}, 0}, {[]int64{1, 2, 3}, 2}, {[]int64{3, 2, 1}, 0}} {
		run(t, func(t *testing.T, w *world) {
			w.create("t", 1)
			w.must("t", records(batch.BuilderOptions{}, c.timestamps...))
			if got := w.list("t", largestTime); got.Offset != c.want {
				t.Errorf("of %v: %+v, want %d", c.timestamps, got, c.want)
			}
		})
	}
}

// franz-go 06e62e6d: answers bore the leader's epoch, not that of the record found.
func TestEpochIsThatOfTheRecord(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.create("t", 1)
		w.must("t", records(batch.BuilderOptions{}, 10))
		brokertest.Stop(t, w.broker)
		w.start()
		w.must("t", records(batch.BuilderOptions{}, 20))
		old, now := w.list("t", earliest), w.list("t", latest)
		if old.Epoch != 0 || now.Epoch == 0 {
			t.Errorf("earliest %+v, latest %+v: the leader's epoch rises with each start", old, now)
		}
		if got := w.list("t", 10); got.Epoch != 0 {
			t.Errorf("the older record: %+v", got)
		}
		if got := w.list("t", 20); got.Epoch != now.Epoch {
			t.Errorf("the newer record: %+v", got)
		}
	})
}
