package cluster

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/broker/simtest/compacted"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// part is a partition as clients know it.
type part struct {
	name    string
	id      replica.TopicIDPartition
	deleted bool
}

func (p *part) String() string { return fmt.Sprintf("%s-%d", p.name, p.id.Partition) }

// createTopic asks the controller for a topic until it exists, and then begins to use it.
func (w *world) createTopic(name string) {
	w.after(w.delay()+heartbeatInterval, "create "+name, func() {
		if t := w.quorum.image().Topic(name); t != nil {
			if w.judge.parts[replica.TopicIDPartition{TopicID: t.ID}] == nil { // it may have been deleted before it was used
				w.use(t)
			}
			return
		}
		w.createTopic(name)
		if w.quorum.core == nil || w.quorum.image().NumBrokers() < len(w.nodes) {
			return
		}
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version, req.TimeoutMillis = 7, 60_000
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = name, int32(w.plan.partitions), 3
		if w.allowsUnclean(name) {
			t.Configs = append(t.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: uncleanKey, Value: kmsg.StringPtr("true")})
		}
		req.Topics = append(req.Topics, t)
		w.quorum.handle(w.quorum.leader, req, func(kmsg.Response, metadata.Position) {})
	})
}

// deleteTopic asks the controller to delete a topic. Another one gets its name.
func (w *world) deleteTopic(name string) {
	t := w.quorum.image().Topic(name)
	if t == nil || w.quorum.core == nil {
		return
	}
	w.tracef("delete %s", name)
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis = 6, 60_000
	asked := kmsg.NewDeleteTopicsRequestTopic()
	asked.TopicID = t.ID
	req.Topics = append(req.Topics, asked)
	w.quorum.handle(w.quorum.leader, req, func(kmsg.Response, metadata.Position) {})
}

// deleted is what the controller has decided.
func (w *world) deleted(t *metadata.Topic) {
	w.report.Deleted++
	for i := range t.Partitions {
		id := replica.TopicIDPartition{TopicID: t.ID, Partition: int32(i)}
		if v := w.judge.parts[id]; v != nil {
			v.part.deleted = true
			delete(w.judge.parts, id)
		}
	}
	w.producers = slices.DeleteFunc(w.producers, func(p *producer) bool { return p.part.deleted })
	w.consumers = slices.DeleteFunc(w.consumers, func(c *consumer) bool { return c.part.deleted })
	w.createTopic(t.Name)
}

// use begins to produce to a topic and to consume from it.
func (w *world) use(t *metadata.Topic) {
	for i := range t.Partitions {
		p := &part{name: t.Name, id: replica.TopicIDPartition{TopicID: t.ID, Partition: int32(i)}}
		w.judge.know(p)
		for range 1 + w.rand.IntN(2) {
			pr := newProducer(w, p)
			w.producers = append(w.producers, pr)
			w.after(w.delay(), "produce", pr.produce)
		}
		c := &consumer{w: w, part: p, epoch: replica.NoEpoch, history: map[int64]seen{}}
		w.consumers = append(w.consumers, c)
		w.after(w.delay(), "consume", c.consume)
	}
}

// producer sends batches to one partition, several at a time and in order, and again until
// they are acknowledged, or it gives up (see giveup.go).
type producer struct {
	w          *world
	name       string
	part       *part
	acks       int16
	idempotent bool
	inFlight   int // limit
	number     int

	next    int32 // number of the next record
	unacked []*produced
	epoch   int16
	// sequencesFrom is the number of the record that has sequence 0 in the epoch.
	sequencesFrom int32
	unknown       map[int32]int32 // batches that were given up: counts by base
	holdOff       bool            // something failed: what is under way ends before anything is sent again
	pending       int             // attempts under way
	retry         bool            // is scheduled
	conn          *connection
	heard         replica.Leader // of the highest epoch that any broker has named
}

// connection is one of TCP: what is sent on it arrives in order and once, or nothing does
// any more.
type connection struct {
	to, life int32
	last     time.Time // when the latest request arrives
	heard    time.Time // when the latest answer does
	broken   bool      // nothing arrives any more
	deaf     bool      // no answer does
}

// produced is one batch of a producer.
type produced struct {
	base, count int32 // numbers of its records
	sent        bool  // an attempt is under way
	attempts    int
	since       time.Time // of the first attempt
	appended    bool      // some leader did so
	at          int64     // the last time at this offset
	excused     bool      // that it is out of order for ever: see outOfOrder
}

// attempt is one sending of a batch, at the broker.
type attempt struct {
	p           *partition
	awaited     replica.Awaited
	offset, end int64
	all         bool // acks
	reply       func(produceAnswer)
}

type produceAnswer struct {
	offset  int64
	epoch   int32 // in which it is acknowledged
	err     error
	refused bool // before anything was written
}

