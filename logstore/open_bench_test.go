package logstore

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

var (
	openPartitions = flag.Int("open.partitions", 100, "partitions of BenchmarkOpen")
	openBytes      = flag.Int("open.bytes", 100<<10, "bytes per partition of BenchmarkOpen")
	openTail       = flag.Int("open.tail", 4<<10, "of these, bytes above the recovery point")
)

// BenchmarkOpen opens a directory on the operating system's file system, after a kill
// and after a clean stop. The figures of the design are for 2,000 partitions of 2.5 MB:
//
//	go test -run - -bench Open -open.partitions 2000 -open.bytes 2621440
func BenchmarkOpen(b *testing.B) {
	o := testOptions(vfs.OS())
	o.Path = b.TempDir()
	c := DefaultConfig()
	d, _ := mustOpen(b, o, epochTime, c)
	now := epochTime
	fill(b, d, now, *openBytes-*openTail)
	k := NewKeeper(d, KeeperOptions{})
	for range 700 { // the slowest recovery point moves after 5 minutes
		k.Tick(now)
		d.Flush()
		now = now.Add(time.Second)
	}
	fill(b, d, now, *openTail)
	d.Flush()
	k.promises(now)
	d.Abandon()
	b.Run("AfterKill", func(b *testing.B) {
		for range b.N {
			d, err := OpenDir(o)
			if err != nil {
				b.Fatal(err)
			}
			report, err := d.OpenLogs(context.Background(), OpenLogsParams{Now: now, Threads: runtime.NumCPU()})
			if err != nil || len(report.Opened) != *openPartitions {
				b.Fatal(len(report.Opened), err)
			}
			d.Abandon()
		}
	})
	b.Run("AfterCleanStop", func(b *testing.B) {
		for range b.N {
			b.StopTimer()
			d, _ := mustOpen(b, o, now, c)
			begin := time.Now()
			if err := d.Close(now, 1); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(time.Since(begin).Milliseconds()), "close-ms")
			b.StartTimer()
			d, _ = mustOpen(b, o, now, c)
			d.Abandon()
		}
	})
}

// BenchmarkClose stops after each partition got a batch: the figure of the design is 2 s
// for 1,000 partitions.
//
//	go test -run - -bench Close -open.partitions 1000
func BenchmarkClose(b *testing.B) {
	o := testOptions(vfs.OS())
	o.Path = b.TempDir()
	began := time.Now()
	d, _ := mustOpen(b, o, epochTime, DefaultConfig())
	fill(b, d, epochTime, 1000)
	b.Logf("create: %v", time.Since(began))
	for range b.N {
		b.StopTimer()
		fill(b, d, epochTime, 1000)
		b.StartTimer()
		if err := d.Close(epochTime, 1); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		d, _ = mustOpen(b, o, epochTime, DefaultConfig())
		b.StartTimer()
	}
	d.Abandon()
}

// fill creates the partitions or appends to them.
func fill(b *testing.B, d *Dir, now time.Time, bytes int) {
	value := strings.Repeat("x", min(bytes, 16<<10)-100)
	for p := range *openPartitions {
		id := testID(fmt.Sprintf("topic-%d", p/10), int32(p%10))
		l := d.Log(id.TopicID, id.Partition)
		if l == nil {
			l = mustCreate(b, d, id, DefaultConfig())
		}
		for n := 0; n+len(value) <= bytes; n += len(value) + 100 {
			mustAppend(b, l, now, 1, value)
		}
		if p%100 == 0 {
			d.Flush()
		}
	}
}
