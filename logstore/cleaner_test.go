package logstore

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/klamm-mq/klamm/logstore/compaction"
	"github.com/klamm-mq/klamm/logstore/vfs"
)

// cleaning is a cleaner of logs that have two segments each, of which tests say how dirty the
// first is and what comes of cleaning it.
type cleaning struct {
	*Cleaner
	dir    *Dir
	logs   map[string]*Log
	dirty  map[string]compaction.Dirty
	mu     sync.Mutex // guards dirty and done, where there are several threads
	judged int
	done   []string
	result func(l *Log, p CleanParams) error
}

func newCleaning(t *testing.T, s CleanerSettings, r prometheus.Registerer) *cleaning {
	t.Helper()
	d, _ := mustOpen(t, testOptions(vfs.NewMem()), epochTime, DefaultConfig())
	t.Cleanup(d.Abandon)
	c := &cleaning{dir: d, logs: map[string]*Log{}, dirty: map[string]compaction.Dirty{}, result: func(*Log, CleanParams) error { return nil }}
	c.Cleaner = NewCleaner(CleanerOptions{
		Dirs: []*Dir{d}, Settings: s, Registerer: r,
		Bounds: func(*Log) (CleanBounds, bool) { return CleanBounds{}, true },
	})
	c.work = cleanerWork{
		judge: func(l *Log, _ time.Time, _ CleanBounds) (compaction.Dirty, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.judged++
			return c.dirty[l.id.Topic], nil
		},
		clean: func(l *Log, p CleanParams) (CleanStats, error) {
			if err := c.result(l, p); err != nil {
				return CleanStats{}, err
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.done = append(c.done, l.id.Topic)
			c.dirty[l.id.Topic] = clean
			return CleanStats{End: 1, Kept: compaction.Stats{BytesRead: 100, BytesKept: 40}}, nil
		},
	}
	return c
}

var (
	compacted = func() Config { c := DefaultConfig(); c.Compact = true; return c }()
	clean     = compaction.Dirty{FirstDirty: 1, FirstUncleanable: 1, CleanBytes: 100}
)

// share is a log of which so many hundredths are dirty.
func share(percent int64) compaction.Dirty {
	return compaction.Dirty{FirstUncleanable: 1, CleanBytes: 100 - percent, CleanableBytes: percent}
}

// add makes a log with one ended segment.
func (c *cleaning) add(t *testing.T, topic string, config Config, dirty compaction.Dirty) *Log {
	t.Helper()
	l := mustCreate(t, c.dir, testID(topic, 0), DefaultConfig())
	c.logs[topic], c.dirty[topic] = l, dirty
	mustAppend(t, l, epochTime, 1, "a") // without a key, which a compacted topic refuses
	if err := l.Roll(epochTime); err != nil {
		t.Fatal(err)
	}
	l.UpdateConfig(config)
	return l
}

// valueOf is a gauge of which there is one.
func valueOf(t *testing.T, r *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.Metric[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// cleanAll calls CleanOne until nothing is found, and says what was cleaned.
func (c *cleaning) cleanAll(now time.Time) string {
	c.done = nil
	for {
		if did, _ := c.CleanOne(now); !did {
			return strings.Join(c.done, " ")
		}
	}
}

// TestCleanerChoosesTheFilthiest: overdue logs first, then those above their ratio by share.
func TestCleanerChoosesTheFilthiest(t *testing.T) {
	c := newCleaning(t, CleanerSettings{Backoff: time.Second}, nil)
	late := share(10)
	late.Now, late.DelayMs = true, 5
	c.add(t, "half", compacted, share(50))
	c.add(t, "most", compacted, share(80))
	c.add(t, "b-more", compacted, share(60))
	c.add(t, "a-more", compacted, share(60))
	c.add(t, "late", compacted, late)
	c.add(t, "not-compacted", DefaultConfig(), share(90))
	if did := c.cleanAll(epochTime); did != "late most a-more b-more" {
		t.Errorf("cleaned: %s", did)
	}
	if did, next := c.CleanOne(epochTime); did || next != epochTime.Add(time.Second) {
		t.Errorf("cleaned %v, next %v", did, next)
	}
	eager := compacted
	eager.MinCleanableRatio = 0.4
	c.logs["half"].UpdateConfig(eager)
	if did := c.cleanAll(epochTime); did != "half" {
		t.Errorf("cleaned with a lower ratio: %s", did)
	}
}

// TestUncleanableLogIsLeftAlone: others are cleaned all the same, and a metric counts it until
// it is gone.
func TestUncleanableLogIsLeftAlone(t *testing.T) {
	r := prometheus.NewRegistry()
	c := newCleaning(t, CleanerSettings{Backoff: time.Second}, r)
	bad := c.add(t, "bad", compacted, share(90))
	c.add(t, "good", compacted, share(80))
	tries := 0
	c.result = func(l *Log, _ CleanParams) error {
		if l == bad {
			tries++
			return errors.New("no luck")
		}
		return nil
	}
	for i := range 3 {
		c.cleanAll(epochTime.Add(time.Duration(i) * time.Hour))
	}
	expect := func(n float64) {
		t.Helper()
		if got := valueOf(t, r, "kafka_log_logcleanermanager_uncleanable_partitions_count"); got != n {
			t.Errorf("%v logs are uncleanable, want %v", got, n)
		}
	}
	if tries != 1 || c.dirty["good"] != clean {
		t.Errorf("%d tries; good: %+v", tries, c.dirty["good"])
	}
	expect(1)
	if err := c.dir.DeleteLogs(epochTime, bad); err != nil {
		t.Fatal(err)
	}
	c.CleanOne(epochTime.Add(4 * time.Hour))
	expect(0)
}

// TestLogWithoutRoomIsCleanedLater, and not counted as uncleanable.
func TestLogWithoutRoomIsCleanedLater(t *testing.T) {
	for _, err := range []error{ErrDirFull, syscall.EMFILE} {
		c := newCleaning(t, CleanerSettings{Backoff: time.Second}, nil)
		c.add(t, "t", compacted, share(90))
		refused := err
		c.result = func(*Log, CleanParams) error { return refused }
		c.CleanOne(epochTime)
		refused = nil
		if did := c.cleanAll(epochTime.Add(cleanRetryPause - time.Second)); did != "" {
			t.Errorf("%v: cleaned at once", err)
		}
		if did := c.cleanAll(epochTime.Add(cleanRetryPause)); did != "t" {
			t.Errorf("%v: not cleaned later", err)
		}
	}
}

// TestOvertakenCleaningIsNotRepeatedAtOnce: what has overtaken it may go on.
func TestOvertakenCleaningIsNotRepeatedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCleaning(t, CleanerSettings{Backoff: time.Second}, nil)
		c.add(t, "t", compacted, share(90))
		begin, tries := time.Now(), 0
		c.result = func(*Log, CleanParams) error {
			if tries++; time.Since(begin) < 10*time.Second {
				return ErrOvertaken
			}
			return nil
		}
		c.Start()
		time.Sleep(time.Minute)
		c.Stop()
		if tries < 2 || tries > 12 {
			t.Errorf("%d tries", tries)
		}
		if c.dirty["t"] != clean {
			t.Errorf("still %+v", c.dirty["t"])
		}
	})
}

