package replica

import (
	"testing"
	"time"

	"github.com/klamm-mq/klamm/protocol/uuid"
)

func TestBatchTime(t *testing.T) {
	bubble(t, func(h *harness) {
		id := h.topic("t", 1, alone)
		l := h.led(id)
		var written []int64
		for range 3 {
			written = append(written, time.Now().UnixMilli())
			if _, _, err := h.m.AppendInEpoch(l, h.records(nil, "a", "b")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		for offset, want := range []int64{written[0], written[0], written[1], written[1], written[2], written[2], -1, -1} {
			if got, err := h.m.BatchTime(id, int64(offset)); got != want || err != nil {
				t.Errorf("offset %d: %d, %v, want %d", offset, got, err, want)
			}
		}
		if _, err := h.m.BatchTime(TopicIDPartition{TopicID: uuid.UUID{7}}, 0); err == nil {
			t.Error("an unknown partition has a time")
		}
	})
}
