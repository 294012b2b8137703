package logstore

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/klamm-mq/klamm/logstore/checkpoint"
	"github.com/klamm-mq/klamm/logstore/epoch"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/offset"
)

// Of the log that sumsTest leaves behind.
const (
	sumsStart, sumsHW, sumsEnd = 12, 25, 40

	batchesFromStart = 7
)

// sumsTest is a file system with a log that was closed: three epochs, two segments, a log start
// and a high watermark in their midst.
func sumsTest(t *testing.T) (o DirOptions, c Config, epochs []epoch.Entry) {
	t.Helper()
	o, c = testOptions(vfs.NewMem()), DefaultConfig()
	c.SegmentBytes = 5 * 93
	d, _ := mustOpen(t, o, epochTime, c)
	l := mustCreate(t, d, testID("t", 0), c)
	for i := range int32(10) {
		mustAppend(t, l, epochTime, i/4, "a", "b", "c", "d")
		d.Flush()
	}
	if err := l.AdvanceLogStart(sumsStart); err != nil {
		t.Fatal(err)
	}
	hw := func(*Log) (offset.HighWatermark, bool) { return sumsHW, true }
	if err := d.checkpointHighWatermarks(hw); err != nil {
		t.Fatal(err)
	}
	epochs = l.epochs.Entries()
	if err := d.Close(epochTime, 1); err != nil {
		t.Fatal(err)
	}
	return o, c, epochs
}

// TestChangedDigitsOfCheckpoints: a digit is another one in a file whose format has no place for
// a checksum. Whatever file and digit, what is opened then has all its records, begins no later,
// ends where it did, and neither its epochs nor its high watermark are beyond what they were.
func TestChangedDigitsOfCheckpoints(t *testing.T) {
	for _, name := range []string{
		checkpoint.LogStartFile, checkpoint.RecoveryPointFile, checkpoint.HighWatermarkFile, "t-0/" + checkpoint.LeaderEpochFile,
	} {
		o, _, _ := sumsTest(t)
		data, err := vfs.ReadFile(o.FS, filepath.Join(o.Path, name))
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range data {
			for digit := byte('0'); digit <= '9' && '0' <= b && b <= '9'; digit++ {
				if digit != b {
					changed := slices.Clone(data)
					changed[i] = digit
					checkChanged(t, name, changed)
				}
			}
		}
	}
}

func checkChanged(t *testing.T, name string, changed []byte) {
	t.Helper()
	o, c, epochs := sumsTest(t)
	if err := vfs.WriteFileAtomic(o.FS, filepath.Join(o.Path, name), changed); err != nil {
		t.Fatal(err)
	}
	d, report := mustOpen(t, o, epochTime, c)
	defer d.Abandon()
	if len(report.Opened) != 1 {
		t.Errorf("%s, %q: %+v", name, changed, report)
		return
	}
	l := report.Opened[0]
	views, err := readAll(l, sumsStart, sumsEnd, 1<<20)
	if err != nil || len(views) != batchesFromStart || l.LogStart() > sumsStart || l.LogEnd() != sumsEnd || l.CheckpointedHighWatermark() > sumsHW {
		t.Errorf("%s, %q: from %d, high watermark %d, to %d; %d batches, %v",
			name, changed, l.LogStart(), l.CheckpointedHighWatermark(), l.LogEnd(), len(views), err)
	}
	for o := l.LogStart(); int64(o) < sumsEnd; o++ {
		if got, _ := l.EpochForOffset(int64(o)); o >= sumsStart && got != epochOf(epochs, int64(o)) {
			t.Errorf("%s, %q: epochs %v, want %v", name, changed, l.epochs.Entries(), epochs)
			return
		}
	}
}

func epochOf(entries []epoch.Entry, o int64) (e int32) {
	for _, entry := range entries {
		if entry.StartOffset <= o {
			e = entry.Epoch
		}
	}
	return e
}
