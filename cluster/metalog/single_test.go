package metalog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// alone are the options of a cluster of one on a disk in memory.
func alone(t *testing.T, fsys vfs.FS) Options {
	return Options{
		NodeID: 1, DirectoryID: uuid.UUID{15: 1}, Dir: "/metadata", FS: fsys, Stores: FileStores,
		BootstrapSelf: true, Bootstrap: []metadata.Record{bootstrapRecord()},
		Reserve: smallReserve(), Logger: testLogger(t, "alone"),
	}
}

// lead opens a log that must become leader, and passes the barrier.
func lead(t *testing.T, o Options) (*Log, Term) {
	t.Helper()
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return l, mustLead(t, l)
}

func mustLead(t *testing.T, l *Log) Term {
	t.Helper()
	now := <-l.Leadership()
	if !now.Leader {
		t.Fatalf("leadership is %+v", now)
	}
	if _, err := l.Barrier(context.Background(), now.Term); err != nil {
		t.Fatal(err)
	}
	return now.Term
}

func mustClose(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func create(l *Log, term Term, name string) error {
	_, err := l.Propose(context.Background(), term, newTopic(name))
	return err
}

// D8: a node without quorum keys is a cluster at once, without any timeout passing.
func TestClusterOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		disk := vfs.NewMem()
		o := alone(t, disk)
		l, term := lead(t, o)
		if err := create(l, term, "a"); err != nil {
			t.Fatal(err)
		}
		if id := l.Image().ClusterID(); id != "test" {
			t.Errorf("cluster %q", id)
		}
		if address, id, ok := l.Leader(); address != "node-1" || id != 1 || !ok {
			t.Errorf("leader %s %d %v", address, id, ok)
		}
		if l.Empty() {
			t.Error("a cluster of one says that it is empty")
		}
		mustClose(t, l)
		if err := create(l, term, "b"); !errors.Is(err, kafkaerr.NotController) || !errors.Is(err, ErrClosed) {
			t.Errorf("proposal after Close: %v", err)
		}
		if _, err := l.Barrier(context.Background(), term); !errors.Is(err, kafkaerr.NotController) {
			t.Errorf("barrier after Close: %v", err)
		}
		if err := l.WaitPublished(context.Background(), metadata.Position{Index: 1000}); !errors.Is(err, ErrClosed) {
			t.Errorf("wait after Close: %v", err)
		}
		mustClose(t, l)

		l, again := lead(t, o)
		if l.Image().Topic("a") == nil || l.Image().NumTopics() != 1 || again <= term {
			t.Errorf("after a restart: %v, term %d after %d", topics(l.Image()), again, term)
		}
		mustClose(t, l)
		if took := time.Since(start); took > 20*time.Millisecond {
			t.Errorf("two lives took %v of virtual time", took)
		}
	})
}

// D25: an entry has a largest size; a transaction carries what is larger.
func TestLargeDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, term := lead(t, alone(t, vfs.NewMem()))
		defer mustClose(t, l)
		ctx := context.Background()
		value := strings.Repeat("x", MaxEntryBytes-100)
		setting := func(key string) []metadata.Record {
			return []metadata.Record{metadata.ConfigRecord{
				Resource: metadata.Resource{Type: metadata.TopicResource, Name: "t"}, Key: key, Value: &value,
			}}
		}
		large := append(setting("a"), setting("b")...)
		if _, err := l.Propose(ctx, term, large); !errors.Is(err, ErrTooLarge) {
			t.Fatalf("entry of twice the size: %v", err)
		}
		var last *Proposal
		for _, records := range [][]metadata.Record{
			{metadata.BeginTransactionRecord{}}, setting("a"), setting("b"), {metadata.EndTransactionRecord{}},
		} {
			p, err := l.Start(ctx, term, records)
			if err != nil {
				t.Fatal(err)
			}
			last = p
		}
		if _, err := last.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		if n := len(l.Image().Config(metadata.Resource{Type: metadata.TopicResource, Name: "t"})); n != 2 {
			t.Errorf("%d settings", n)
		}
	})
}

// A proposal in the middle of a transaction is refused before it is sent. The barrier that
// its author then asks for ends the transaction, although every outcome is known.
func TestBarrierEndsATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, term := lead(t, alone(t, vfs.NewMem()))
		defer mustClose(t, l)
		ctx := context.Background()
		if _, err := l.Propose(ctx, term, append([]metadata.Record{metadata.BeginTransactionRecord{}}, newTopic("a")...)); err != nil {
			t.Fatal(err)
		}
		value := strings.Repeat("x", MaxEntryBytes)
		large := metadata.ConfigRecord{Resource: metadata.Resource{Type: metadata.TopicResource, Name: "t"}, Key: "k", Value: &value}
		if _, err := l.Propose(ctx, term, []metadata.Record{large}); !errors.Is(err, ErrTooLarge) {
			t.Fatal(err)
		}
		if _, err := l.Barrier(ctx, term); err != nil {
			t.Fatal(err)
		}
		if err := create(l, term, "b"); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(topics(l.Image()), " "); got != "b" {
			t.Errorf("topics %s", got)
		}
	})
}

