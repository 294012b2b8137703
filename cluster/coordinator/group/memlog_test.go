package group

import (
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/klamm-mq/klamm/cluster/coordinator"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// memLog is the partitions of __consumer_offsets in memory. What is appended is committed
// at once, unless it is held.
type memLog struct {
	mu         sync.Mutex
	partitions map[int32]*memPartition
}

type memPartition struct {
	bytes   []byte
	end, hw int64
	hold    bool
	loading chan struct{} // not nil: reads wait until it is closed
	changed map[*func()]struct{}
}

func newMemLog(partitions int32) *memLog {
	l := &memLog{partitions: make(map[int32]*memPartition)}
	for i := range partitions {
		l.partitions[i] = &memPartition{changed: make(map[*func()]struct{})}
	}
	return l
}

// hold lets the high watermark of a partition stand still.
func (l *memLog) hold(i int32, hold bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.partitions[i].hold = hold
}

func (l *memLog) Append(p coordinator.Partition, records []byte) (int64, error) {
	l.mu.Lock()
	part := l.partitions[p.Index]
	base := part.end
	v := batch.View(append([]byte{}, records...))
	v.SetBaseOffset(base)
	part.bytes, part.end = append(part.bytes, v...), v.NextOffset()
	if !part.hold {
		part.hw = part.end
	}
	var tell []func()
	for c := range part.changed {
		tell = append(tell, *c)
	}
	l.mu.Unlock()
	for _, changed := range tell {
		changed()
	}
	return base, nil
}

func (l *memLog) MaxBatchBytes(coordinator.Partition) int { return 1 << 20 }

func (l *memLog) Read(p coordinator.Partition, offset int64, buf []byte) ([]byte, error) {
	l.mu.Lock()
	part := l.partitions[p.Index]
	loading := part.loading
	l.mu.Unlock()
	if loading != nil {
		<-loading
	}
	for rest := part.bytes; len(rest) > 0; {
		v, next, err := batch.Next(rest)
		if err != nil {
			return nil, err
		}
		if v.NextOffset() > offset {
			return append(buf[:0], rest[:min(len(rest), max(len(buf), len(v)))]...), nil
		}
		rest = next
	}
	return nil, nil
}

func (l *memLog) Offsets(p coordinator.Partition) (coordinator.Offsets, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	part := l.partitions[p.Index]
	if part == nil {
		return coordinator.Offsets{}, kafkaerr.NotLeaderOrFollower
	}
	return coordinator.Offsets{HighWatermark: part.hw, End: part.end}, nil
}

func (l *memLog) Watch(p coordinator.Partition, changed func()) (func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	part := l.partitions[p.Index]
	part.changed[&changed] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(part.changed, &changed)
	}, nil
}

// testBroker is a group service on the real runtime, in a bubble.
type testBroker struct {
	*Service
	t       *testing.T
	log     *memLog
	runtime *coordinator.Runtime[*Shard]
	image   *metadata.Image
	at      uint64
	asked   int // for the topic
}

const testPartitions = 3

var (
	testTopicID     = uuid.UUID{15: 1}
	testIncarnation = uuid.UUID{15: 2}
)

// inBubble runs a test on a service whose topic does not exist yet.
func inBubble(t *testing.T, test func(t *testing.T, b *testBroker)) {
	synctest.Test(t, func(t *testing.T) {
		b := &testBroker{t: t, log: newMemLog(testPartitions), image: metadata.Empty()}
		random := &lockedRand{src: rand.NewChaCha8([32]byte{1})}
		b.runtime = coordinator.New(coordinator.Options[*Shard]{
			Name: "group", Topic: Topic, BrokerID: 1, Incarnation: testIncarnation, Log: b.log,
			AppendLinger: -1, Codecs: batch.NewCodecs(batch.CodecsOptions{}),
			NewShard: func(int32) *Shard {
				return NewShard(ShardOptions{Config: DefaultConfig(), Rand: random, Logger: slog.New(slog.DiscardHandler), Metrics: NewMetrics(nil)})
			},
		})
		b.Service = NewService(ServiceOptions{
			Config: DefaultConfig(), Runtime: b.runtime, Partitions: testPartitions,
			Image: func() *metadata.Image { return b.image }, CreateTopic: func() { b.asked++ },
		})
		test(t, b)
		b.runtime.Close()
	})
}

type lockedRand struct {
	mu  sync.Mutex
	src *rand.ChaCha8
}

func (r *lockedRand) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.src.Read(p)
}

func (b *testBroker) publish(records ...metadata.Record) {
	b.t.Helper()
	b.at++
	delta := metadata.NewDelta(b.image)
	for _, r := range records {
		if err := delta.Replay(r); err != nil {
			b.t.Fatal(err)
		}
	}
	b.image = delta.Image(metadata.Position{Index: b.at, Term: 1})
	b.runtime.OnMetadataUpdate(delta, b.image)
	synctest.Wait()
}

// createTopic brings __consumer_offsets, led here but for the last partition, which a
// broker 2 leads.
func (b *testBroker) createTopic() {
	records := []metadata.Record{
		metadata.RegisterBrokerRecord{Broker: metadata.Broker{ID: 1, Epoch: 1, IncarnationID: testIncarnation}},
		metadata.RegisterBrokerRecord{Broker: metadata.Broker{ID: 2, Epoch: 2, IncarnationID: uuid.UUID{15: 9}}},
		metadata.TopicRecord{Name: Topic, ID: testTopicID},
	}
	for i := range int32(testPartitions) {
		leader := int32(1)
		if i == testPartitions-1 {
			leader = 2
		}
		records = append(records, metadata.PartitionRecord{TopicID: testTopicID, Partition: metadata.Partition{
			Index: i, Replicas: []int32{1, 2}, ISR: []int32{1, 2}, Leader: leader,
			Directories: []uuid.UUID{uuid.DirUnassigned, uuid.DirUnassigned},
		}})
	}
	b.publish(records...)
}

// groupsOn lists names of groups that a partition keeps.
func groupsOn(partition int32, n int) (ids []string) {
	for i := 0; len(ids) < n; i++ {
		if id := "group-" + string(rune('a'+i%26)) + string(rune('a'+i/26)); PartitionFor(id, testPartitions) == partition {
			ids = append(ids, id)
		}
	}
	return ids
}
