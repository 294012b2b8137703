package logstore

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// errorRow is one thing that is done while one call fails.
type errorRow struct {
	do   string
	rule string // with EIO
	want string // offline: the directory; failed: the log alone; on: neither
}

// diskErrors are the places where a disk's error is met. Whatever should have changed the disk,
// and has not, takes the directory offline, as Kafka's KafkaStorageException does: nobody knows
// what is on it. What cannot be read fails its log (docs/divergence.md, unreadable-file).
var diskErrors = []errorRow{
	{"append", "write *.log", "offline"},
	{"append", "write *.log partial=5", "offline"},
	{"append after a clean stop", "open *.log", "failed"}, // it is read first
	{"append ahead", "write *.log nth=1", "on"},           // of the zeros; the append does without
	{"append ahead", "write *.log from=1", "offline"},
	{"birth", "mkdir *", "offline"},
	{"birth", "write partition.metadata", "offline"},
	{"birth", "open *.log", "offline"},
	{"birth", "open *.timeindex", "offline"},
	{"roll", "open 00000000000000000003.log", "offline"},
	{"roll", "write *.index", "offline"},
	{"roll", "write *.snapshot", "offline"},
	{"flush", "sync *.log", "offline"},
	{"flush of a new log", "sync partition.metadata", "offline"},
	{"flush of a new log", "syncdir /data/t-0", "offline"},
	{"flush of a new log", "syncdir /data", "offline"},
	{"promises", "write flushed-offset-checkpoint.tmp", "offline"},
	{"promises", "sync flushed-offset-checkpoint.tmp", "offline"},
	{"promises", "rename flushed-offset-checkpoint", "offline"},
	{"promises", "syncdir /data", "offline"},
	{"log starts", "write log-start-offset-checkpoint.tmp", "offline"},
	{"segments", "write segment-checkpoint.tmp", "offline"},
	{"recovery point", "write *.snapshot", "offline"},
	{"recovery point", "sync *.snapshot", "offline"},
	{"recovery point", "write *.index", "offline"},
	{"recovery point", "sync *.index", "offline"},
	{"recovery point", "write leader-epoch-checkpoint.tmp", "offline"},
	{"recovery point", "rename leader-epoch-checkpoint", "offline"},
	{"recovery point", "syncdir /data/t-0", "offline"},
	{"later recovery point", "remove *.snapshot", "offline"},
	{"truncate", "write flushed-offset-checkpoint.tmp", "offline"},
	{"truncate", "truncate *.log", "offline"},
	{"truncate", "remove *.log", "offline"},
	{"truncate", "sync *.log", "offline"},
	{"truncate", "syncdir /data/t-0", "offline"},
	{"truncate", "read *.log", "failed"},
	{"start afresh", "remove *.log", "offline"},
	{"start afresh", "open *.log", "offline"},
	{"start afresh", "sync partition.metadata", "offline"},
	{"retain", "syncdir /data/t-0", "offline"},
	{"retain", "remove *.log", "offline"},
	{"retain", "remove *.timeindex", "offline"},
	{"set aside", "rename /data/t-0", "offline"},
	{"set aside", "syncdir /data", "offline"},
	{"delete", "rename /data/t-0", "offline"},
	{"delete", "write flushed-offset-checkpoint.tmp", "offline"},
	{"remove what was deleted", "removeall *", "offline"},
	{"read", "read *.log", "failed"},
	{"read", "open *.log", "failed"},
	{"look up a time", "read *.timeindex", "failed"},
	{"space", "space /data", "on"},
	{"clean", "open *.log.cleaned", "offline"},
	{"clean", "write *.log.cleaned", "offline"},
	{"clean", "write *.log.cleaned partial=5", "offline"},
	{"clean", "sync *.log.cleaned", "offline"},
	{"clean", "truncate *.txnindex.cleaned", "offline"},
	{"clean", "sync *.txnindex.cleaned", "offline"},
	{"clean", "settime *.log.cleaned", "on"},
	{"clean", "rename *.index.swap", "offline"},
	{"clean", "rename *.log.cleaned", "offline"},
	{"clean", "syncdir /data/t-0 nth=1", "offline"},
	{"clean", "syncdir /data/t-0 nth=2", "offline"},
	{"clean", "syncdir /data/t-0 nth=3", "offline"},
	{"clean", "syncdir /data/t-0 nth=4", "offline"},
	{"clean", "remove *.log", "offline"},
	{"clean", "rename 00000000000000000000.index", "offline"},
	{"clean", "rename 00000000000000000000.log", "offline"},
	{"clean", "write cleaner-offset-checkpoint.tmp", "offline"},
	{"clean", "sync cleaner-offset-checkpoint.tmp", "offline"},
	{"clean", "read *.log", "failed"},
	{"clean", "open *.log", "failed"},
}

