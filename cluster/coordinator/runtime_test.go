package coordinator

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

const (
	testTopic        = "__consumer_offsets"
	testBroker int32 = 1
)

var (
	topicID     = uuid.UUID{15: 1}
	incarnation = uuid.UUID{15: 2}
)

// cluster is a runtime on a log in memory with metadata that a test makes up.
type cluster struct {
	t       *testing.T
	log     *fakeLog
	runtime *Runtime[*counters]
	image   *metadata.Image
	logged  lockedBuffer
	at      uint64

	mu     sync.Mutex
	shards []*counters // every one that was made
	onNew  func(*counters)
}

// lockedBuffer is what a logger writes to.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func newCluster(t *testing.T, partitions int32, change ...func(*Options[*counters])) *cluster {
	c := &cluster{t: t, log: newFakeLog(partitions), image: metadata.Empty()}
	o := Options[*counters]{
		Name: "group", Topic: testTopic, BrokerID: testBroker, Incarnation: incarnation,
		Log: c.log, AppendLinger: -1, NewShard: c.newShard,
		Codecs: batch.NewCodecs(batch.CodecsOptions{}),
		Logger: slog.New(slog.NewTextHandler(&c.logged, &slog.HandlerOptions{Level: slog.LevelInfo})),
	}
	for _, fn := range change {
		fn(&o)
	}
	c.runtime = New(o)
	return c
}

func (c *cluster) newShard(i int32) *counters {
	s := newCounters(i)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.onNew != nil {
		c.onNew(s)
	}
	c.shards = append(c.shards, s)
	return s
}

func (c *cluster) publish(records ...metadata.Record) {
	c.t.Helper()
	c.at++
	delta := metadata.NewDelta(c.image)
	for _, r := range records {
		if err := delta.Replay(r); err != nil {
			c.t.Fatal(err)
		}
	}
	c.image = delta.Image(metadata.Position{Index: c.at, Term: 1})
	c.runtime.OnMetadataUpdate(delta, c.image)
	synctest.Wait()
}

func (c *cluster) register(id uuid.UUID) {
	c.publish(registerRecord(id, int64(c.at+1)))
}

func registerRecord(incarnation uuid.UUID, epoch int64) metadata.RegisterBrokerRecord {
	return metadata.RegisterBrokerRecord{Broker: metadata.Broker{ID: testBroker, Epoch: epoch, IncarnationID: incarnation}}
}

// start brings a topic whose partitions are all led here.
func (c *cluster) start() {
	c.register(incarnation)
	records := []metadata.Record{metadata.TopicRecord{Name: testTopic, ID: topicID}}
	for i := range int32(len(c.log.partitions)) {
		c.log.with(i, func(p *fakePartition) { p.epoch = 0 })
		records = append(records, partitionRecord(i, testBroker, 0))
	}
	c.publish(records...)
}

func partitionRecord(index, leader, epoch int32) metadata.PartitionRecord {
	return metadata.PartitionRecord{TopicID: topicID, Partition: metadata.Partition{
		Index: index, Replicas: []int32{1, 2}, ISR: []int32{1, 2}, Leader: leader, LeaderEpoch: epoch,
		Directories: []uuid.UUID{uuid.DirUnassigned, uuid.DirUnassigned},
	}}
}

// elect moves the leadership of a partition, into the next epoch.
func (c *cluster) elect(i, leader int32) {
	c.log.with(i, func(p *fakePartition) {
		p.epoch = -1
		if leader == testBroker {
			p.epoch = c.image.Partition(topicID, i).LeaderEpoch + 1
		}
	})
	c.publish(metadata.PartitionChangeRecord{TopicID: topicID, Index: i, Leader: &leader})
}

// answered is what became of an operation.
type answered struct {
	n   int64
	err error
}

func (c *cluster) add(i int32, name string) <-chan answered {
	ch := make(chan answered, 1)
	c.runtime.Write(i,
		func(_ time.Time, s *counters) Effects {
			return s.add(name, func(n int64, err error) { ch <- answered{n, err} })
		},
		func(err error) { ch <- answered{-1, err} })
	return ch
}

