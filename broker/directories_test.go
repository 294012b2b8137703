package broker_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/broker/brokertest"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
)

// TestDirectoryThatComesBack: one of two disks cannot be mounted at a start. What is on it
// is out of reach meanwhile, and is served again when the disk is back; nothing is begun
// anew in its place.
func TestDirectoryThatComesBack(t *testing.T) {
	for _, fault := range []string{
		"any dir=/d2 err=EIO", // it cannot be opened
		"readdir /d2 err=EIO", // what it holds is not known
	} {
		t.Run(fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := vfs.NewMem()
				m := brokertest.NewMachine(t)
				m.FS = mem
				m.Settings = append(m.Settings, "log.dirs=/d1,/d2")
				b := m.Start(t)
				createTopic(t, m, "t", 4)
				toEach(t, m, "t", 4, "a")
				brokertest.Stop(t, b)

				m.FS = errfs.Wrap(mem, fault)
				b = m.Start(t)
				createTopic(t, m, "meanwhile", 3)
				toEach(t, m, "meanwhile", 3, "b")
				brokertest.Stop(t, b)

				m.FS = mem
				m.Start(t)
				toEach(t, m, "t", 4, "c")
				got := consume(t, m, "t", 8)
				slices.Sort(got)
				expect(t, "values", got, []string{"a", "a", "a", "a", "c", "c", "c", "c"})
				expect(t, "values of the other", consume(t, m, "meanwhile", 3), []string{"b", "b", "b"})
			})
		})
	}
}

func createTopic(t *testing.T, m *brokertest.Machine, name string, partitions int32) {
	t.Helper()
	admin := kadm.NewClient(newClient(t, m))
	defer admin.Close()
	if _, err := admin.CreateTopic(t.Context(), partitions, 1, nil, name); err != nil {
		t.Fatalf("create %s: %v", name, err)
	}
}

// toEach produces a value to each partition.
func toEach(t *testing.T, m *brokertest.Machine, topic string, partitions int32, value string) {
	t.Helper()
	client := newClient(t, m, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RecordDeliveryTimeout(30*time.Second))
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for p := range partitions {
		r := &kgo.Record{Topic: topic, Partition: p, Value: []byte(value)}
		if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Errorf("produce %s to partition %d of %s: %v", value, p, topic, err)
		}
	}
}
