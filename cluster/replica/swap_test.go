package replica

import (
	"testing"
	"time"

	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// TestCopyBeginsAboveTheHighWatermark: a crash has taken the log start back, and the high
// watermark, but the copy of a move has kept the start that it took over before.
func TestCopyBeginsAboveTheHighWatermark(t *testing.T) {
	p := NewPartition(PartitionOptions{
		ID: TopicIDPartition{TopicID: uuid.UUID{1}}, Topic: "t", BrokerID: 1,
		Log:    &fakeLog{end: 68, flushed: 68, hw: 19, lso: -1},
		Config: TopicConfig{Log: logstore.DefaultConfig(), MinInSyncCount: 1}, Brokers: fakeBrokers{}, ReplicaLagMax: time.Second,
	})
	for _, c := range []struct{ start, want int64 }{{34, 34}, {10, 34}, {40, 40}} {
		if err := p.SwapLog(&fakeLog{logStart: c.start, end: 68, flushed: 68, lso: -1}); err != nil {
			t.Fatal(err)
		}
		if hw := int64(p.HighWatermark()); hw != c.want {
			t.Errorf("copy from %d: the high watermark is %d, want %d", c.start, hw, c.want)
		}
	}
}