func newProducer(w *world, of *part) *producer {
	r := w.rand
	w.numbered++
	p := &producer{
		w: w, number: w.numbered, name: fmt.Sprintf("p%d", w.numbered), part: of, idempotent: r.IntN(4) > 0, acks: replica.AcksAll, inFlight: 1 + r.IntN(5),
		unknown: map[int32]int32{},
	}
	w.judge.owners[p.name] = of
	if !p.idempotent {
		p.acks = []int16{replica.AcksAll, replica.AcksOne}[r.IntN(2)]
	}
	return p
}

// produce sends a new batch if the window has room, and comes back.
func (p *producer) produce() {
	if p.w.calm || p.part.deleted {
		return
	}
	if len(p.unacked) < p.inFlight {
		b := &produced{base: p.next, count: 1 + p.w.rand.Int32N(3)}
		p.next += b.count
		p.unacked = append(p.unacked, b)
		p.send()
	}
	p.w.after(p.w.delay()*3, "produce", p.produce)
}

// send sends what is not under way, oldest first.
func (p *producer) send() {
	if p.holdOff || p.part.deleted {
		return
	}
	leader := p.leader()
	if p.pending > 0 && p.conn != nil && p.conn.to != leader {
		p.again() // what is under way elsewhere ends first
		return
	}
	for _, b := range p.unacked {
		if leader == 0 {
			p.again()
			return
		}
		if !b.sent {
			p.attempt(leader, b)
		}
	}
}

// leader is the one that any broker names, 0 if there is none. One of an older epoch than a
// client has heard of is not believed (KIP-320).
func (p *producer) leader() int32 {
	n := p.w.nodes[p.w.rand.IntN(len(p.w.nodes))]
	if n.b == nil || n.b.image == nil {
		return 0
	}
	s := n.b.image.Partition(p.part.id.TopicID, p.part.id.Partition)
	if s == nil {
		return 0
	}
	if s.LeaderEpoch >= p.heard.Epoch {
		p.heard = replica.Leader{ID: max(s.Leader, 0), Epoch: s.LeaderEpoch}
	}
	return p.heard.ID
}

// again sends everything that is unacknowledged, once nothing is under way any more: what
// order a client keeps, it keeps by that.
func (p *producer) again() {
	p.holdOff = true
	if p.pending > 0 || p.retry {
		return
	}
	p.retry, p.conn = true, nil
	p.w.after(p.w.plan.maxDelay*3, p.name+" retries", func() {
		p.retry, p.holdOff = false, false
		p.giveUp()
		p.send()
	})
}

func (p *producer) attempt(leader int32, b *produced) {
	if b.attempts == 0 {
		b.since = p.w.now
	}
	b.sent = true
	b.attempts++
	p.pending++
	settled := false
	finish := func(a produceAnswer) {
		if settled {
			return
		}
		settled = true
		p.pending--
		b.sent = false
		p.answered(b, a)
	}
	n := p.w.node(leader)
	if p.conn == nil || p.conn.to != leader {
		p.conn = &connection{to: leader, life: int32(n.life)}
	}
	c := p.conn
	p.w.after(requestTimeout, p.name+": timeout", func() {
		c.broken, c.deaf = c.broken || !settled, c.deaf || !settled // it closes the connection
		finish(produceAnswer{err: errNoAnswer})
	})
	p.transmit(c, n, b, finish)
}

// transmit brings a request to a broker on a connection.
func (p *producer) transmit(c *connection, n *node, b *produced, finish func(produceAnswer)) {
	w, records := p.w, p.encode(b)
	c.broken = c.broken || w.net.cut[link{clients, n.id}] || !w.calm && w.rand.IntN(1000) < w.plan.loss
	if c.broken {
		return
	}
	at := w.now.Add(w.delay())
	if !at.After(c.last) {
		at = c.last.Add(1)
	}
	c.last = at
	w.schedule(&event{at: at, name: p.name + " produces", node: n, run: func() {
		if c.broken = c.broken || n.b == nil || c.life != int32(n.life) || p.conn != c; c.broken {
			return
		}
		n.b.produce(p, b, records, func(a produceAnswer) {
			// Kafka takes any first sequence from a producer that it does not know: a batch
			// that overtook the news of this refusal could be appended out of order by a
			// broker that has begun to lead meanwhile. No client can prevent that; ours does.
			c.broken = c.broken || a.err != nil
			p.hear(c, n, func() { finish(a) })
		})
	}})
}

// hear brings an answer back on the connection, after those before it.
func (p *producer) hear(c *connection, n *node, finish func()) {
	w := p.w
	if w.net.cut[link{n.id, clients}] || !w.calm && w.rand.IntN(1000) < w.plan.loss {
		c.deaf = true
	}
	if c.deaf {
		return
	}
	at := w.now.Add(w.delay())
	if !at.After(c.heard) {
		at = c.heard.Add(1)
	}
	c.heard = at
	w.schedule(&event{at: at, name: p.name + " hears", run: func() {
		if !c.deaf {
			finish()
		}
	}})
}

