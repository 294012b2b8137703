package logstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/offset"
)

// followed is a batch as a leader sends it.
func followed(base int64, value string) []byte {
	b := batch.NewBuilder(batch.BuilderOptions{BaseOffset: base, LeaderEpoch: 1})
	b.Append(batch.NewRecord{TimestampMs: epochTime.UnixMilli(), Value: []byte(value)})
	v, err := b.Build(nil)
	if err != nil {
		panic(err)
	}
	return v
}

// mustAppendBehind appends a record of a replica that nobody waits for.
func mustAppendBehind(t *testing.T, l *Log, base int64) {
	t.Helper()
	info, err := l.AppendBehind(epochTime, followed(base, "a"), 1)
	if err != nil || !info.FlushWanted || !info.FlushAlone {
		t.Fatalf("%+v %v", info, err)
	}
}

// TestRoundsDoNotWaitForWhatIsBehind: before FlushAlone a round leaves the log out; after it, the
// round syncs nothing of it, and reports its end.
func TestRoundsDoNotWaitForWhatIsBehind(t *testing.T) {
	var synced []string
	fs := hookfs.Wrap(vfs.NewMem(), true, func(c *hookfs.Call) error {
		if c.Op == hookfs.Sync {
			synced = append(synced, strings.TrimPrefix(c.Name, "/data/"))
		}
		return nil
	})
	d, _ := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
	defer d.Abandon()
	behind, other := mustBear(t, d, testID("behind", 0), DefaultConfig()), mustBear(t, d, testID("other", 0), DefaultConfig())
	mustAppendBehind(t, behind, 0)
	mustAppend(t, other, epochTime, 1, "a")
	behind.FlushAlone(false)
	d.Flush() // with the files of new logs

	mustAppendBehind(t, behind, 1)
	mustAppend(t, other, epochTime, 1, "a")
	for _, step := range []struct {
		do     func()
		synced string
		behind offset.Flushed
	}{
		{func() { d.Flush() }, "[other-0/00000000000000000000.log]", 1},
		{func() { behind.FlushAlone(true) }, "[behind-0/00000000000000000000.log]", 1},
		{func() { d.Flush() }, "[]", 2},
	} {
		synced = nil
		if step.do(); fmt.Sprint(synced) != step.synced || behind.Flushed() != step.behind {
			t.Errorf("synced %v, want %s; flushed to %d, want %d", synced, step.synced, behind.Flushed(), step.behind)
		}
	}
	if other.Flushed() != 2 {
		t.Errorf("the other is flushed to %d", other.Flushed())
	}
}

// TestFlushAloneIsKept by a disk that loses all that was not synced, over a roll too.
func TestFlushAloneIsKept(t *testing.T) {
	crash := vfs.NewCrash(rand.NewPCG(1, 1))
	c := threeInASegment()
	d, _ := mustOpen(t, testOptions(crash.Process()), epochTime, c)
	l := mustCreate(t, d, testID("t", 0), c)
	for base := range int64(5) {
		mustAppendBehind(t, l, base)
		if base == 0 {
			l.FlushAlone(true) // and its name, before it rolls
			d.Flush()
		}
	}
	l.FlushAlone(true)
	d.Flush()
	if l.Flushed() != 5 {
		t.Fatalf("flushed to %d", l.Flushed())
	}
	crash.PowerCutLosingAll()
	d.Abandon()
	d, report := mustOpen(t, testOptions(crash.Process()), epochTime, c)
	defer d.Abandon()
	if len(report.Opened) != 1 || report.Opened[0].LogEnd() != 5 {
		t.Errorf("%+v", report)
	}
}

// TestFlushAloneFails: as a round that fails, it takes the directory offline, and nothing counts
// as flushed. One for which there is no descriptor comes again with the next round.
func TestFlushAloneFails(t *testing.T) {
	for rule, want := range map[string]error{
		"sync /data/t-0/*.log err=EIO":    syscall.EIO,
		"sync /data/t-0/*.log err=EMFILE": nil,
	} {
		t.Run(rule, func(t *testing.T) {
			faulty := errfs.Wrap(vfs.NewMem())
			d, _ := mustOpen(t, testOptions(faulty), epochTime, DefaultConfig())
			defer d.Abandon()
			l := mustBear(t, d, testID("t", 0), DefaultConfig())
			mustAppendBehind(t, l, 0)
			faulty.Add(rule)
			l.FlushAlone(true)
			faulty.Clear()
			if !errors.Is(d.Err(), want) || faulty.Fired() != 1 {
				t.Errorf("the directory says %v; fired %d times", d.Err(), faulty.Fired())
			}
			d.Flush()
			if flushed := l.Flushed() == 1; flushed != (want == nil) {
				t.Errorf("flushed to %d", l.Flushed())
			}
		})
	}
}

// TestTruncationDuringFlushAlone: what is appended in the place of what was cut off is not
// flushed by a sync that began before.
func TestTruncationDuringFlushAlone(t *testing.T) {
	var during func()
	crash := vfs.NewCrash(rand.NewPCG(1, 1))
	fs := hookfs.Wrap(crash.Process(), true, func(c *hookfs.Call) error {
		if c.Op == hookfs.Sync && strings.HasSuffix(c.Name, ".log") && during != nil {
			once := during
			during = nil
			once()
		}
		return nil
	})
	d, _ := mustOpen(t, testOptions(fs), epochTime, DefaultConfig())
	l := mustBear(t, d, testID("t", 0), DefaultConfig())
	mustAppendBehind(t, l, 0)
	mustAppendBehind(t, l, 1)
	during = func() {
		if err := l.TruncateTo(1); err != nil {
			t.Error(err)
		}
		mustAppendBehind(t, l, 1)
	}
	l.FlushAlone(true)
	l.FlushAlone(true)
	d.Flush()
	if l.Flushed() != 2 {
		t.Errorf("flushed to %d", l.Flushed())
	}
	crash.PowerCutLosingAll()
	d.Abandon()
	d, report := mustOpen(t, testOptions(crash.Process()), epochTime, DefaultConfig())
	defer d.Abandon()
	if len(report.Opened) != 1 || report.Opened[0].LogEnd() != 2 {
		t.Errorf("%+v", report)
	}
}
