package segment

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// flipShapes are the timestamps of segments, one for each batch; what the time index looks
// like depends on how they grow.
var flipShapes = map[string][]int64{
	"one batch":            {1000},
	"one entry":            {1000, 2000},
	"one entry, all alike": {5000, 5000, 5000, 5000, 5000, 5000, 5000, 5000, 5000, 5000, 5000, 5000},
	"the largest first":    {9000, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000},
	"in order":             {1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000},
	"alike in twos":        {1000, 1000, 2000, 2000, 3000, 3000, 4000, 4000, 5000, 5000, 6000, 6000},
	"to and fro":           {3000, 1000, 2000, 6000, 4000, 5000, 9000, 7000, 8000, 8500, 10000, 9500},
	"close together":       {1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009, 1010},
}

// flipWay begins to use a segment of the given timestamps, and answers those it has then.
type flipWay func(tester, *Segment, []int64) []int64

// TestFlippedBitOfTheTimeIndex: each bit of a time index is flipped, and none is believed. A
// timestamp that is too low would let retention delete the segment early, and look-ups skip
// records.
func TestFlippedBitOfTheTimeIndex(t *testing.T) {
	ways := map[string]flipWay{
		"load":     func(_ tester, _ *Segment, timestamps []int64) []int64 { return timestamps },
		"recover":  recoverTheEnd,
		"truncate": truncateTheHalf,
	}
	for name, timestamps := range flipShapes {
		for way, begin := range ways {
			t.Run(name+", "+way, func(t *testing.T) { testFlips(t, timestamps, begin) })
		}
	}
}

// recoverTheEnd is a start after a crash, of which the last record's batch alone is scanned.
func recoverTheEnd(t tester, s *Segment, timestamps []int64) []int64 {
	if _, err := s.Recover(RecoverParams{FromOffset: int64(3*len(timestamps) - 1)}); err != nil {
		t.Fatal(err)
	}
	return timestamps
}

// truncateTheHalf leaves the first half, so that an entry from the middle becomes the last.
func truncateTheHalf(t tester, s *Segment, timestamps []int64) []int64 {
	half := (len(timestamps) + 1) / 2
	if _, err := s.TruncateTo(testNow, int64(3*half)); err != nil {
		t.Fatal(err)
	}
	return timestamps[:half]
}

func testFlips(t *testing.T, timestamps []int64, begin flipWay) {
	fs := vfs.NewMem()
	writeFlipShape(t, fs, timestamps)
	name := filepath.Join(testDir, FileName(0, TimeIndexSuffix))
	log := readAll(t, fs, filepath.Join(testDir, FileName(0, LogSuffix)))
	index := readAll(t, fs, name)
	if len(index) == 0 {
		t.Fatal("no time index to flip bits of")
	}
	for bit := range 8 * len(index) {
		flipped := append([]byte(nil), index...)
		flipped[bit/8] ^= 1 << (bit % 8)
		overwrite(t, fs, name, flipped)
		overwrite(t, fs, filepath.Join(testDir, FileName(0, LogSuffix)), log)
		s := mustOpen(t, testOptions(fs), 0)
		left := begin(t, s, timestamps)
		if got, want := timesOf(t, s, left), bruteTimes(left); got != want {
			t.Errorf("bit %d of entry %d:\ngot  %s\nwant %s", bit%96, bit/96, got, want)
		}
		s.Abandon()
	}
}