// TestDiskErrors lets each of them come to pass.
func TestDiskErrors(t *testing.T) {
	for _, row := range diskErrors {
		t.Run(row.do+"/"+row.rule, func(t *testing.T) {
			e := newErrorBench(t, row.do)
			e.faulty.Add(row.rule + " err=EIO")
			err := e.do[row.do]()
			if e.faulty.Fired() == 0 {
				t.Fatal("the rule is not met")
			}
			got := "on"
			switch {
			case e.d.Err() != nil:
				got = "offline"
			case e.l.Failure() != nil:
				got = "failed"
			}
			if got != row.want {
				t.Errorf("%s, want %s: %v", got, row.want, err)
			}
			if err != nil && !errors.Is(err, kafkaerr.KafkaStorageError) {
				t.Errorf("clients are told of another kind: %v", err)
			}
			e.faulty.Clear()
			_, err = e.send()
			if works := err == nil; works != (row.want == "on") && row.do != "set aside" {
				t.Errorf("an append afterwards: %v", err)
			}
		})
	}
}

// TestWhatIsNotRemovedIsRemovedLater: it is in use, on a network file system say, or no
// descriptor is left.
func TestWhatIsNotRemovedIsRemovedLater(t *testing.T) {
	for _, kind := range []string{"EMFILE", "EEXIST"} {
		e := newErrorBench(t, "delete")
		k := NewKeeper(e.d, KeeperOptions{})
		if err := e.d.DeleteLogs(epochTime, e.l); err != nil {
			t.Fatal(err)
		}
		e.faulty.Add("removeall * nth=1 err=" + kind)
		now := epochTime
		for k.Tick(now); e.faulty.Fired() == 0; k.Tick(now) {
			now = now.Add(time.Second)
		}
		if e.d.Err() != nil || len(e.d.retired) != 1 {
			t.Errorf("%s: %v, %d directories wait", kind, e.d.Err(), len(e.d.retired))
		}
		for range 2 * int(removeRetry/time.Second) {
			now = now.Add(time.Second)
			k.Tick(now)
		}
		if n := len(e.d.retired); n > 0 {
			t.Errorf("%s: %d directories stay", kind, n)
		}
	}
}

// errorBench is a log of four segments on a disk that can fail.
type errorBench struct {
	t        *testing.T
	faulty   *errfs.FS
	d        *Dir
	l        *Log
	sequence int
	do       map[string]func() error
}

