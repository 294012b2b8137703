package logstore

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/offset"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestCommitterSharesRounds: appends that come while a sync is running share the next
// round, and each is reported after the sync that covers it.
func TestCommitterSharesRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const syncTime = 10300 * time.Microsecond // no append comes when a round begins
		crash := vfs.NewCrash(rand.NewPCG(1, 1))
		d, _ := mustOpen(t, testOptions(crash.Process()), time.Now(), DefaultConfig())
		l := mustCreate(t, d, testID("t", 0), DefaultConfig())
		mustAppend(t, l, time.Now(), 0, "first")
		d.Flush() // the directories of a new log
		crash.OnSync(func(p vfs.SyncPoint) error {
			if !p.Done {
				time.Sleep(syncTime)
			}
			return nil
		})
		type report struct {
			at  time.Duration
			end offset.Flushed
		}
		var mu sync.Mutex
		var reports []report
		began := time.Now()
		c := StartCommitter(d, CommitterOptions{OnFlushed: func(logs []FlushedLog) {
			mu.Lock()
			defer mu.Unlock()
			reports = append(reports, report{time.Since(began), logs[0].Flushed})
		}})
		for i := range 25 {
			if info := mustAppend(t, l, time.Now(), 0, fmt.Sprint(i)); info.FlushWanted {
				c.Wake()
			}
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		time.Sleep(time.Second)
		c.Stop()
		want := []report{{syncTime, 2}, {2 * syncTime, 12}, {3 * syncTime, 22}, {4 * syncTime, 26}}
		if fmt.Sprint(reports) != fmt.Sprint(want) {
			t.Errorf("reports %v, want %v", reports, want)
		}
		d.Abandon()
	})
}

// TestKeeperByTheClock lets the keeper's goroutine run for an hour.
func TestKeeperByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		c := DefaultConfig()
		c.RetentionMs = 20 * 60 * 1000
		d, _ := mustOpen(t, testOptions(fs), time.Now(), c)
		l := mustCreate(t, d, testID("t", 0), c)
		committer := StartCommitter(d, CommitterOptions{})
		deleted := make(chan []DeletedSegment, 10)
		k := NewKeeper(d, KeeperOptions{
			Wake:          committer.Wake,
			HighWatermark: func(l *Log) (offset.HighWatermark, bool) { return offset.HighWatermark(l.Flushed()), true },
			OnDeleted:     func(_ *Log, s []DeletedSegment) { deleted <- s },
		})
		k.Start()
		mustAppend(t, l, time.Now(), 0, "value")
		committer.Wake()
		time.Sleep(2 * time.Second)
		d.marks.lock()
		if got := d.marks.flushed[l.ID().key()]; got != 1 {
			t.Errorf("persisted flushed offset %d after two seconds", got)
		}
		d.marks.unlock()
		time.Sleep(time.Hour)
		if s := <-deleted; len(s) != 1 || l.LogStart() != 1 {
			t.Errorf("deleted %+v, log start %d", s, l.LogStart())
		}
		k.Stop()
		committer.Stop()
		if err := d.Close(time.Now(), 3); err != nil {
			t.Error(err)
		}
		if got := d.marks.hw[l.ID().name()]; got != 1 {
			t.Errorf("persisted high watermark %d", got)
		}
	})
}

// TestOfflineIsToldOnce: the failure of a sync answers those who wait, and everybody
// who comes later.
func TestOfflineIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crash := vfs.NewCrash(rand.NewPCG(1, 1))
		told := make(chan error, 2)
		o := testOptions(crash.Process())
		o.OnOffline = func(_ *Dir, err error) { told <- err }
		d, _ := mustOpen(t, o, time.Now(), DefaultConfig())
		l := mustCreate(t, d, testID("t", 0), DefaultConfig())
		c := StartCommitter(d, CommitterOptions{OnFlushed: func(logs []FlushedLog) { t.Errorf("flushed %v", logs) }})
		crash.OnSync(func(p vfs.SyncPoint) error { return syscall.EIO })
		mustAppend(t, l, time.Now(), 0, "lost")
		c.Wake()
		err := <-told
		if !errors.Is(err, ErrDirOffline) || !errors.Is(err, kafkaerr.KafkaStorageError) || !errors.Is(err, syscall.EIO) {
			t.Errorf("told %v", err)
		}
		crash.OnSync(nil)
		c.Wake()
		synctest.Wait()
		if len(told) > 0 || l.Flushed() != 0 {
			t.Errorf("told %d times more, flushed %d", len(told), l.Flushed())
		}
		if _, err := l.Read(ReadParams{UpTo: 1}); !errors.Is(err, ErrDirOffline) {
			t.Errorf("read: %v", err)
		}
		if err := d.DeleteLogs(time.Now(), l); !errors.Is(err, ErrDirOffline) {
			t.Errorf("delete: %v", err)
		}
		c.Stop()
		d.Abandon()
	})
}

