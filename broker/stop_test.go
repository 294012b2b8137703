package broker_test

import (
	"context"
	"io/fs"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/broker/brokertest"
	"github.com/klamm-mq/klamm/logstore/vfs"
)

// slowDisk is a disk on which each sync takes its time, and a sync of many files or
// directories as long as one: what syncfs does.
type slowDisk struct {
	vfs.FS
	syncs atomic.Int64
}

func (d *slowDisk) sync() {
	d.syncs.Add(1)
	time.Sleep(5 * time.Millisecond)
}

func (d *slowDisk) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := d.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return slowFile{f, d}, nil
}

func (d *slowDisk) OpenSyncer(string) (vfs.Syncer, error) { return slowSyncer{d}, nil }

func (d *slowDisk) SyncDir(string) error {
	d.sync()
	return nil
}

type slowFile struct {
	vfs.File
	disk *slowDisk
}

func (f slowFile) Sync() error {
	f.disk.sync()
	return nil
}

type slowSyncer struct{ disk *slowDisk }

func (s slowSyncer) SyncAll([]vfs.File) error {
	s.disk.sync()
	return nil
}

func (s slowSyncer) SyncDirs([]string) error {
	s.disk.sync()
	return nil
}

func (slowSyncer) Close() error { return nil }

// A stop with 1,000 partitions whose records no sync has seen flushes them all, and is
// done within two seconds; the next start has nothing to recover.
func TestStopOfManyPartitionsIsQuick(t *testing.T) {
	const partitions = 1000
	inBubble(t, func(t *testing.T, m *brokertest.Machine) {
		disk := &slowDisk{FS: m.FS}
		m.FS = disk
		b := m.Start(t, "durability=replicated")
		createTopic(t, m, "t", partitions)
		client := newClient(t, m, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
		produce(t, client, "t", numbered(0, partitions)...)
		client.Close()

		before, begin := disk.syncs.Load(), time.Now()
		brokertest.Stop(t, b)
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("the stop took %v, with %d syncs", took, disk.syncs.Load()-before)
		}
		begin = time.Now()
		m.Start(t, "durability=replicated")
		if took := time.Since(begin); took > time.Second {
			t.Errorf("the start took %v", took)
		}
		if got := len(consume(t, m, "t", partitions)); got != partitions {
			t.Errorf("%d records after the stop", got)
		}
	})
}

// A stop answers what is under way and closes connections; several at once are one.
func TestStopsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, m *brokertest.Machine) {
		b := m.Start(t)
		client := newClient(t, m, kgo.ConsumeTopics("t"), kgo.FetchMaxWait(time.Minute))
		produce(t, client, "t", "x")
		go client.PollFetches(t.Context()) // waits at the broker
		time.Sleep(time.Second)
		ended := make(chan error, 3)
		for range 3 {
			go func() { ended <- b.Stop(t.Context()) }()
		}
		begin := time.Now()
		for range 3 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
		if err := b.Ready(); err == nil {
			t.Error("it is ready after the stop")
		}
	})
}

// A stop whose time is up ends all the same, and loses nothing that was acknowledged.
func TestStopWithoutTime(t *testing.T) {
	inBubble(t, func(t *testing.T, m *brokertest.Machine) {
		b, err := m.TryStart(t)
		if err != nil {
			t.Fatal(err)
		}
		produce(t, newClient(t, m), "t", numbered(0, 10)...)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = b.Stop(ctx)
		m.Start(t)
		expect(t, "values", consume(t, m, "t", 10), numbered(0, 10))
	})
}
