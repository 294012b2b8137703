package logstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/offset"
)

// TestEachErrorOnce lets each call of a log's life fail once, in every way, and demands
// that what rounds had reported flushed is there after the power was cut.
func TestEachErrorOnce(t *testing.T) {
	pool := segment.NewFilePool(segment.PoolOptions{})
	for _, kind := range []string{"EIO", "ENOSPC", "EMFILE"} {
		n, fired := 1, true
		for ; fired; n++ {
			rule := fmt.Sprintf("any nth=%d partial=7 err=%s", n, kind)
			t.Run(rule, func(t *testing.T) { fired = lifeWithError(t, pool, rule, nil) })
			if t.Failed() {
				return
			}
		}
		t.Logf("%s: %d calls", kind, n-1)
	}
}

// TestEachSyncFails does the same with a disk that drops what a failed sync should have
// written, and answers the next one well, also in the life after it. What fails before
// the directory was ever open is left out: it holds nothing yet.
func TestEachSyncFails(t *testing.T) {
	points := 0
	pool := segment.NewFilePool(segment.PoolOptions{})
	const syncsOfFirstOpen = 4
	for n := 1; n == 1 || n+syncsOfFirstOpen <= points; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			points = 0
			lifeWithError(t, pool, "any nth=1000000", func(p vfs.SyncPoint) error {
				points = max(points, p.N)
				if p.N == n+syncsOfFirstOpen && !p.Done {
					return syscall.EIO
				}
				return nil
			})
		})
		if t.Failed() {
			return
		}
	}
}

// errorLife is one life with an error in it, and what must be left of it.
type errorLife struct {
	t       *testing.T
	pool    *segment.FilePool // of all lives, for its buffers
	now     time.Time
	promise map[ID]int64
	values  map[ID][]string // by offset
	failed  map[string]bool // partitions, at the start of this life
	d       *Dir
	k       *Keeper
}

// lifeWithError reports whether the rule was met.
func lifeWithError(t *testing.T, pool *segment.FilePool, rule string, onSync func(vfs.SyncPoint) error) bool {
	crash := vfs.NewCrash(rand.NewPCG(1, 1))
	fs := errfs.Wrap(crash.Process(), rule)
	crash.OnSync(onSync)
	e := &errorLife{t: t, pool: pool, now: epochTime, promise: map[ID]int64{}, values: map[ID][]string{}}
	crash.SetClock(func() time.Time { return e.now })
	e.run(fs)
	fired := fs.Fired() > 0
	crash.OnSync(nil)
	crash.PowerCutLosingAll()
	e.judge(crash.Process())
	return fired
}

func (e *errorLife) config() Config {
	c := DefaultConfig()
	c.SegmentBytes, c.IndexIntervalBytes, c.RetentionBytes = 400, 50, 1000
	return c
}

func (e *errorLife) options(fs vfs.FS) DirOptions {
	o := testOptions(fs)
	o.Pool = e.pool
	return o
}

// run goes through everything that a directory can do. Errors are no reason to stop.
func (e *errorLife) run(fs vfs.FS) {
	for range 2 {
		d, err := OpenDir(e.options(fs))
		if err != nil {
			continue
		}
		report, err := d.OpenLogs(context.Background(), OpenLogsParams{Now: e.now, Threads: 1, Config: func(ID) Config { return e.config() }})
		if err != nil {
			d.Abandon()
			continue
		}
		e.d, e.failed = d, map[string]bool{}
		for _, f := range report.Failed {
			e.failed[f.ID.String()] = true
		}
		e.adopt()
		e.k = NewKeeper(d, KeeperOptions{
			RecoveryPointInterval: 2 * time.Second, RecoveryPointBytes: 200, RetentionInterval: 3 * time.Second,
			HighWatermark: func(l *Log) (offset.HighWatermark, bool) { return offset.HighWatermark(l.Flushed()), true },
			Wake:          e.flush,
		})
		e.k.Tick(e.now)
		e.live()
		if err := d.Close(e.now, 1); err == nil {
			for id, v := range e.values {
				e.promise[id] = int64(len(v))
			}
		}
	}
}

