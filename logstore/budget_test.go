package logstore

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/countfs"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// TestIdlePartitionBudget: a partition that nobody uses costs at most 4 KiB of heap and
// no goroutine, be it fresh, opened after a crash, or opened after a clean stop.
func TestIdlePartitionBudget(t *testing.T) {
	const partitions, budget = 500, 4 << 10
	fs := vfs.NewMem()
	c := DefaultConfig()
	d, _ := mustOpen(t, testOptions(fs), epochTime, c)
	for p := range partitions {
		l := mustCreate(t, d, testID(fmt.Sprintf("topic-with-a-usual-name-%d", p/10), int32(p%10)), c)
		mustAppend(t, l, epochTime, 1, "value")
	}
	d.Flush()
	if err := d.Close(epochTime, 1); err != nil {
		t.Fatal(err)
	}
	for _, clean := range []bool{true, false} {
		goroutines := runtime.NumGoroutine()
		before := heap()
		d, _ := mustOpen(t, testOptions(fs), epochTime, c)
		each := (heap() - before) / partitions
		if n := runtime.NumGoroutine(); n > goroutines {
			t.Errorf("%d goroutines for %d idle partitions", n-goroutines, partitions)
		}
		t.Logf("opened after a clean stop: %v, %d bytes per idle partition", clean, each)
		if _, was := d.PreviousBrokerEpoch(); was != clean || each > budget {
			t.Errorf("%d bytes per idle partition, budget %d; clean stop: %v", each, budget, was)
		}
		runtime.KeepAlive(d)
		d.Abandon() // without a marker: the next start is after a crash
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestAppendBudget: a steady append is one write and a fixed number of allocations, and
// nothing else; the round that flushes it is one sync. Reading at the tail touches no
// index and no header: its bytes go from the file to the socket.
func TestAppendBudget(t *testing.T) {
	count := countfs.Wrap(vfs.NewMem())
	c := DefaultConfig()
	d, _ := mustOpen(t, testOptions(count), epochTime, c)
	defer d.Abandon()
	l := mustCreate(t, d, testID("t", 0), c)
	records := produced(epochTime, "one", "two", "three")
	appendOne := func() {
		batch.View(records).SetBaseOffset(0)
		if _, err := l.AppendAsLeader(AppendParams{Now: epochTime, Records: records, LeaderEpoch: 1, RequestVersion: 12}); err != nil {
			t.Fatal(err)
		}
	}
	readTail := func() {
		info, err := l.Read(ReadParams{Offset: int64(l.Flushed()) - 3, MaxBytes: 1 << 20, UpTo: int64(l.Flushed())})
		if err != nil || info.Region == nil {
			t.Fatal(info, err)
		}
		info.Region.Release()
	}
	appendOne()
	d.Flush()
	for _, step := range []struct {
		name, calls string
		do          func()
	}{
		{"append", "write=1/93B", appendOne},
		{"round", "sync=1 syncall=1", func() { d.Flush() }},
		{"read at the tail", "", readTail},
	} {
		count.Reset()
		step.do()
		if got := count.String(); got != step.calls {
			t.Errorf("%s calls the file system %q, want %q", step.name, got, step.calls)
		}
	}
	if n := testing.AllocsPerRun(100, appendOne); n > 1 {
		t.Errorf("%v allocations per append", n)
	}
	if n := testing.AllocsPerRun(100, func() { appendOne(); d.Flush() }); n > 6 {
		t.Errorf("%v allocations per append and round", n)
	}
	if n := testing.AllocsPerRun(100, readTail); n > 1 {
		t.Errorf("%v allocations per read", n)
	}
}