// produce is the broker's part.
func (b *broker) produce(of *producer, what *produced, records []byte, reply func(produceAnswer)) {
	p := b.parts[of.part.id]
	if p == nil {
		reply(produceAnswer{err: kafkaerr.NotLeaderOrFollower, refused: true})
		return
	}
	result, awaited, e := p.AppendAsLeader(b.w.now, replica.LeaderAppend{Records: records, Acks: of.acks, RequestVersion: 9})
	if b.n.crashed {
		return
	}
	if result.Err != nil {
		b.w.tracef("record %d of %s is refused: %v", what.base, of.name, result.Err)
		of.outOfOrder(p, what, result.Err)
		reply(produceAnswer{err: result.Err, refused: !errors.Is(result.Err, kafkaerr.KafkaStorageError)})
		b.carryOut(p, e)
		return
	}
	b.w.tracef("append of record %d of %s at %d of %s, epoch %d", what.base, of.name, result.BaseOffset, of.part, p.epoch())
	what.appended, what.at = true, result.BaseOffset
	a := &attempt{p: p, awaited: awaited, offset: result.BaseOffset, end: result.BaseOffset + int64(what.count), all: of.acks == replica.AcksAll, reply: reply}
	if awaited.Pending() && b.w.opts.Break != AckBeforeISR {
		p.waiting = append(p.waiting, a)
	} else {
		a.finish(nil)
	}
	b.carryOut(p, e)
	b.answer(p)
}

func (p *partition) epoch() int32 {
	l, _ := p.Leader()
	return l.Epoch
}

func (a *attempt) finish(err error) {
	if err == nil && a.all {
		a.p.d.b.w.judge.acking(a.p, a.end)
	}
	a.reply(produceAnswer{offset: a.offset, epoch: a.p.epoch(), err: err})
}

// answered is what a producer hears, or that it hears nothing. Some give up what was refused
// the first time.
func (p *producer) answered(b *produced, a produceAnswer) {
	i := slices.Index(p.unacked, b)
	switch {
	case i < 0, p.part.deleted:
		return // a retry was faster, or nobody cares any more
	case a.err == nil:
		p.w.report.Acked++
		p.unacked = slices.Delete(p.unacked, i, i+1)
		if p.acks == replica.AcksAll {
			p.w.judge.acked(p, b, a)
		}
		if p.holdOff {
			p.again()
			return
		}
		p.send()
	case a.refused && b.attempts == 1 && !p.idempotent && p.w.rand.IntN(2) == 0:
		p.w.judge.refuse(p, b)
		p.unacked = slices.Delete(p.unacked, i, i+1)
		p.again()
	default:
		p.again()
	}
}

func (p *producer) encode(b *produced) []byte {
	o := batch.BuilderOptions{}
	if p.idempotent {
		o.Producer = &batch.Producer{ID: int64(1000 + p.number), Epoch: p.epoch, BaseSequence: b.base - p.sequencesFrom}
	}
	builder := batch.NewBuilder(o)
	for i := range b.count {
		builder.Append(compacted.New(p.w.now.UnixMilli(), p.record(b.base+i)))
	}
	v, err := builder.Build(p.w.codecs)
	if err != nil {
		p.w.fail("Harness", "build a batch: %v", err)
	}
	return v
}

// value of a record is unique in the run.
func (p *producer) value(n int32) string { return fmt.Sprintf("%s-%d", p.name, n) }

// record is one of a producer: with a key if there are cleanings, and then now and then a
// tombstone.
func (p *producer) record(n int32) compacted.Record {
	r := compacted.Record{ID: p.value(n)}
	if c := &p.w.cleanings; c.on {
		drawn := uint32(n)*2654435761 + uint32(p.number)*40503
		r.Key, r.Tombstone = fmt.Sprint("k", drawn>>8%uint32(c.keys)), drawn>>20%5 == 0
	}
	return r
}

// consumer reads one partition from its start on, from whatever replica answers.
type consumer struct {
	w        *world
	part     *part
	position int64
	epoch    int32 // of the last record that it has read
	branch   int32 // all that it has read is of it; see unclean.go
	history  map[int64]seen
}

// consume reads some records and comes back.
func (c *consumer) consume() {
	n := c.w.nodes[c.w.rand.IntN(len(c.w.nodes))]
	if c.part.deleted {
		return
	}
	if n.up() {
		c.w.running = n
		if p := n.b.parts[c.part.id]; p != nil {
			c.w.judge.read(p, c, 1+c.w.rand.IntN(500))
		}
	}
	if !c.w.calm {
		c.w.after(c.w.delay()*4, "consume", c.consume)
	}
}