// result waits until nothing moves, and looks what was answered.
func result(t *testing.T, ch <-chan answered) answered {
	t.Helper()
	synctest.Wait()
	select {
	case a := <-ch:
		return a
	default:
		t.Fatal("not answered")
		return answered{}
	}
}

func pending(t *testing.T, ch <-chan answered) {
	t.Helper()
	synctest.Wait()
	select {
	case a := <-ch:
		t.Fatalf("answered %+v, want it to wait", a)
	default:
	}
}

func (c *cluster) committed(i int32) map[string]int64 {
	c.t.Helper()
	var state map[string]int64
	c.runtime.Read(i, func(s *counters) { state = maps.Collect(s.values.AllCommitted()) }, func(err error) { c.t.Errorf("read: %v", err) })
	synctest.Wait()
	return state
}

func (c *cluster) close() { c.runtime.Close() }

func TestOperationsOfOneShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		defer c.close()
		c.start()
		var last <-chan answered
		for range 100 {
			last = c.add(0, "a")
		}
		if a := result(t, last); a != (answered{100, nil}) {
			t.Errorf("the last of 100 operations: %+v", a)
		}
		if d := cmp.Diff(map[string]int64{"a": 100}, c.committed(0)); d != "" {
			t.Error(d)
		}
		if n := c.log.partitions[0].appends; n >= 100 {
			t.Errorf("%d appends for 100 operations: they are not batched", n)
		}
	})
}

func TestLaterBatchesAreAppendedWhileEarlierOnesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		defer c.close()
		c.start()
		c.log.with(0, func(p *fakePartition) { p.autoCommit = false })
		first := c.add(0, "a")
		pending(t, first)
		second := c.add(0, "a")
		pending(t, second)
		if n := c.log.partitions[0].end; n != 2 {
			t.Errorf("log end %d, want 2", n)
		}
		c.log.commit(0)
		if a, b := result(t, first), result(t, second); a.n != 1 || b.n != 2 || a.err != nil || b.err != nil {
			t.Errorf("answers %+v, %+v", a, b)
		}
	})
}

func TestWhoIsNotCoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		defer c.close()
		wants := func(i int32, want error) {
			t.Helper()
			if a := result(t, c.add(i, "a")); !errors.Is(a.err, want) {
				t.Errorf("partition %d: %v, want %v", i, a.err, want)
			}
		}
		wants(0, kafkaerr.NotCoordinator)
		c.start()
		wants(0, nil)
		wants(2, kafkaerr.NotCoordinator)
		wants(-1, kafkaerr.NotCoordinator)
		c.elect(1, 2)
		wants(1, kafkaerr.NotCoordinator)
		wants(0, nil)
		c.publish(metadata.RemoveTopicRecord{ID: topicID})
		wants(0, kafkaerr.NotCoordinator)
		if s := c.shards[0]; !errors.Is(s.unloaded, kafkaerr.NotCoordinator) {
			t.Errorf("the shard was unloaded with %v", s.unloaded)
		}
	})
}

func TestLeadershipOfTheProcessBeforeIsNotOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		defer c.close()
		c.register(uuid.UUID{15: 9})
		c.log.with(0, func(p *fakePartition) { p.epoch = 4 })
		c.publish(metadata.TopicRecord{Name: testTopic, ID: topicID}, partitionRecord(0, testBroker, 4))
		if len(c.shards) > 0 {
			t.Fatal("a shard was loaded in the epoch of the incarnation before")
		}
		c.log.with(0, func(p *fakePartition) { p.epoch = 5 })
		c.publish(
			registerRecord(incarnation, 9),
			metadata.PartitionChangeRecord{TopicID: topicID, Index: 0, Leader: new(testBroker)})
		if a := result(t, c.add(0, "a")); a.err != nil {
			t.Error(a.err)
		}
	})
}

func TestNewEpochLoadsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		defer c.close()
		c.start()
		result(t, c.add(0, "a"))
		c.log.with(0, func(p *fakePartition) { p.autoCommit = false })
		waits := c.add(0, "a")
		pending(t, waits)
		c.elect(0, testBroker)
		if a := result(t, waits); !errors.Is(a.err, kafkaerr.NotCoordinator) {
			t.Errorf("whoever waited got %v", a.err)
		}
		// The record is in the log, above the high watermark: pending, as before.
		if d := cmp.Diff(map[string]int64{"a": 1}, c.committed(0)); d != "" {
			t.Error(d)
		}
		next := c.add(0, "a")
		pending(t, next)
		c.log.commit(0)
		if a := result(t, next); a != (answered{3, nil}) {
			t.Errorf("after the load: %+v, want 3", a)
		}
		if len(c.shards) != 2 {
			t.Errorf("%d shards were made, want 2", len(c.shards))
		}
	})
}

func TestLostLeadershipBeforeMetadataSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		defer c.close()
		c.start()
		c.log.with(0, func(p *fakePartition) { p.autoCommit = false })
		waits := c.add(0, "a")
		pending(t, waits)
		// The replica follows already, and has a high watermark of other records.
		c.log.with(0, func(p *fakePartition) { p.epoch, p.hw = -1, 10 })
		if a := result(t, waits); !errors.Is(a.err, kafkaerr.NotCoordinator) {
			t.Errorf("answered %+v", a)
		}
		if a := result(t, c.add(0, "a")); !errors.Is(a.err, kafkaerr.NotCoordinator) {
			t.Errorf("then %+v", a)
		}
		c.log.with(0, func(p *fakePartition) { p.hw, p.autoCommit = p.end, true })
		c.elect(0, testBroker)
		time.Sleep(time.Second)
		if a := result(t, c.add(0, "a")); errors.Is(a.err, kafkaerr.NotCoordinator) {
			t.Errorf("elected again: %+v", a)
		}
	})
}

func TestLoadFailsAndIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		defer c.close()
		c.log.with(0, func(p *fakePartition) { p.readFails = errors.New("a sector cannot be read") })
		c.start()
		if a := result(t, c.add(0, "a")); !errors.Is(a.err, kafkaerr.NotCoordinator) {
			t.Errorf("answered %+v", a)
		}
		if n := c.runtime.countState(stateFailed); n != 1 {
			t.Errorf("%d shards failed, want 1", n)
		}
		c.log.with(0, func(p *fakePartition) { p.readFails = nil })
		time.Sleep(time.Second)
		if a := result(t, c.add(0, "a")); a.err != nil {
			t.Error(a.err)
		}
		if !strings.Contains(c.logged.String(), "a sector cannot be read") {
			t.Errorf("the reason is not logged: %s", &c.logged)
		}
		for _, s := range c.shards[:len(c.shards)-1] {
			if s.unloaded == nil {
				t.Error("a shard that did not load was not unloaded")
			}
		}
	})
}

func TestOperationsWhileLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, func(o *Options[*counters]) { o.LoadThreads = 1 })
		defer c.close()
		release := make(chan struct{})
		c.onNew = func(*counters) { <-release }
		c.start()
		if n := c.runtime.countState(stateLoading); n != 2 {
			t.Errorf("%d shards load, want 2", n)
		}
		for i := range int32(2) {
			if a := result(t, c.add(i, "a")); !errors.Is(a.err, kafkaerr.CoordinatorLoadInProgress) {
				t.Errorf("partition %d: %v", i, a.err)
			}
		}
		var errs []error
		if n := c.runtime.ReadAll(func(int32, *counters) {}, func(_ int32, err error) { errs = append(errs, err) }); n != 2 || len(errs) != 2 {
			t.Errorf("ReadAll of %d shards, failed for %v", n, errs)
		}
		close(release)
		synctest.Wait()
		if active := c.runtime.Active(); len(active) != 2 {
			t.Errorf("active %v", active)
		}
		if a := result(t, c.add(1, "a")); a.err != nil {
			t.Error(a.err)
		}
	})
}

func TestReadAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		defer c.close()
		c.start()
		for i := range int32(3) {
			result(t, c.add(i, fmt.Sprint(i)))
		}
		found := make(chan string, 3)
		n := c.runtime.ReadAll(func(i int32, s *counters) {
			for k := range s.values.AllCommitted() {
				found <- fmt.Sprint(i, "=", k)
			}
		}, func(_ int32, err error) { t.Error(err) })
		synctest.Wait()
		close(found)
		var all []string
		for k := range found {
			all = append(all, k)
		}
		slices.Sort(all)
		if d := cmp.Diff([]string{"0=0", "1=1", "2=2"}, all); d != "" || n != 3 {
			t.Errorf("%d shards: %s", n, d)
		}
	})
}

