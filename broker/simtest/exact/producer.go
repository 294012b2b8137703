package exact

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/klamm-mq/klamm/broker/simtest/compacted"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// producer sends batches to one partition, several at a time and in order, and again
// until they are acknowledged. It ends with its topic.
type producer struct {
	w          *world
	name       string
	number     int
	part       *part
	acks       int16
	idempotent bool
	inFlight   int // limit
	// wasIdempotent says that it ceased to be: its sequences have a past.
	wasIdempotent bool

	next    int32 // number of the next record, and its sequence
	unacked []*produced

	// The connection: answers arrive in the order of the requests.
	sent      []*attempt // not yet on their way back
	lastHears time.Time
	retrying  bool // a retry is scheduled
	// badNews is on its way: a batch has failed that may have been truncated. Kafka takes
	// any first sequence from a producer that it does not know, so a batch that overtook
	// that news, after a truncation of all that was known, would be appended out of
	// order. No client can prevent that; ours waits.
	badNews bool
}

// produced is one batch of a producer.
type produced struct {
	base, count int32 // numbers of its records
	sent        bool  // an attempt is under way
}

// attempt is one sending of a batch.
type attempt struct {
	producer *producer
	batch    *produced
	offset   int64 // of its first record, once appended
	awaited  replica.Awaited
	weak     bool // what was promised when it was sent

	done bool
	err  error
}

func newProducer(w *world, of *part) *producer {
	r, number := w.rand, w.report.Producers
	w.report.Producers++
	p := &producer{
		w: w, number: number, name: fmt.Sprintf("p%d", number), part: of,
		idempotent: r.IntN(3) > 0, acks: replica.AcksAll, inFlight: 1 + r.IntN(5),
	}
	if !p.idempotent {
		p.acks = []int16{replica.AcksAll, replica.AcksOne, replica.AcksNone}[r.IntN(3)]
	}
	return p
}

// over tells that the topic has been deleted.
func (p *producer) over() bool { return p.part.deleted }

// produce sends a new batch if the window has room, and comes back.
func (p *producer) produce() {
	if p.w.calm || p.over() {
		return
	}
	if len(p.unacked) < p.inFlight {
		b := &produced{base: p.next, count: 1 + p.w.rand.Int32N(3)}
		p.next += b.count
		p.unacked = append(p.unacked, b)
		p.send()
	}
	p.w.after(p.w.delay(), p.name+" produces", p.produce)
}

// send sends what is not under way, oldest first. A batch behind one that has to be sent
// again waits for it: order is what an idempotent producer guards.
func (p *producer) send() {
	if p.over() {
		return
	}
	if p.w.broker == nil || p.w.broker.of(p.part) == nil {
		p.retry("finds nobody")
		return
	}
	for _, b := range p.unacked {
		if p.badNews {
			return
		}
		if !b.sent {
			p.attempt(b)
		}
		if !b.sent {
			return
		}
	}
}

// again sends everything that is unacknowledged, in a while.
func (p *producer) again() {
	p.badNews = false
	for _, b := range p.unacked {
		b.sent = false
	}
	p.retry("retries")
}

func (p *producer) retry(why string) {
	if p.retrying {
		return
	}
	p.retrying = true
	p.w.after(p.w.plan.maxDelay*3, p.name+" "+why, func() {
		p.retrying = false
		p.send()
	})
}

func (p *producer) attempt(b *produced) {
	br := p.w.broker
	part := br.of(p.part)
	result, awaited, e := part.AppendAsLeader(p.w.wall(), replica.LeaderAppend{
		Records: p.encode(b), Acks: p.acks, RequestVersion: 9,
	})
	if p.w.crashed {
		return
	}
	a := &attempt{producer: p, batch: b, offset: result.BaseOffset, awaited: awaited, weak: p.part.weak}
	b.sent = true
	if result.Err != nil {
		p.refused(result.Err)
		return
	}
	p.w.tracef("%s records %d..%d at offset %d of %s", p.name, b.base, b.base+b.count-1, a.offset, p.part)
	p.sent = append(p.sent, a)
	if awaited.Pending() && p.w.opts.Break != AckBeforeFlush {
		part.waiting = append(part.waiting, a)
	} else {
		a.finish(nil)
	}
	br.carryOut(part, e)
	br.answer(part) // a duplicate may have nothing left to wait for
}

// refused handles an error of the append itself: the loss of leadership, or a fault.
func (p *producer) refused(err error) {
	if !errors.Is(err, kafkaerr.NotLeaderOrFollower) && !p.w.excused(err) {
		p.w.fail("SequencesContiguous", "%s (%d unacknowledged) is refused: %v", p.name, len(p.unacked), err)
		return
	}
	p.again()
}

