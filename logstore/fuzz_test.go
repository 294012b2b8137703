package logstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"path/filepath"
	"testing"

	"github.com/klamm-mq/klamm/logstore/checkpoint"
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// FuzzRecover puts arbitrary bytes into every file of a partition. Whatever they are, a
// start either opens the log or says that it is damaged; what it opens can be read to
// its end, appended to, and is found the same by the next start.
func FuzzRecover(f *testing.F) {
	log := append(produced(epochTime, "a", "b"), 0)
	batches := func(bases ...int64) (all []byte) {
		for i, base := range bases {
			v := batch.View(producedBy(&batch.Producer{ID: 5, BaseSequence: int32(i)}, epochTime, "value"))
			v.SetBaseOffset(base)
			v.SetLeaderEpoch(int32(i))
			all = append(all, v...)
		}
		return all
	}
	f.Add([]byte{}, []byte{}, []byte{}, []byte{}, []byte{}, []byte{}, int64(0), false)
	f.Add(log[:len(log)-1], batches(2, 3), []byte{0, 0, 0, 1, 0, 0, 0, 0}, []byte{}, []byte("0\n1\n0 0\n"), []byte{}, int64(2), false)
	f.Add(batches(0, 1, 7), batches(8), []byte{}, bytes.Repeat([]byte{1}, 12), []byte("0\n1\nx 0\n"), []byte{0, 1}, int64(9), true)
	f.Add(log, batches(1), []byte{}, []byte{}, []byte("0\n2\n1 0\n2 1\n"), []byte{}, int64(1), false)
	marker := batch.NewEndTxnMarker(epochTime.UnixMilli(), 5, 0, batch.EndTxnMarker{Type: batch.ControlAbort})
	f.Add([]byte(marker), []byte{}, []byte{}, []byte{}, []byte{}, []byte{}, int64(0), false)
	f.Fuzz(func(t *testing.T, first, second, index, timeIndex, epochs, snapshot []byte, flushed int64, clean bool) {
		fs := vfs.NewMem()
		id, dir := testID("t", 0), "/data/t-0"
		_, base := mend(first)
		mend(second)
		write := func(name string, data []byte) {
			if err := vfs.WriteFileAtomic(fs, filepath.Join(dir, name), data); err != nil {
				t.Fatal(err)
			}
		}
		if err := fs.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		write(segment.FileName(0, segment.LogSuffix), first)
		write(segment.FileName(0, segment.IndexSuffix), index)
		write(segment.FileName(0, segment.TimeIndexSuffix), timeIndex)
		write(segment.FileName(max(base, 1), segment.LogSuffix), second)
		write(checkpoint.LeaderEpochFile, epochs)
		write("00000000000000000001.snapshot", snapshot)
		write(checkpoint.PartitionMetadataFile, checkpoint.EncodePartitionMetadata(id.TopicID))
		marks := map[checkpoint.TopicIDPartition]int64{id.key(): flushed}
		if err := checkpoint.WriteFlushed(fs, "/data/"+checkpoint.FlushedFile, marks); err != nil {
			t.Fatal(err)
		}
		points := map[checkpoint.TopicPartition]int64{id.name(): flushed / 2}
		if err := checkpoint.WriteOffsets(fs, "/data/"+checkpoint.RecoveryPointFile, points); err != nil {
			t.Fatal(err)
		}
		if clean {
			if err := checkpoint.WriteCleanShutdown(fs, "/data/"+checkpoint.CleanShutdownFile, 1); err != nil {
				t.Fatal(err)
			}
		}
		checkRecovered(t, fs)
	})
}

// mend gives batches the checksum that fits them, so that the fuzzer gets to what lies
// behind, and returns the end of the whole ones, in bytes and as an offset.
func mend(data []byte) (n int, next int64) {
	for {
		v, rest, err := batch.Next(data)
		if err != nil {
			return n, next
		}
		binary.BigEndian.PutUint32(v[17:], v.ComputeCRC())
		n, next, data = n+len(v), v.NextOffset(), rest
	}
}

func checkRecovered(t *testing.T, fs vfs.FS) {
	open := func() (*Dir, *Log) {
		d, err := OpenDir(testOptions(fs))
		if err != nil {
			t.Fatal(err)
		}
		report, err := d.OpenLogs(context.Background(), OpenLogsParams{Now: epochTime, Threads: 1})
		if err != nil || len(report.Opened)+len(report.Failed) != 1 {
			t.Fatal(report, err)
		}
		if len(report.Failed) > 0 {
			return d, nil
		}
		return d, report.Opened[0]
	}
	d, l := open()
	if l == nil {
		d.Abandon()
		return
	}
	if l.LogStart() < 0 || int64(l.LogStart()) > int64(l.LogEnd()) || int64(l.Flushed()) > int64(l.LogEnd()) {
		t.Fatalf("log is [%d, %d), flushed %d", l.LogStart(), l.LogEnd(), l.Flushed())
	}
	_, err := readAll(l, int64(l.LogStart()), int64(l.LogEnd()), 1<<20)
	epoch, _ := l.LatestEpoch()
	info, appendErr := l.AppendAsLeader(AppendParams{Now: epochTime, Records: produced(epochTime, "x"), LeaderEpoch: max(epoch, 0), RequestVersion: 12})
	if l.Failure() != nil {
		d.Abandon()
		return // damage below the recovery point, found late
	}
	if err != nil || appendErr != nil && int64(l.LogEnd()) < 1<<62 {
		t.Fatalf("read: %v, append: %v", err, appendErr)
	}
	d.Flush()
	end := l.LogEnd()
	d.Abandon()
	d, l = open()
	defer d.Abandon()
	if l == nil || l.LogEnd() != end || appendErr == nil && info.LastOffset != int64(end)-1 {
		t.Fatalf("the next start finds %+v, want an end of %d", l, end)
	}
}