func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, func(o *Options[*counters]) { o.MaxQueued, o.MaxUncommitted = 10, 100 })
		defer c.close()
		c.start()
		hold, held := make(chan struct{}), make(chan struct{})
		c.runtime.Read(0, func(*counters) { close(held); <-hold }, func(err error) { t.Error(err) })
		<-held
		for range 10 {
			c.add(0, "a")
		}
		if a := <-c.add(0, "a"); !errors.Is(a.err, kafkaerr.CoordinatorNotAvailable) {
			t.Errorf("the eleventh: %+v", a)
		}
		close(hold)
		synctest.Wait()
		if a := result(t, c.add(0, "a")); a.err != nil {
			t.Errorf("after the queue was worked off: %v", a.err)
		}
	})
}

func TestUncommittedIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, func(o *Options[*counters]) { o.MaxUncommitted = 20 })
		defer c.close()
		c.start()
		c.log.with(0, func(p *fakePartition) { p.autoCommit = false })
		var full error
		for range 30 {
			ch := c.add(0, "a")
			synctest.Wait()
			select {
			case a := <-ch:
				full = a.err
			default:
			}
		}
		if !errors.Is(full, kafkaerr.CoordinatorNotAvailable) {
			t.Errorf("refused with %v", full)
		}
		if n := c.log.partitions[0].end; n > 20 {
			t.Errorf("%d records above the high watermark", n)
		}
		c.committed(0) // reads go on
		c.log.commit(0)
		synctest.Wait()
		next := c.add(0, "a")
		pending(t, next)
		c.log.commit(0)
		if a := result(t, next); a.err != nil {
			t.Error(a.err)
		}
	})
}

func TestDeadlinesAndTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		defer c.close()
		var ticked []time.Duration
		start := time.Now()
		c.onNew = func(s *counters) {
			s.deadline = start.Add(time.Minute)
			s.onTick = func(now time.Time) Effects {
				ticked = append(ticked, now.Sub(start))
				if len(ticked) == 1 {
					s.deadline = now.Add(time.Hour)
				}
				return Effects{Records: []Record{counterRecord("ticks", int64(len(ticked)))}}
			}
		}
		c.start()
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if d := cmp.Diff([]time.Duration{time.Minute, time.Minute + time.Hour}, ticked); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(map[string]int64{"ticks": 2}, c.committed(0)); d != "" {
			t.Error(d)
		}
		c.log.with(0, func(p *fakePartition) { p.autoCommit = false })
		waits := c.add(0, "a")
		time.Sleep(5*time.Second - time.Nanosecond)
		pending(t, waits)
		time.Sleep(time.Nanosecond)
		if a := result(t, waits); !errors.Is(a.err, kafkaerr.CoordinatorNotAvailable) {
			t.Errorf("answered %+v", a)
		}
	})
}

func TestShardHearsOfMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		defer c.close()
		c.start()
		s := c.shards[0]
		if !s.loaded || len(s.images) != 1 || s.deltas != 0 || s.images[0] != c.image {
			t.Errorf("loaded %v with %d images", s.loaded, len(s.images))
		}
		c.publish(metadata.TopicRecord{Name: "t", ID: uuid.UUID{15: 7}})
		if len(s.images) != 2 || s.deltas != 1 {
			t.Errorf("%d images, %d deltas after a change", len(s.images), s.deltas)
		}
		c.runtime.OnMetadataUpdate(metadata.Unchanged(c.image, metadata.Position{Index: 99}), c.image.At(metadata.Position{Index: 99}))
		synctest.Wait()
		if len(s.images) != 2 {
			t.Error("it was told of an entry that changed nothing")
		}
		// While it is busy changes become one.
		hold, held := make(chan struct{}), make(chan struct{})
		c.runtime.Read(0, func(*counters) { close(held); <-hold }, func(err error) { t.Error(err) })
		<-held
		c.at = 99
		for i := range 3 * maxImageChanges {
			c.at++
			delta := metadata.NewDelta(c.image)
			if err := delta.Replay(metadata.TopicRecord{Name: fmt.Sprint("t", i), ID: uuid.UUID{14: 1, 15: byte(i)}}); err != nil {
				t.Fatal(err)
			}
			c.image = delta.Image(metadata.Position{Index: c.at, Term: 1})
			c.runtime.OnMetadataUpdate(delta, c.image)
		}
		close(hold)
		synctest.Wait()
		if n := len(s.images) - 2; n == 0 || n > maxImageChanges || s.images[len(s.images)-1] != c.image {
			t.Errorf("told %d times of %d changes", n, 3*maxImageChanges)
		}
	})
}

func TestParkedAnswersWhenTheBrokerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		c.start()
		parked := make(chan error, 1)
		c.runtime.Write(0, func(_ time.Time, s *counters) Effects {
			s.parked = append(s.parked, func(err error) { parked <- err })
			return Effects{}
		}, func(err error) { t.Error(err) })
		synctest.Wait()
		c.close()
		select {
		case err := <-parked:
			if !errors.Is(err, kafkaerr.NotCoordinator) {
				t.Errorf("answered %v", err)
			}
		default:
			t.Error("not answered when Close has returned")
		}
		if a := result(t, c.add(0, "a")); !errors.Is(a.err, kafkaerr.NotCoordinator) {
			t.Errorf("after the end: %v", a.err)
		}
		c.elect(0, testBroker)
		if len(c.shards) != 1 {
			t.Error("a shard was begun after the end")
		}
		c.close()
	})
}

func TestIdleShardDoesNotWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		defer c.close()
		c.start()
		result(t, c.add(0, "a"))
		time.Sleep(time.Minute) // one wake-up for a deadline that has moved on
		synctest.Wait()
		before := c.shards[0].asked
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if n := c.shards[0].asked - before; n > 0 {
			t.Errorf("asked for its deadline %d times in a day without anything to do", n)
		}
	})
}

func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, func(o *Options[*counters]) { o.AppendLinger = 10 * time.Millisecond })
		defer c.close()
		c.start()
		first := c.add(0, "a")
		pending(t, first)
		time.Sleep(9 * time.Millisecond)
		second := c.add(0, "a")
		pending(t, second)
		time.Sleep(time.Millisecond)
		if a, b := result(t, first), result(t, second); a.n != 1 || b.n != 2 || c.log.partitions[0].appends != 1 {
			t.Errorf("answers %+v, %+v after %d appends", a, b, c.log.partitions[0].appends)
		}
	})
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		c := newCluster(t, 3, func(o *Options[*counters]) { o.Registerer = registry })
		defer c.close()
		c.log.with(2, func(p *fakePartition) { p.readFails = errors.New("unreadable") })
		c.log.with(0, func(p *fakePartition) {
			p.batches = append(p.batches, plain(batch.BuilderOptions{}, Record{Key: []byte("new"), Value: []byte{1}}))
			p.end, p.hw = 1, 1
		})
		c.start()
		for range 5 {
			result(t, c.add(0, "a"))
		}
		c.log.with(1, func(p *fakePartition) { p.refuse = kafkaerr.NotEnoughReplicas })
		result(t, c.add(1, "a"))
		got := map[string]float64{}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				name := strings.TrimPrefix(f.GetName(), "kafka_server_group_coordinator_metrics_")
				for _, l := range m.GetLabel() {
					name += " " + l.GetValue()
				}
				got[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
		want := map[string]float64{
			"num_partitions active": 2, "num_partitions failed": 1, "num_partitions loading": 0,
			"event_queue_size": 0, "event_queue_time_ms": 6, "event_processing_time_ms": 6,
			"event_purgatory_time_ms": 5, "batch_linger_time_ms": 6,
			"partition_load_time_max": 0, "partition_load_time_avg": 0,
			"klamm_group_coordinator_refused_records_total": 1, "klamm_group_coordinator_unknown_records_total": 1,
			"klamm_group_coordinator_refused_operations_total": 0, "klamm_group_coordinator_write_timeouts_total": 0,
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("metrics (-want +got): %s", d)
		}
	})
}
