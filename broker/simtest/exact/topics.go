package exact

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// topic is what metadata knows of a topic. Metadata is the world's: it outlives brokers,
// and changes at once.
type topic struct {
	name   string
	id     uuid.UUID
	config logstore.Config
	parts  []*part
	// weak says that durability=replicated was set when the power may fail: what is
	// acknowledged from then on is not promised to survive that.
	weak    bool
	deleted bool
}

// part is one partition of a topic, with all that lives as long as it does.
type part struct {
	*topic
	index    int32
	dir      int // number of the log directory that it is assigned to
	judged   verdicts
	consumer *consumer
	follower *follower // nil unless the plan has any
}

func (p *part) String() string { return fmt.Sprintf("%s/%d", p.name, p.index) }

func (p *part) logID() logstore.ID {
	return logstore.ID{Topic: p.name, TopicID: p.id, Partition: p.index}
}

// maxTopics bounds the topics that exist at once, and the names that they take turns in.
const maxTopics = 2

// parts are those of all topics that exist.
func (w *world) parts() (all []*part) {
	for _, t := range w.topics {
		all = append(all, t.parts...)
	}
	return all
}

// find gives the partition that a log belongs to, nil if metadata does not know it.
func (w *world) find(id logstore.ID) *part {
	for _, p := range w.parts() {
		if p.id == id.TopicID && p.index == id.Partition {
			return p
		}
	}
	return nil
}

// createTopic makes a topic under a name that is free, with producers and consumers.
func (w *world) createTopic() {
	name := fmt.Sprintf("t%d", w.rand.IntN(maxTopics))
	for _, t := range w.topics {
		if t.name == name {
			return
		}
	}
	w.report.Topics++
	t := &topic{name: name, id: uuid.UUID{0: byte(w.report.Topics >> 8), 1: byte(w.report.Topics), 15: 42}, config: w.plan.config}
	for i := range 1 + w.rand.Int32N(3) {
		p := &part{topic: t, index: i, dir: w.rand.IntN(len(w.plan.dirs)), judged: newVerdicts()}
		p.consumer = &consumer{w: w, part: p}
		w.after(w.delay(), "consume", p.consumer.consume)
		if w.plan.follower {
			p.follower = &follower{w: w, part: p}
			w.after(w.delay(), "follower fetches", p.follower.fetch)
		}
		t.parts = append(t.parts, p)
	}
	w.topics = append(w.topics, t)
	for range 1 + w.rand.IntN(4) {
		p := newProducer(w, t.parts[w.rand.IntN(len(t.parts))])
		w.producers = append(w.producers, p)
		w.after(w.delay(), p.name+" produces", p.produce)
	}
	w.tracef("create %s %s: %d partitions", name, t.id, len(t.parts))
	if w.broker != nil {
		w.broker.add(t)
	}
}

// deleteTopic ends a topic; its clients end with it.
func (w *world) deleteTopic() {
	if len(w.topics) == 0 {
		return
	}
	i := w.rand.IntN(len(w.topics))
	t := w.topics[i]
	w.topics = append(w.topics[:i:i], w.topics[i+1:]...)
	t.deleted = true
	w.tracef("delete %s %s", t.name, t.id)
	if w.broker != nil {
		w.broker.remove(t)
	}
}

// alterTopic changes the configuration of a topic.
func (w *world) alterTopic() {
	if len(w.topics) == 0 {
		return
	}
	t := w.topics[w.rand.IntN(len(w.topics))]
	switch w.rand.IntN(4) {
	case 0:
		t.config.Durability = logstore.DurabilityReplicated
		t.weaken(w)
	case 1:
		t.config.SegmentBytes = int32(300 + w.rand.IntN(4000))
	case 2:
		t.config.RetentionBytes = []int64{-1, 0, int64(t.config.SegmentBytes)}[w.rand.IntN(3)]
	case 3:
		t.config.FlushMessages = int64(1 + w.rand.IntN(10))
	}
	w.tracef("alter %s: %v, segments of %d bytes, retention %d bytes", t.name, t.config.Durability, t.config.SegmentBytes, t.config.RetentionBytes)
	if w.broker == nil {
		return
	}
	for _, p := range w.broker.partitions {
		if p.topic == t && p.log != nil {
			w.broker.carryOut(p, p.UpdateConfig(w.now, p.topicConfig()))
		}
	}
}

// weaken ends what acknowledgements have promised so far of a power cut. A producer that
// has lost acknowledged records to one would be refused for ever, so none is idempotent.
func (t *topic) weaken(w *world) {
	if t.weak || !w.plan.powerCuts {
		return
	}
	t.weak = true
	for _, p := range w.producers {
		if p.part.topic == t {
			p.idempotent, p.wasIdempotent = false, p.wasIdempotent || p.idempotent
		}
	}
}

// excused tells whether an error of the storage is explained by a fault that was injected,
// and how: a full disk, no descriptors, a disk that failed. Each of them ends.
func (w *world) excused(err error) bool {
	switch {
	case errors.Is(err, logstore.ErrDirOffline), errors.Is(err, syscall.EIO):
		return w.diskErrors > 0
	case errors.Is(err, kafkaerr.KafkaStorageError), logstore.MayPass(err):
		return w.disturbed()
	}
	return false
}
