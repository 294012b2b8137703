package broker_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/broker/brokertest"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// TestStopBesideAHungDisk: calls on the disk neither succeed nor fail. Requests, a group's
// coordinator, flushes and the metadata log wait for it; a stop leaves them behind. What was
// acknowledged is there when the disk is.
func TestStopBesideAHungDisk(t *testing.T) {
	for name, hangs := range map[string]func(c *hookfs.Call) bool{
		"syncs":             isSync,
		"syncs of metadata": func(c *hookfs.Call) bool { return isSync(c) && strings.Contains(c.Name, "klamm-metadata") },
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { stopBesideAHungDisk(t, hangs) }) })
	}
}

func isSync(c *hookfs.Call) bool {
	return c.Op == hookfs.Sync || c.Op == hookfs.SyncDir || c.Op == hookfs.SyncAll
}

func stopBesideAHungDisk(t *testing.T, hangs func(c *hookfs.Call) bool) {
	var hung atomic.Bool
	healed := make(chan struct{})
	m := brokertest.NewMachine(t)
	m.FS = hookfs.Wrap(vfs.NewMem(), false, func(c *hookfs.Call) error {
		if hung.Load() && hangs(c) {
			<-healed
		}
		return nil
	})
	b, err := m.TryStart(t)
	if err != nil {
		t.Fatal(err)
	}
	createTopic(t, m, "t", 1)
	client := newClient(t, m)
	admin := kadm.NewClient(client)
	produce(t, client, "t", numbered(0, 10)...)
	commit := func(ctx context.Context, at int64) error {
		var offsets kadm.Offsets
		offsets.AddOffset("t", 0, at, -1)
		_, err := admin.CommitOffsets(ctx, "g", offsets)
		return err
	}
	if err := commit(t.Context(), 1); err != nil {
		t.Fatal(err)
	}

	hung.Store(true)
	client.Produce(t.Context(), &kgo.Record{Topic: "t", Value: []byte("hangs")}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	_ = commit(ctx, 2)
	_, _ = admin.CreateTopic(ctx, 1, 1, nil, "hangs")
	cancel()

	began := time.Now()
	stopped := make(chan error)
	go func() { stopped <- b.Stop(t.Context()) }()
	select {
	case err = <-stopped:
	case <-time.After(time.Hour):
		t.Error("the stop does not end")
	}
	if took := time.Since(began); took > 45*time.Second {
		t.Errorf("the stop takes %s", took)
	}
	if !errors.Is(err, kafkaerr.KafkaStorageError) {
		t.Errorf("stop: %v", err)
	}
	close(healed)
	client.Close()
	synctest.Wait()
	hung.Store(false)
	m.Start(t)
	expect(t, "values", consume(t, m, "t", 10)[:10], numbered(0, 10))
}