// TestDeletedLogsAreNotKeptToBeCleaned, also where nobody cleans (log.cleaner.enable=false).
func TestDeletedLogsAreNotKeptToBeCleaned(t *testing.T) {
	c := DefaultConfig()
	c.Compact = true
	d, _ := mustOpen(t, testOptions(vfs.NewMem()), epochTime, c)
	defer d.Abandon()
	for i := range 500 {
		l := mustCreate(t, d, testID(fmt.Sprint("t", i), 0), c)
		appendKeyed(t, l, epochTime, kv{"key", "value"})
		d.Flush()
		if err := l.Roll(epochTime); err != nil {
			t.Fatal(err)
		}
		if err := d.DeleteLogs(epochTime, l); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(d.uncleaned); n == 0 || n > 100 {
		t.Errorf("%d deleted logs are kept", n)
	}
}

// TestThreadsShareTheLogs: each is cleaned once, as many at a time as there are threads, also
// when their number changes.
func TestThreadsShareTheLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCleaning(t, CleanerSettings{Threads: 2, Backoff: time.Second}, nil)
		for i := range 9 {
			c.add(t, fmt.Sprintf("t%d", i), compacted, share(90))
		}
		go_ := make(chan struct{})
		busy := make(chan string, 9)
		c.result = func(l *Log, _ CleanParams) error {
			busy <- l.id.Topic
			<-go_
			return nil
		}
		c.Start()
		expect := func(n int) {
			t.Helper()
			synctest.Wait()
			if len(busy) != n {
				t.Errorf("%d logs have been taken, want %d", len(busy), n)
			}
		}
		expect(2)
		c.SetSettings(CleanerSettings{Threads: 4, Backoff: time.Second})
		expect(4)
		c.SetSettings(CleanerSettings{Threads: 1, Backoff: time.Second})
		go_ <- struct{}{}
		expect(4)
		go_ <- struct{}{}
		go_ <- struct{}{}
		expect(4)
		go_ <- struct{}{}
		expect(5)
		close(go_)
		expect(9)
		c.Stop()
	})
}

