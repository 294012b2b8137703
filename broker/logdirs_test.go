package broker_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/klamm-mq/klamm/broker/brokertest"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
)

// TestReplicaMovesToAnotherDisk as an administrator does it whose disk shows its age: when it
// is gone, nothing is missed.
func TestReplicaMovesToAnotherDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		m := brokertest.NewMachine(t)
		m.FS = mem
		m.Settings = append(m.Settings, "log.dirs=/d1,/d2", "metadata.log.dir=/meta")
		b := m.Start(t)
		createTopic(t, m, "t", 4)
		for i := range 10 {
			toEach(t, m, "t", 4, fmt.Sprint(i))
		}
		moveAll(t, m, "t", "/d2")
		toEach(t, m, "t", 4, "last")
		brokertest.Stop(t, b)

		m.FS = errfs.Wrap(mem, "any dir=/d1 err=EIO")
		m.Start(t)
		got := consume(t, m, "t", 44)
		slices.Sort(got)
		var want []string
		for i := range 10 {
			for range 4 {
				want = append(want, fmt.Sprint(i))
			}
		}
		expect(t, "values", got, append(want, "last", "last", "last", "last"))
	})
}

// moveAll moves the partitions of a topic to a directory, and waits until they are there and
// the controller knows.
func moveAll(t *testing.T, m *brokertest.Machine, topic, dir string) {
	t.Helper()
	admin := kadm.NewClient(newClient(t, m))
	defer admin.Close()
	req := kadm.AlterReplicaLogDirsReq{}
	req.Add(dir, kadm.TopicsSet{topic: {0: {}, 1: {}, 2: {}, 3: {}}})
	answers, err := admin.AlterAllReplicaLogDirs(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	answers.Each(func(r kadm.AlterReplicaLogDirsResponse) {
		if r.Err != nil {
			t.Errorf("move partition %d: %v", r.Partition, r.Err)
		}
	})
	time.Sleep(10 * time.Second)
	described, err := admin.DescribeAllLogDirs(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	described.Each(func(d kadm.DescribedLogDir) {
		d.Topics.Each(func(p kadm.DescribedLogDirPartition) {
			if p.Topic == topic && (p.Dir != dir || p.IsFuture) {
				t.Errorf("partition %d is in %s, future %t", p.Partition, p.Dir, p.IsFuture)
			}
			n++
		})
	})
	if n != 4 {
		t.Errorf("%d logs are described, want 4", n)
	}
}
