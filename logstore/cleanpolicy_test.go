package logstore

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/logstore/compaction"
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
)

// TestPolicyChangeEndsACleaning: who takes compact out of cleanup.policy keeps what is there from
// then on, as with Kafka (LogManager.updateTopicConfig); who puts it back has the rest cleaned.
func TestPolicyChangeEndsACleaning(t *testing.T) {
	for at := 1; ; at++ {
		disk, c := vfs.NewMem(), compactConfig()
		d, _ := mustOpen(t, testOptions(disk), epochTime, c)
		l := compactedLog(t, d, c, 20)
		want := survivors(recordsOf(t, l), l.active().BaseOffset())
		compact := l.Config()
		b := everything(l)
		dirty, err := l.Cleanable(epochTime, b)
		must(t, err)
		places, kept := 0, []record(nil)
		_, err = l.Clean(CleanParams{
			Now: epochTime, Bounds: b, Dirty: dirty, Map: compaction.NewOffsetMap(1<<20, 0.9), BufferBytes: 1,
			Pace: func(int) error {
				if places++; places == at {
					kept = recordsOf(t, l)
					changed := compact
					changed.Compact, changed.Delete = false, true
					l.UpdateConfig(changed)
				}
				return nil
			},
		})
		if places < at {
			d.Abandon()
			if at < 10 {
				t.Errorf("only %d places", at)
			}
			return
		}
		if !errors.Is(err, ErrOvertaken) {
			t.Errorf("place %d: %v", at, err)
		}
		if got := recordsOf(t, l); !slices.Equal(got, kept) {
			t.Errorf("place %d: %v, want %v", at, got, kept)
		}
		for _, name := range fileNames(t, disk, l.Path()) {
			if _, _, stage, ok := segment.ParseStagedName(name); ok && stage != segment.InPlace {
				t.Errorf("place %d: left: %s", at, name)
			}
		}
		d.Abandon()
		d, report := mustOpen(t, testOptions(disk), epochTime, compact)
		mustClean(t, report.Opened[0], epochTime.Add(time.Minute))
		if got := recordsOf(t, report.Opened[0]); !slices.Equal(got, want) {
			t.Errorf("place %d, compacted again: %v, want %v", at, got, want)
		}
		d.Abandon()
	}
}

// TestMovedLogIsLookedAt: the directory that a log comes into notes it for the cleaner, though none
// of its segments ends there.
func TestMovedLogIsLookedAt(t *testing.T) {
	disk, c := vfs.NewMem(), compactConfig()
	d, _ := mustOpen(t, testOptions(disk), epochTime, c)
	defer d.Abandon()
	o := testOptions(disk)
	o.Path, o.Rand = "/other", &stream{seed: 9}
	other, _ := mustOpen(t, o, epochTime, c)
	defer other.Abandon()
	l := compactedLog(t, d, c, 20)
	m := mustBegin(t, other, l)
	for m.Lag() > 0 {
		_, err := m.Copy(epochTime, 1)
		must(t, err)
		must(t, m.Settle(epochTime)) // nothing rolls before its name is durable
	}
	moved, err := m.Finish(epochTime, everything(l).HighWatermark)
	must(t, err)
	must(t, m.Leave(epochTime))
	cleaner := NewCleaner(CleanerOptions{
		Dirs: []*Dir{d, other}, Settings: CleanerSettings{DedupeBytes: 1 << 20, LoadFactor: 0.9},
		Bounds: func(l *Log) (CleanBounds, bool) { return everything(l), true },
	})
	if did, _ := cleaner.CleanOne(epochTime.Add(time.Minute)); !did || moved.CleanedTo() != moved.active().BaseOffset() {
		t.Errorf("cleaned: %v, to %d of %d", did, moved.CleanedTo(), moved.active().BaseOffset())
	}
}
