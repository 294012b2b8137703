package replica

import (
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
	"github.com/klamm-mq/klamm/protocol/batch"
)

func TestDescribeLogDirs(t *testing.T) {
	var faults *errfs.FS
	bubble(t, func(h *harness) {
		id := h.topic("t", 2, alone)
		h.must(id, "a")
		for _, d := range h.m.DescribeLogDirs() {
			if d.Path == "/d9" {
				expectError(t, "was never there", d.Err, "KAFKA_STORAGE_ERROR")
				continue
			}
			expect(t, "error", d.Err, error(nil))
			expect(t, "logs", len(d.Logs), 1)
			expect(t, "lag", d.Logs[0].OffsetLag, int64(0))
			expect(t, "size", d.Logs[0].Size > 0, d.Logs[0].Partition == 0)
		}
		faults.Add("sync dir=/d1 err=EIO")
		lost := id
		if h.m.get(id).at().dir.Path() == "/d2" {
			lost = id.partition(1)
		}
		h.produce(lost, AcksAll, "b").result()
		infos := h.m.DescribeLogDirs()
		expectError(t, "failed", infos[0].Err, "KAFKA_STORAGE_ERROR")
		expect(t, "nothing else", len(infos[0].Logs), 0)
		expect(t, "the other", infos[1].Err, error(nil))
		h.ignoreClose = true
	}, withDirs("/d1", "/d2"), withFS(func(fs vfs.FS) vfs.FS {
		if faults == nil {
			faults = errfs.Wrap(fs)
		}
		return faults
	}), withOptions(func(o *Options) { o.DirsMissing = []string{"/d9"} }))
}

// Producers are known to a follower, too, and after a restart.
func TestProducersOfAReplica(t *testing.T) {
	bubble(t, func(h *harness) {
		id := h.topic("t", 1, alone)
		p := &batch.Producer{ID: 7, Epoch: 2}
		h.send(id, AcksAll, h.records(p, "a", "b")).result()
		for range 2 {
			got, err := h.m.Producers(id)
			expect(t, "error", err, error(nil))
			expect(t, "producers", len(got), 1)
			expect(t, "sequence", got[0].LastSequence, int32(1))
			expect(t, "epoch", got[0].Epoch, int16(2))
			h.stop()
			h.start()
		}
		_, err := h.m.Producers(id.partition(9))
		expectError(t, "unknown", err, "UNKNOWN_TOPIC_OR_PARTITION")
	})
}