// writeFlipShape writes a segment.
func writeFlipShape(t *testing.T, fs vfs.FS, timestamps []int64) {
	s := mustCreate(t, testOptions(fs), 0)
	for i, ts := range timestamps {
		mustAppend(t, s, flipBatch(i, ts))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// flipBatch is the i-th batch of a shape. The last of its three records has the timestamp.
func flipBatch(i int, ts int64) batch.View { return testBatch(int64(3*i), 3, 60, ts-2) }

// timesOf is what retention and look-ups by time go by.
func timesOf(t *testing.T, s *Segment, timestamps []int64) string {
	t.Helper()
	largest, err := s.MaxTimestamp()
	if err != nil {
		t.Fatal(err)
	}
	at, found, err := s.OffsetOfMaxTimestamp(largest.TimestampMs)
	if err != nil {
		t.Fatal(err)
	}
	if !found {
		at.Offset = -1
	}
	out := fmt.Sprintf("max %d at %d:", largest.TimestampMs, at.Offset)
	for _, ts := range timestamps {
		for _, ms := range []int64{ts - 1, ts, ts + 1} {
			at, found, err := s.OffsetForTimestamp(ms, 0)
			if err != nil {
				t.Fatal(err)
			}
			if !found {
				at.Offset = -1
			}
			out += fmt.Sprintf(" %d@%d", ms, at.Offset)
		}
	}
	return out
}

// bruteTimes is timesOf by looking at every record.
func bruteTimes(timestamps []int64) string {
	first := func(ms int64) int64 {
		for i, ts := range timestamps {
			for j := range int64(3) {
				if ts-2+j >= ms {
					return int64(3*i) + j
				}
			}
		}
		return -1
	}
	largest := timestamps[0]
	for _, ts := range timestamps {
		largest = max(largest, ts)
	}
	out := fmt.Sprintf("max %d at %d:", largest, first(largest))
	for _, ts := range timestamps {
		for _, ms := range []int64{ts - 1, ts, ts + 1} {
			out += fmt.Sprintf(" %d@%d", ms, first(ms))
		}
	}
	return out
}

func readAll(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	e, err := readEntries(fs, name, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return e.raw
}

func overwrite(t *testing.T, fs vfs.FS, name string, raw []byte) {
	t.Helper()
	f, err := fs.OpenFile(name, os.O_RDWR|os.O_TRUNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(raw, 0); err != nil {
		t.Fatal(err)
	}
}

// TestFlippedBitOfATimestampInTheLog: where the index and the log differ, the log may be to
// blame. No index is built from a header that fails its CRC.
func TestFlippedBitOfATimestampInTheLog(t *testing.T) {
	const maxTimestampAt = 35
	fs := vfs.NewMem()
	timestamps := flipShapes["the largest first"]
	writeFlipShape(t, fs, timestamps)
	name := filepath.Join(testDir, FileName(0, LogSuffix))
	log := readAll(t, fs, name)
	for bit := range 64 {
		flipped := append([]byte(nil), log...)
		flipped[maxTimestampAt+bit/8] ^= 1 << (bit % 8)
		overwrite(t, fs, name, flipped)
		s := mustOpen(t, testOptions(fs), 0)
		if got, err := s.MaxTimestamp(); !isCorrupt(err) {
			t.Errorf("bit %d: %+v, %v", bit, got, err)
		}
		s.Abandon()
	}
}

// TestTimeIndexOfOthersIsKept: an entry may name any record of the batch, and is not built
// again for that.
func TestTimeIndexOfOthersIsKept(t *testing.T) {
	fs := vfs.NewMem()
	for shape, timestamps := range flipShapes {
		writeFlipShape(t, fs, timestamps)
		name := filepath.Join(testDir, FileName(0, TimeIndexSuffix))
		x := timeIndex{entries{raw: readAll(t, fs, name)}}
		for i := range x.len() {
			x.raw[i*timeEntrySize+timeEntrySize-1]-- // from the last record to the one before it
		}
		overwrite(t, fs, name, x.raw)
		s := mustOpen(t, testOptions(fs), 0)
		if got, want := timesOf(t, s, timestamps), bruteTimes(timestamps); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", shape, got, want)
		}
		if s.indexGeneration != 0 || s.content.times.pending() || string(readAll(t, fs, name)) != string(x.raw) {
			t.Errorf("%s: built again", shape)
		}
		if err := s.Delete(); err != nil {
			t.Fatal(err)
		}
	}
}