// TestBesideEachOther runs everything that may run beside appends: readers, rounds, the
// keeper, look-ups, a change of configuration. It is for the race detector; what is
// read must be what was written.
func TestBesideEachOther(t *testing.T) {
	fs := vfs.NewMem()
	c := DefaultConfig()
	c.SegmentBytes, c.IndexIntervalBytes, c.RetentionBytes = 2000, 200, 6000
	o := testOptions(fs)
	d, _ := mustOpen(t, o, epochTime, c)
	l := mustCreate(t, d, testID("t", 0), c)
	committer := StartCommitter(d, CommitterOptions{})
	var clock atomic.Int64
	clock.Store(epochTime.UnixMilli())
	now := func() time.Time { return time.UnixMilli(clock.Load()) }
	hw := func(l *Log) (offset.HighWatermark, bool) { return offset.HighWatermark(l.Flushed()), true }
	k := NewKeeper(d, KeeperOptions{Wake: committer.Wake, HighWatermark: hw, RecoveryPointBytes: 1000, RetentionInterval: time.Second})
	k.Tick(now()) // whatever the scheduler does, intervals begin here
	var done atomic.Bool
	var g sync.WaitGroup
	loop := func(fn func()) {
		g.Go(func() {
			for !done.Load() {
				fn()
			}
		})
	}
	loop(func() { k.Tick(now()) })
	loop(func() { l.UpdateConfig(c); l.LastStable(offset.HighWatermark(l.LogEnd())) })
	loop(func() {
		if _, _, err := l.OffsetForTimestamp(now().UnixMilli() - 10); err != nil {
			t.Error(err)
		}
		l.EndOffsetForEpoch(1)
	})
	for range 2 {
		loop(func() { readSome(t, l) })
	}
	for i := range 2000 {
		clock.Add(1)
		if mustAppend(t, l, now(), int32(i/200), fmt.Sprintf("%d", i)).FlushWanted {
			committer.Wake()
		}
		if i%97 == 0 {
			if err := l.Roll(now()); err != nil {
				t.Error(err)
			}
		}
	}
	done.Store(true)
	g.Wait()
	committer.Stop()
	d.Flush()
	clock.Add(10_000)
	k.Tick(now()) // retention, if it has not come to it yet
	if err := d.Close(now(), 1); err != nil {
		t.Error(err)
	}
	d, _ = mustOpen(t, o, now(), c)
	if l := d.Logs()[0]; l.LogEnd() != 2000 || l.Flushed() != 2000 || l.LogStart() == 0 {
		t.Errorf("log is [%d, %d), flushed %d", l.LogStart(), l.LogEnd(), l.Flushed())
	}
	d.Abandon()
}

// readSome reads the last records and checks that each holds its offset.
func readSome(t *testing.T, l *Log) {
	end := int64(l.LogEnd())
	from := max(int64(l.LogStart()), end-50)
	views, err := readAll(l, from, end, 700)
	switch {
	case errors.Is(err, kafkaerr.OffsetOutOfRange), errors.Is(err, io.ErrUnexpectedEOF):
		return // retention was faster
	case err != nil:
		t.Error(err)
	}
	for o, v := range valuesOf(t, views) {
		if v != fmt.Sprint(o) {
			t.Errorf("offset %d holds %q", o, v)
		}
	}
}