// finish is the broker's part of an answer: it leaves behind those to earlier requests.
func (a *attempt) finish(err error) {
	a.done, a.err = true, err
	p := a.producer
	p.badNews = p.badNews || err != nil
	for len(p.sent) > 0 && p.sent[0].done {
		first := p.sent[0]
		p.sent = p.sent[1:]
		at := p.w.now.Add(p.w.delay())
		if at.Before(p.lastHears) {
			at = p.lastHears
		}
		p.lastHears = at
		p.w.inLife(at.Sub(p.w.now), p.name+" hears", func() { first.answered(first.err) })
	}
}

// disconnected is the end of the broker: no answer will come.
func (p *producer) disconnected() {
	p.sent = nil
	p.again()
}

// answered is the answer to an attempt. One that failed after the append may be in the
// log nevertheless: it is sent again with everything behind it.
func (a *attempt) answered(err error) {
	p := a.producer
	switch {
	case p.over():
		return
	case err == nil:
	case errors.Is(err, kafkaerr.NotLeaderOrFollower), p.w.excused(err):
		p.again()
		return
	default:
		p.w.fail("AckedRecordsReadable", "%s gets an error that no fault explains: %v", p.name, err)
		return
	}
	i := slices.Index(p.unacked, a.batch)
	if i < 0 {
		return // a retry was faster
	}
	p.w.report.Acked++
	p.unacked = slices.Delete(p.unacked, i, i+1)
	if p.promises() && !a.weak {
		p.w.judge.acked(p, a)
	}
	p.send()
}

// promises tells whether an answer promises to keep the batch: always with acks=all. With
// acks=1 the leader's write is promised, which a crash may take; but a leader alone in the
// ISR answers after its flush.
func (p *producer) promises() bool {
	return p.acks == replica.AcksAll || p.acks == replica.AcksOne && !p.w.plan.follower
}

func (p *producer) encode(b *produced) []byte {
	o := batch.BuilderOptions{}
	if p.idempotent {
		o.Producer = &batch.Producer{ID: int64(1000 + p.number), BaseSequence: b.base}
	}
	builder := batch.NewBuilder(o)
	for i := range b.count {
		builder.Append(compacted.New(p.w.wall().UnixMilli(), p.record(b.base+i)))
	}
	v, err := builder.Build(p.w.codecs)
	if err != nil {
		p.w.fail("Harness", "build a batch: %v", err)
	}
	return v
}

// value of a record is unique in the run, and tells the partition it belongs to.
func (p *producer) value(n int32) string { return fmt.Sprint(p.stem(), n) }

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

// stem is what comes before the number.
func (p *producer) stem() string { return p.part.prefix() + p.name + "-" }

// prefix begins the value of every record of a partition.
func (p *part) prefix() string { return fmt.Sprintf("%x/%d/", p.id[:2], p.index) }

// consumer reads one partition from its start on.
type consumer struct {
	w        *world
	part     *part
	position int64
}

// consume reads some records and comes back.
func (c *consumer) consume() {
	if c.part.deleted {
		return
	}
	if b := c.w.broker; b != nil {
		if p := b.of(c.part); p != nil && p.Failure() == nil {
			c.position = c.w.judge.read(p, c.position, 1+c.w.rand.IntN(500))
		}
	}
	if !c.w.calm {
		c.w.after(c.w.delay()*2, "consume", c.consume)
	}
}

// follower is broker 2 on one partition: all of it that matters to a leader.
type follower struct {
	w    *world
	part *part
	end  int64
}

// fetch acknowledges what the last fetch brought, and takes some more. Its flush takes no
// time: what a real one takes is part of the delay.
func (f *follower) fetch() {
	if f.part.deleted {
		return
	}
	f.w.after(f.w.delay(), "follower fetches", f.fetch)
	if f.w.broker == nil {
		return
	}
	p := f.w.broker.of(f.part)
	if p == nil || p.Failure() != nil {
		return
	}
	result, e := p.ReadRecords(f.w.now, &replica.Reader{ReplicaID: followerID, BrokerEpoch: 1}, &replica.FetchPartition{
		FetchOffset: f.end, CurrentLeaderEpoch: replica.NoEpoch, LastFetchedEpoch: replica.NoEpoch,
	}, 1+f.w.rand.IntN(400), true)
	f.w.broker.carryOut(p, e)
	if result.Err != nil {
		if start := int64(p.log.LogStart()); f.end < start {
			f.end = start // retention was faster
		} else if !errors.Is(result.Err, kafkaerr.NotLeaderOrFollower) && !f.w.excused(result.Err) {
			f.w.fail("AckedRecordsReadable", "follower of %s at %d: %v", f.part, f.end, result.Err)
		}
		return
	}
	if result.Records != nil {
		for _, v := range f.w.batches(result.Records) {
			f.end = v.NextOffset()
		}
	}
}

// truncate is what a follower does when it meets the log of a new leader.
func (f *follower) truncate(to int64) { f.end = min(f.end, to) }