func newErrorBench(t *testing.T, do string) *errorBench {
	e := &errorBench{t: t, faulty: errfs.Wrap(vfs.NewMem())}
	c := threeInASegment()
	c.RetentionBytes, c.IndexIntervalBytes = 400, 1
	if do == "append ahead" {
		c.WriteAheadBytes, c.HotBytes, c.SegmentBytes = 4096, 1, 1<<20
	}
	e.d, _ = mustOpen(t, testOptions(e.faulty), epochTime, c)
	t.Cleanup(func() { e.d.Abandon() })
	e.l = mustCreate(t, e.d, testID("t", 0), c)
	e.do = e.things()
	switch do {
	case "birth", "append ahead":
		return e
	case "flush of a new log":
		_, err := e.send()
		e.must(err)
		return e
	case "roll":
		e.mustSend(3)
		return e
	}
	if do == "clean" { // one that stays; what has no key goes
		appendKeyed(t, e.l, epochTime, kv{"key", "value"})
	}
	for range 11 {
		e.mustSend(1)
		e.d.Flush()
	}
	switch do {
	case "later recovery point":
		for range 3 {
			e.must(e.moveRecoveryPoint())
			e.mustSend(1)
		}
	case "truncate", "delete":
		e.must(e.d.checkpointPromises())
	case "clean":
		e.must(e.moveRecoveryPoint())
		e.must(e.d.Close(epochTime, 1))
		e.d, _ = mustOpen(t, testOptions(e.faulty), epochTime, c)
		e.l = mustLog(t, e.d)
		c.SegmentBytes, c.SegmentIndexBytes = 3*c.SegmentBytes, 1<<20
		e.l.UpdateConfig(c)
	case "remove what was deleted":
		e.must(e.d.DeleteLogs(epochTime, e.l))
	case "append after a clean stop", "read", "look up a time":
		e.must(e.d.Close(epochTime, 1))
		var report OpenReport
		e.d, report = mustOpen(t, testOptions(e.faulty), epochTime, c)
		e.l = report.Opened[0]
	}
	return e
}

func (e *errorBench) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

func (e *errorBench) mustSend(n int) {
	e.t.Helper()
	for range n {
		_, err := e.send()
		e.must(err)
		if e.l.isNameless() {
			e.d.Flush()
		}
	}
}

func (e *errorBench) send() (AppendInfo, error) {
	e.sequence++
	return e.l.AppendAsLeader(AppendParams{
		Now: epochTime, Records: produced(epochTime, fmt.Sprint("value ", e.sequence)), LeaderEpoch: 1, RequestVersion: 12,
	})
}

func (e *errorBench) things() map[string]func() error {
	send := func() error { _, err := e.send(); return err }
	later := epochTime.Add(time.Hour)
	return map[string]func() error{
		"append": send, "append ahead": send, "append after a clean stop": send, "birth": send,
		"roll": func() error { return e.l.Roll(epochTime) },
		"flush": func() error {
			e.mustSend(1)
			e.d.Flush()
			return e.d.Err()
		},
		"flush of a new log": func() error { e.d.Flush(); return e.d.Err() },
		"promises":           func() error { return e.d.checkpointPromises() },
		"log starts": func() error {
			if err := e.l.AdvanceLogStart(4); err != nil {
				return err
			}
			return e.d.PersistLogStarts(e.l)
		},
		"segments":             func() error { return e.d.checkpointSegments(false) },
		"recovery point":       e.moveRecoveryPoint,
		"later recovery point": e.moveRecoveryPoint,
		"truncate":             func() error { return e.l.TruncateTo(4) },
		"start afresh":         func() error { return e.l.TruncateFullyAndStartAt(40) },
		"retain":               func() error { _, err := e.l.Retain(epochTime, 11); return err },
		"set aside":            func() error { return e.d.SetAside(epochTime, e.l) },
		"delete":               func() error { return e.d.DeleteLogs(epochTime, e.l) },
		"remove what was deleted": func() error {
			e.d.removeRetired(later)
			return e.d.Err()
		},
		"read":           func() error { _, err := readAll(e.l, 0, 11, 1<<20); return err },
		"look up a time": func() error { _, _, err := e.l.OffsetForTimestamp(epochTime.UnixMilli()); return err },
		"space":          func() error { e.d.checkSpace(); return e.d.Err() },
		"clean":          func() error { return e.clean(later) },
	}
}

func (e *errorBench) moveRecoveryPoint() error {
	if err := e.d.captureRecoveryPoints(epochTime, []*Log{e.l}); err != nil {
		return err
	}
	e.d.Flush()
	e.l.settleRecoveryPoint()
	if err := e.d.Err(); err != nil {
		return err
	}
	return e.d.checkpointPromises()
}

// clean cleans the log, which is compacted for that long: nothing else here has keys.
func (e *errorBench) clean(now time.Time) error {
	c := e.l.Config()
	compact := c
	compact.Compact = true
	e.l.UpdateConfig(compact)
	defer e.l.UpdateConfig(c)
	_, err := cleanNow(e.l, now)
	return err
}
