package replica

import (
	"fmt"

	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// BatchTime is when the batch that holds an offset was written, in ms: by the clock of its
// producer, or of the broker where the topic has LogAppendTime. Without any batch at or
// behind the offset it is -1. Only the header of the batch is read.
func (m *Manager) BatchTime(id TopicIDPartition, offset int64) (ms int64, err error) {
	h, err := m.find(id)
	if err != nil {
		return -1, err
	}
	at, err := h.offsetsInEpoch(NoEpoch)
	if err != nil || offset >= at.LogEnd {
		return -1, err
	}
	info, err := h.readLog(logstore.ReadParams{Offset: offset, MaxBytes: 1, UpTo: at.LogEnd, MinOne: true})
	if err != nil || info.Region == nil {
		return -1, err
	}
	defer info.Region.Release()
	header := make([]byte, batch.HeaderSize)
	if _, err := info.Region.ReadAt(header, 0); err != nil {
		return -1, fmt.Errorf("read the time of %s-%d at %d: %w", h.Topic(), id.Partition, offset, err)
	}
	if v := batch.View(header); v.IsLogAppendTime() {
		return v.MaxTimestamp(), nil
	}
	return batch.View(header).BaseTimestamp(), nil
}
