package logstore

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
)

// flipBit changes a byte of a file.
func flipBit(t *testing.T, fs vfs.FS, name string, at int64, bit byte) {
	t.Helper()
	f, err := fs.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	b[0] ^= bit
	if err == nil {
		_, err = f.WriteAt(b[:], at)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestHoleOfAFlippedBit: bits of headers that let a batch end before, or begin behind, what is
// asked for. That is no gap over which a reader may be led, whatever cleanup policy.
func TestHoleOfAFlippedBit(t *testing.T) {
	const baseOffsetAt, lastOffsetDeltaAt = 7, 26
	const size = 93 // of a batch of four records
	tests := []struct {
		name  string
		at    int64
		bit   byte
		asked int64
	}{
		{"a batch ends early", 1*size + lastOffsetDeltaAt, 2, 6},
		{"a batch begins late", 1*size + baseOffsetAt, 64, 4},
		{"the last batch of a segment ends early", 4*size + lastOffsetDeltaAt, 2, 18},
	}
	for _, test := range tests {
		for _, compact := range []bool{false, true} {
			t.Run(test.name, func(t *testing.T) {
				fs := vfs.NewMem()
				c := DefaultConfig()
				c.SegmentBytes, c.IndexIntervalBytes = 5*size, 2*size
				d, _ := mustOpen(t, testOptions(fs), epochTime, c)
				l := mustCreate(t, d, testID("t", 0), c)
				for range 10 {
					mustAppend(t, l, epochTime, 0, "a", "b", "c", "d")
					d.Flush()
				}
				if n := l.SizeBytes(); n != 10*size || l.NumSegments() != 2 {
					t.Fatalf("%d bytes in %d segments", n, l.NumSegments())
				}
				if err := d.Close(epochTime, 1); err != nil {
					t.Fatal(err)
				}
				flipBit(t, fs, filepath.Join(l.Path(), segment.FileName(0, segment.LogSuffix)), test.at, test.bit)
				c.Compact = compact
				d, report := mustOpen(t, testOptions(fs), epochTime, c)
				defer d.Abandon()
				info, err := report.Opened[0].Read(ReadParams{Offset: test.asked, MaxBytes: 1 << 20, UpTo: 40, MinOne: true})
				var corrupt *CorruptionError
				if !errors.As(err, &corrupt) || report.Opened[0].Failure() == nil {
					t.Errorf("read: %+v, %v", info, err)
				}
			})
		}
	}
}

// TestGapsOfCompaction are lawful, in a segment and at its end: a log may have been copied from
// where it was compacted.
func TestGapsOfCompaction(t *testing.T) {
	fs := vfs.NewMem()
	c := DefaultConfig()
	c.SegmentBytes = 5 * 93
	d, _ := mustOpen(t, testOptions(fs), epochTime, c)
	l := mustCreate(t, d, testID("t", 0), c)
	for range 10 {
		mustAppend(t, l, epochTime, 0, "a", "b", "c", "d")
		d.Flush()
	}
	if err := d.Close(epochTime, 1); err != nil {
		t.Fatal(err)
	}
	first := filepath.Join(l.Path(), segment.FileName(0, segment.LogSuffix))
	data, err := vfs.ReadFile(fs, first)
	if err != nil {
		t.Fatal(err)
	}
	compacted := append(append([]byte(nil), data[:93]...), data[2*93:4*93]...) // the second and the last are gone
	if err := errors.Join(fs.Remove("/data/segment-checkpoint"), vfs.WriteFileAtomic(fs, first, compacted)); err != nil {
		t.Fatal(err)
	}
	c.Compact = true
	d, report := mustOpen(t, testOptions(fs), epochTime, c)
	defer d.Abandon()
	if len(report.Failed) > 0 {
		t.Fatal(report.Failed[0].Err)
	}
	for from, want := range map[int64]int64{0: 0, 4: 8, 7: 8, 12: 12, 16: 20, 19: 20} {
		views, err := readAll(report.Opened[0], from, 40, 1<<20)
		if err != nil || len(views) == 0 || views[0].BaseOffset() != want {
			t.Errorf("from %d: %d batches, %v; want the first at %d", from, len(views), err, want)
		}
	}
	if err := report.Opened[0].Failure(); err != nil {
		t.Error(err)
	}
}
