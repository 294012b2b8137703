package broker

import (
	"log/slog"
	"testing"

	"github.com/klamm-mq/klamm/configs"
)

// A limit of 0 refuses every batch, while to package batch it is no limit.
func TestMaxMessageBytesOfZeroIsALimit(t *testing.T) {
	b := &Broker{cfg: configs.Default(), dynamic: newDynamicConfig(configs.Default(), slog.New(slog.DiscardHandler))}
	for value, want := range map[string]int32{"0": 1, "1": 1, "200": 200} {
		c, err := b.replicaTopicConfig(map[string]string{"max.message.bytes": value})
		if err != nil || c.Log.MaxMessageBytes != want {
			t.Errorf("%s: limit %d, want %d (%v)", value, c.Log.MaxMessageBytes, want, err)
		}
	}
}

func TestDecompressedLimitReachesTheLog(t *testing.T) {
	b := &Broker{cfg: configs.Default(), dynamic: newDynamicConfig(configs.Default(), slog.New(slog.DiscardHandler))}
	c, err := b.replicaTopicConfig(map[string]string{"max.decompressed.message.bytes": "1000"})
	if err != nil || c.Log.MaxRecordBytes != 1000 {
		t.Errorf("limit %d, want 1000 (%v)", c.Log.MaxRecordBytes, err)
	}
}