// Every acknowledged proposal survives a power cut at any sync point, several times over.
func TestAcknowledgedProposalsSurvivePowerCuts(t *testing.T) {
	for seed := range powerCutSeeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { powerCuts(t, seed) })
		})
	}
}

func powerCuts(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	disk := vfs.NewCrash(rand.NewPCG(seed, 2))
	acked := map[string]bool{}
	for life := range 5 {
		var left atomic.Int64
		left.Store(1 + r.Int64N(120))
		end := []func(){disk.Kill, disk.PowerCut, disk.PowerCutLosingAll}[r.IntN(3)]
		disk.OnSync(func(p vfs.SyncPoint) error {
			if left.Add(-1) == 0 {
				end()
			}
			return nil
		})
		proposeUntilCrash(t, disk.Process(), fmt.Sprint(life), acked)
		disk.OnSync(nil)

		l, _ := lead(t, tuned(alone(t, disk.Process())))
		for name := range acked {
			if l.Image().Topic(name) == nil {
				t.Fatalf("topic %s was acknowledged and is gone", name)
			}
		}
		if r.IntN(2) == 0 {
			disk.PowerCutLosingAll() // what it took over from a killed process is safe, too
			_ = l.Close()
		} else {
			mustClose(t, l)
		}
	}
	t.Logf("%d proposals were acknowledged", len(acked))
}

// tuned takes snapshots often.
func tuned(o Options) Options {
	o.tune = func(c *raft.Config) {
		c.TrailingLogs, c.SnapshotThreshold, c.SnapshotInterval = 4, 8, 5*time.Millisecond
	}
	return o
}

func proposeUntilCrash(t *testing.T, fsys vfs.FS, life string, acked map[string]bool) {
	died := make(chan struct{})
	o := tuned(alone(t, fsys))
	o.Fatal = func(error) { close(died) }
	l, err := Open(o)
	if err != nil {
		if !errors.Is(err, vfs.ErrCrashed) {
			t.Fatal(err)
		}
		return
	}
	defer func() { _ = l.Close() }() // of a dead process
	var now Leadership
	select {
	case now = <-l.Leadership():
	case <-died:
		return
	}
	if _, err := l.Barrier(context.Background(), now.Term); err != nil {
		return
	}
	for i := 0; ; i++ {
		name := fmt.Sprint("t-", life, "-", i)
		if err := create(l, now.Term, name); err != nil {
			return
		}
		acked[name] = true
		<-time.After(time.Millisecond) // room for a snapshot
	}
}

// A node that is given up says so once, answers errors, and can be closed.
func TestStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewCrash(rand.NewPCG(1, 1))
		o := alone(t, disk)
		fatal := make(chan error, 2)
		o.Fatal = func(err error) { fatal <- err }
		l, term := lead(t, o)
		broken := errors.New("input/output error")
		disk.OnSync(func(vfs.SyncPoint) error { return broken })
		if err := create(l, term, "a"); !errors.Is(err, kafkaerr.NotController) {
			t.Errorf("proposal: %v", err)
		}
		if err := <-fatal; !errors.Is(err, broken) {
			t.Errorf("fatal: %v", err)
		}
		if now := <-l.Leadership(); now.Leader {
			t.Errorf("leadership: %+v", now)
		}
		<-time.After(10 * time.Second) // elections are tried and fail
		if err := create(l, term, "b"); !errors.Is(err, kafkaerr.NotController) {
			t.Errorf("proposal: %v", err)
		}
		disk.OnSync(nil)
		mustClose(t, l)
		if len(fatal) > 0 {
			t.Errorf("a second fatal error: %v", <-fatal)
		}
	})
}

func TestForeignLogIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		l, _ := lead(t, alone(t, disk))
		mustClose(t, l)

		o := alone(t, disk)
		o.DirectoryID = uuid.UUID{15: 2}
		if _, err := Open(o); err == nil || !strings.Contains(err.Error(), "1/AAAAAAAAAAAAAAAAAAAAAQ") {
			t.Errorf("another directory id: %v", err)
		}

		o = alone(t, disk)
		o.ClusterID = "other"
		fatal := make(chan error, 1)
		o.Fatal = func(err error) { fatal <- err }
		l, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := <-fatal; !strings.Contains(err.Error(), "cluster test") || !strings.Contains(err.Error(), "belongs to other") {
			t.Errorf("another cluster: %v", err)
		}
		mustClose(t, l)

		o.ClusterID = "test"
		l, _ = lead(t, o)
		mustClose(t, l)
	})
}