// adopt checks what a new life finds, and goes on from there: an operation that failed
// may have been done or not.
func (e *errorLife) adopt() {
	e.check(e.d)
	clear(e.values)
	for _, l := range e.d.Logs() {
		views, err := readAll(l, int64(l.LogStart()), int64(l.LogEnd()), 1<<20)
		if err != nil { // the error that was to come, in the region: it does not come again
			views, err = readAll(l, int64(l.LogStart()), int64(l.LogEnd()), 1<<20)
		}
		if err != nil {
			continue
		}
		values := make([]string, l.LogEnd())
		for o, v := range valuesOf(e.t, views) {
			values[o] = v
		}
		e.values[l.ID()] = values
	}
}

func (e *errorLife) live() {
	a, b := testID("a", 0), testID("b", 0)
	e.log(a)
	for i := range 7 {
		e.append(a, fmt.Sprintf("%s-%d", strings.Repeat("x", 80), i))
		e.append(b, "small")
		if i%3 == 0 {
			e.flush()
		}
		e.now = e.now.Add(time.Second)
		e.k.Tick(e.now)
	}
	if l := e.log(b); l != nil && len(e.values[b]) > 3 {
		to := int64(len(e.values[b]) - 3)
		e.promise[b] = min(e.promise[b], to)
		before := e.values[b]
		if err := l.TruncateTo(to); err == nil {
			e.values[b] = before[:to]
		} else {
			// It may or may not have been cut.
			e.values[b], e.promise[b] = nil, 0
		}
	}
	if l := e.log(b); l != nil {
		_ = e.d.DeleteLogs(e.now, l)
		delete(e.values, b)
		delete(e.promise, b)
	}
	e.now = e.now.Add(2 * time.Minute)
	e.k.Tick(e.now)
	if l := e.log(a); l != nil {
		views, err := readAll(l, int64(l.LogStart()), int64(l.Flushed()), 300)
		if err == nil {
			e.compare(a, valuesOf(e.t, views))
		}
	}
}

// log is the log of a partition, made if need be; nil if that fails.
func (e *errorLife) log(id ID) *Log {
	if l := e.d.Log(id.TopicID, id.Partition); l != nil {
		return l
	}
	if len(e.values[id]) > 0 {
		return nil
	}
	l, err := e.d.CreateLog(e.now, id, e.config())
	if err != nil {
		return nil
	}
	return l
}

func (e *errorLife) append(id ID, value string) {
	l := e.log(id)
	if l == nil {
		return
	}
	info, err := l.AppendAsLeader(AppendParams{Now: e.now, Records: produced(e.now, value), LeaderEpoch: 1, RequestVersion: 12})
	if err != nil {
		if !errors.Is(err, kafkaerr.KafkaStorageError) && !errors.Is(err, ErrClosed) {
			e.t.Errorf("append: %v", err)
		}
		return
	}
	if info.FirstOffset > int64(len(e.values[id])) && len(e.values[id]) > 0 {
		e.t.Errorf("append to %s got offset %d, want %d", id, info.FirstOffset, len(e.values[id]))
	}
	e.values[id] = append(e.values[id][:min(int(info.FirstOffset), len(e.values[id]))], value)
}

func (e *errorLife) flush() {
	for _, f := range e.d.Flush() {
		e.promise[f.Log.ID()] = int64(f.Flushed)
	}
}

func (e *errorLife) compare(id ID, found map[int64]string) {
	for o, v := range found {
		if o < int64(len(e.values[id])) && e.values[id][o] != v {
			e.t.Errorf("%s at %d holds %q, want %q", id, o, v, e.values[id][o])
		}
	}
}

// judge opens the directory on a disk that works again.
func (e *errorLife) judge(fs vfs.FS) {
	d, report := mustOpen(e.t, e.options(fs), e.now, e.config())
	defer d.Abandon()
	e.failed = nil
	for _, f := range report.Failed {
		// Without room, the marks of a deleted log could not be taken back; metadata
		// does not know it any more.
		if f.ID.TopicID != topicID("b") || e.promise[testID("b", 0)] > 0 {
			e.t.Errorf("%s: %v", f.ID, f.Err)
		}
	}
	e.check(d)
}