// TestSettingsDoNotWaitForADisk that hangs while a log is looked at: who brings them also brings the
// rest of what a broker is told.
func TestSettingsDoNotWaitForADisk(t *testing.T) {
	c := newCleaning(t, CleanerSettings{Threads: 1, Backoff: time.Second}, nil)
	c.add(t, "t", compacted, share(90))
	looking, hangs := make(chan struct{}, 100), make(chan struct{})
	c.work.judge = func(*Log, time.Time, CleanBounds) (compaction.Dirty, error) {
		looking <- struct{}{}
		<-hangs
		return clean, nil
	}
	c.Start()
	<-looking
	c.SetSettings(CleanerSettings{Threads: 2, Backoff: time.Hour}) // if it waits, it does for ever
	close(hangs)
	c.Stop()
}

// TestStopEndsACleaning that waits for its pace.
func TestStopEndsACleaning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCleaning(t, CleanerSettings{MaxBytesPerSecond: 1, Backoff: time.Second}, nil)
		c.add(t, "t", compacted, share(90))
		var ended error
		c.result = func(_ *Log, p CleanParams) error {
			ended = p.Pace(1 << 30)
			return ended
		}
		c.Start()
		time.Sleep(time.Hour)
		c.Stop()
		if ended == nil || len(c.uncleanable) > 0 {
			t.Errorf("ended with %v; uncleanable: %d", ended, len(c.uncleanable))
		}
	})
}

// TestCleanerPace: all that is read and written takes as long as the limit says, and another
// limit counts at once.
func TestCleanerPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCleaning(t, CleanerSettings{MaxBytesPerSecond: 1 << 20, Backoff: time.Second}, nil)
		began := time.Now()
		pass := func(bytes int) {
			if err := c.pace.pass(c.ctx, bytes); err != nil {
				t.Fatal(err)
			}
		}
		for range 100 {
			pass(1 << 20)
		}
		if took := time.Since(began).Round(time.Millisecond); took != 100*time.Second {
			t.Errorf("100 MiB took %v at 1 MiB a second", took)
		}
		began = time.Now()
		go func() {
			time.Sleep(10 * time.Second)
			c.SetSettings(CleanerSettings{MaxBytesPerSecond: -1})
		}()
		pass(1 << 30)
		if took := time.Since(began); took < 10*time.Second || took > 10*time.Second+maxCleanerWait {
			t.Errorf("took %v although the limit is gone after 10 s", took)
		}
		c.Stop()
	})
}

// TestIdleCleanerBudget: ten thousand logs of which none is compacted, or has more than one
// segment, or is dirty, are not looked at, and cost no allocation.
func TestIdleCleanerBudget(t *testing.T) {
	const logs = 10_000
	c := newCleaning(t, CleanerSettings{Backoff: time.Second}, nil)
	for i := range logs {
		config := compacted
		config.Compact = i%2 == 0
		if topic := fmt.Sprintf("t%d", i); i < 10 {
			c.add(t, topic, config, clean)
		} else {
			mustCreate(t, c.dir, testID(topic, 0), config)
		}
	}
	now := epochTime
	c.CleanOne(now)
	if c.judged != 5 {
		t.Errorf("%d logs were looked at once, want the 5 with an ended segment", c.judged)
	}
	c.judged = 0
	allocations := testing.AllocsPerRun(100, func() {
		now = now.Add(time.Second)
		c.CleanOne(now)
	})
	if c.judged > 0 || allocations > 0 {
		t.Errorf("a look at nothing new: %d logs judged, %v allocations", c.judged, allocations)
	}
}