// A node that voted in a quorum whose log it never saw does not found a cluster of its own.
func TestVoterDoesNotBootstrapItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		o := alone(t, disk)
		o.BootstrapSelf = false
		l, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		if !l.Empty() {
			t.Error("a new log is not empty")
		}
		if err := l.store.SetUint64([]byte(keyCurrentTerm), 2); err != nil {
			t.Fatal(err)
		}
		mustClose(t, l)
		if l, err := Open(alone(t, disk)); err == nil || !strings.Contains(err.Error(), "taken part in an election") {
			t.Errorf("%v", err)
			mustClose(t, l)
		}
	})
}

// An entry of a newer release stops the node before it applies anything further.
func TestEntryOfANewerRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := alone(t, vfs.NewMem())
		fatal := make(chan error, 1)
		o.Fatal = func(err error) { fatal <- err }
		l, term := lead(t, o)
		defer mustClose(t, l)
		entry := []byte{0x08, byte(term), 0x10, 2, 0x22, 4, 0x08, 9, 0x12, 0} // record version 9
		l.raft.Apply(metadata.EncodeBatch([][]byte{entry}), 0)
		if err := <-fatal; !errors.Is(err, metadata.ErrUnsupported) {
			t.Errorf("fatal: %v", err)
		}
		if err := create(l, term, "a"); !errors.Is(err, kafkaerr.NotController) {
			t.Errorf("proposal: %v", err)
		}
		if err := l.raft.Snapshot().Error(); err == nil {
			t.Error("took a snapshot that stops short of its index")
		}
		if l.Image().NumTopics() != 0 {
			t.Error("went on past the entry")
		}
	})
}

// What is lost between the newest snapshot and the log is noticed.
func TestMissingEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		o := tuned(alone(t, disk))
		l, term := lead(t, o)
		for i := range 40 {
			if err := create(l, term, fmt.Sprint("t", i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.raft.Snapshot().Error(); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
			t.Fatal(err)
		}
		if first, err := l.store.FirstIndex(); err != nil || first == 1 {
			t.Fatalf("log begins with %d, %v", first, err)
		}
		// The prefix that was deleted is whole in its file; the store itself must have none.
		last, err := l.store.LastIndex()
		if err != nil {
			t.Fatal(err)
		}
		if err := l.store.Store.DeleteRange(0, last); err != nil {
			t.Fatal(err)
		}
		if err := l.store.Store.StoreLogs([]*raft.Log{{Index: last, Term: term, Type: raft.LogNoop}}); err != nil {
			t.Fatal(err)
		}
		mustClose(t, l)
		l, _ = lead(t, o) // the snapshot reaches up to there
		mustClose(t, l)
		if err := disk.RemoveAll("/metadata/snapshots"); err != nil {
			t.Fatal(err)
		}
		if l, err := Open(o); err == nil || !strings.Contains(err.Error(), "are missing") {
			t.Errorf("opened a log without its beginning: %v", err)
			mustClose(t, l)
		}
	})
}

// Large entries bring a snapshot before their number does.
func TestSnapshotOfLargeEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, term := lead(t, alone(t, vfs.NewMem()))
		defer mustClose(t, l)
		value := strings.Repeat("x", MaxEntryBytes-200)
		for range snapshotBytes/MaxEntryBytes + 2 {
			_, err := l.Propose(context.Background(), term, []metadata.Record{metadata.ConfigRecord{
				Resource: metadata.Resource{Type: metadata.TopicResource, Name: "t"}, Key: "k", Value: &value,
			}})
			if err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(2 * keepInterval)
		if l.raft.Stats()["last_snapshot_index"] == "0" {
			t.Error("no snapshot was taken")
		}
		if n := l.fsm.bytes.Load(); n >= snapshotBytes {
			t.Errorf("%d bytes count for the next one", n)
		}
	})
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := alone(t, vfs.NewMem())
		registry := prometheus.NewRegistry()
		o.Registerer = registry
		l, _ := lead(t, o)
		mustClose(t, l)
		l, term := lead(t, o) // with the same registry
		defer mustClose(t, l)
		if err := create(l, term, "a"); err != nil {
			t.Fatal(err)
		}
		if err := create(l, term, "a"); err == nil {
			t.Fatal("created twice")
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]float64{}
		for _, f := range families {
			m := f.GetMetric()[0]
			values[f.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
		for name, want := range map[string]float64{
			"klamm_metadata_log_leader":                 1,
			"klamm_metadata_log_dropped_entries_total":  1,
			"klamm_metadata_log_failed_proposals_total": 1,
			"klamm_metadata_log_proposals_in_flight":    0,
			"klamm_metadata_log_applied_index":          float64(l.Image().Position().Index),
		} {
			if got, ok := values[name]; !ok || got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
	})
}