// check demands what was promised.
func (e *errorLife) check(d *Dir) {
	for id, promise := range e.promise {
		if promise == 0 {
			continue
		}
		l := d.Log(id.TopicID, id.Partition)
		if l == nil && e.failed[id.String()] {
			continue // an error of this life; the judge opens it without one
		}
		if l == nil || int64(l.LogEnd()) < promise {
			e.t.Errorf("%s is not whole up to %d: %+v", id, promise, l)
			continue
		}
		views, err := readAll(l, int64(l.LogStart()), int64(l.LogEnd()), 1<<20)
		if err != nil && e.failed == nil {
			e.t.Errorf("read %s: %v", id, err)
		}
		if err != nil {
			continue
		}
		found := valuesOf(e.t, views)
		if want := int(promise - int64(l.LogStart())); len(found) < want {
			e.t.Errorf("%s has %d records of %d", id, len(found), want)
		}
		e.compare(id, found)
	}
}

// TestFailedSyncAtStart: each sync of a start fails once, as a disk's does: what it was to
// write reads well and is lost with the next power cut. The next start must not take a
// sync of its own for the proof that it is there.
func TestFailedSyncAtStart(t *testing.T) {
	for _, first := range []bool{true, false} {
		for n := 1; ; n++ {
			failed := false
			t.Run(fmt.Sprintf("first %v, sync %d", first, n), func(t *testing.T) { failed = startWithFailedSync(t, first, n) })
			if failed && !t.Failed() {
				continue
			}
			if n < 4 {
				t.Errorf("a start has %d syncs only", n-1)
			}
			break
		}
	}
}

// startWithFailedSync fails sync n of the first start on a disk, or of one that follows a
// clean stop; false if there are fewer.
func startWithFailedSync(t *testing.T, first bool, n int) (failed bool) {
	crash := vfs.NewCrash(rand.NewPCG(1, 1))
	o := testOptions(nil)
	start := func() *Dir {
		o.FS = crash.Process()
		d, err := OpenDir(o)
		if err != nil {
			return nil
		}
		if _, err := d.OpenLogs(t.Context(), OpenLogsParams{Now: epochTime}); err != nil {
			d.Abandon()
			return nil
		}
		return d
	}
	// Lives end with a kill, so that the next start has a tail to sync.
	live := func() {
		if d := start(); d != nil {
			for len(d.Logs()) == 0 {
				mustCreate(t, d, testID("t", 0), DefaultConfig())
			}
			mustAppend(t, d.Logs()[0], epochTime, 1, "unflushed")
			d.Abandon()
		}
		crash.Kill()
	}
	if !first {
		d := start()
		mustAppend(t, mustCreate(t, d, testID("t", 0), DefaultConfig()), epochTime, 1, "a")
		if err := d.Close(epochTime, 7); err != nil {
			t.Fatal(err)
		}
	}
	left := n
	crash.OnSync(func(p vfs.SyncPoint) error {
		if p.Done || p.Name == "/" { // names above the directory are not ours to write again
			return nil
		}
		if left--; left == 0 {
			failed = true
			return syscall.EIO
		}
		return nil
	})
	live()
	live()
	crash.OnSync(nil)
	d := start()
	if d == nil {
		t.Fatal("no start without a fault")
	}
	for len(d.Logs()) == 0 {
		mustCreate(t, d, testID("t", 0), DefaultConfig())
	}
	id, l := d.DirectoryID(), d.Logs()[0]
	mustAppend(t, l, epochTime, 1, "acknowledged")
	d.Flush()
	end := int64(l.Flushed())
	crash.PowerCutLosingAll()

	if d = start(); d == nil {
		t.Fatal("no start after the power cut")
	}
	defer d.Abandon()
	if d.DirectoryID() != id {
		t.Errorf("directory %v, was %v", d.DirectoryID(), id)
	}
	if len(d.Logs()) != 1 || int64(d.Logs()[0].LogEnd()) != end {
		t.Errorf("%d logs, log end %v; flushed up to %d before", len(d.Logs()), d.Logs()[0].LogEnd(), end)
	}
	return failed
}
