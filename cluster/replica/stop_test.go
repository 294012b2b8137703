package replica

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/klamm-mq/klamm/logstore/checkpoint"
)

// TestCleanStopKeepsTheLastHighWatermark: the checkpoint is written every few seconds, and
// once more at the end, when the last flush has let the high watermark rise. With an older
// one a replica that comes back hides records that consumers have read already.
func TestCleanStopKeepsTheLastHighWatermark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, withOptions(func(o *Options) { o.Keeper.HighWatermarkInterval = time.Hour }))
		h.start()
		id := h.topic("t", 1, alone)
		h.must(id, "a")
		h.must(id, "b")
		last := h.produce(id, AcksOne, "c")
		h.stop()
		expectError(t, "answered by the flush of the stop", last.result().Err, "NONE")
		marks, err := checkpoint.ReadOffsets(h.fs, "/d1/"+checkpoint.HighWatermarkFile)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, "high watermark", marks[checkpoint.TopicPartition{Topic: "t"}], int64(3))
	})
}
