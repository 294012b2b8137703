package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/metalog"
	"github.com/klamm-mq/klamm/internal/invariant"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// errStopped answers what was not decided when the controller stopped.
var errStopped = fmt.Errorf("controller stopped: %w", kafkaerr.NotController)

const (
	// maxPendingRecords stops the taking of requests while so many records are on their
	// way: it bounds memory, and how much is lost work when leadership ends.
	maxPendingRecords = 2 * maxRecordsPerRequest
	// toleratedLateness of the timer is not taken for a standstill of the process.
	toleratedLateness = 200 * time.Millisecond
	// barrierRetry is the pause after a failed barrier of a node that still leads.
	barrierRetry = 100 * time.Millisecond
)

// request is a call on its way through the controller.
type request struct {
	ctx  context.Context
	call Call
	done chan answer // room for the one answer
}

type answer struct {
	response kmsg.Response
	at       metadata.Position
	err      error
}

// phase is what the driver is doing.
type phase int8

const (
	standby    phase = iota // not the leader: requests get NOT_CONTROLLER
	recovering              // leader, but a barrier has to pass first: requests wait
	active                  // requests are decided
)

// driver is the goroutine of Run: it owns the state and feeds the pipeline.
type driver struct {
	c     *Controller
	state *state
	phase phase
	term  metalog.Term
	fresh bool // the next barrier starts a leadership

	pipe           *pipeline // of the current or last active phase
	pending        []*inflight
	sent           int // of pending, how many the pipeline has, or have no records
	pendingRecords int

	tickAt time.Time // when the timer is to fire

	barrier       chan barrierResult
	barrierSerial int // of the barrier that counts
	barrierStop   context.CancelFunc
	barriers      sync.WaitGroup

	probes *probes
}

type barrierResult struct {
	serial int
	image  *metadata.Image
	err    error
}

func newDriver(c *Controller) *driver {
	return &driver{
		c:           c,
		state:       &state{opts: &c.opts},
		barrier:     make(chan barrierResult),
		barrierStop: func() {},
		probes:      newProbes(c.opts.Probe),
	}
}

func (d *driver) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	defer d.shutdown()
	for ctx.Err() == nil {
		d.setTimer(timer)
		step := d.nextStep(ctx, timer)
		woke := time.Now()
		d.noteStandstill(woke, woke.Sub(d.tickAt))
		step()
		done := time.Now()
		d.noteStandstill(done, done.Sub(woke))
	}
}

// nextStep waits for something to do.
func (d *driver) nextStep(ctx context.Context, timer *time.Timer) func() {
	brokers, clients := d.queues()
	send, next := d.nextToSend()
	select {
	case l := <-d.c.opts.Log.Leadership():
		return func() { d.leadership(ctx, l) }
	case o := <-d.outcomes():
		return func() { d.finish(ctx, o) }
	case send <- next:
		return func() { d.sent++ }
	case b := <-d.barrier:
		return func() { d.barrierDone(ctx, b) }
	case p := <-d.probes.done:
		return func() { d.probed(ctx, p) }
	case id := <-d.c.lost:
		return func() { d.connectionLost(ctx, id) }
	case r := <-brokers:
		return func() { d.take(ctx, r, addressNotProbed) }
	case r := <-clients:
		return func() { d.take(ctx, r, addressNotProbed) }
	case <-timer.C:
		return func() { d.tick(ctx, time.Now()) }
	case <-ctx.Done():
		return func() {}
	}
}

// queues gives the queues to take requests from: none while a barrier is on its way or too
// much is pending, which makes callers wait.
func (d *driver) queues() (brokers, clients <-chan *request) {
	if d.phase == recovering || d.pendingRecords >= 2*maxPendingRecords {
		return nil, nil
	}
	if d.pendingRecords >= maxPendingRecords {
		return d.c.brokers, nil
	}
	return d.c.brokers, d.c.clients
}

// nextToSend gives the first pending decision that the pipeline does not have.
func (d *driver) nextToSend() (chan<- *inflight, *inflight) {
	for d.sent < len(d.pending) && len(d.pending[d.sent].entries) == 0 {
		d.sent++
	}
	if d.phase != active || d.sent == len(d.pending) {
		return nil, nil
	}
	return d.pipe.in, d.pending[d.sent]
}

func (d *driver) outcomes() <-chan outcome {
	if d.phase != active { // those of a stopped pipeline have been answered
		return nil
	}
	return d.pipe.out
}

func (d *driver) setTimer(timer *time.Timer) {
	now := time.Now()
	d.tickAt = now.Add(time.Hour)
	if d.phase == active {
		d.tickAt = d.state.nextTick()
	}
	if d.tickAt.Before(now) {
		d.tickAt = now
	}
	timer.Reset(d.tickAt.Sub(now))
}

// noteStandstill gives sessions back the time in which this process stood still (SIGSTOP, a
// laptop's lid), or was busy with one decision. What brokers sent meanwhile waits in the
// queue, or has yet to arrive.
func (d *driver) noteStandstill(now time.Time, standstill time.Duration) {
	if d.phase == active && standstill > toleratedLateness {
		d.state.forgive(now, standstill)
	}
}

// leadership takes the news of who leads.
func (d *driver) leadership(ctx context.Context, l metalog.Leadership) {
	d.abandon(errStopped)
	if d.phase == active {
		d.state.resigned = time.Now()
	}
	d.phase, d.term = standby, l.Term
	d.c.metrics.active.Set(0)
	if l.Leader {
		d.fresh = true
		d.recover(ctx, 0)
	}
}

// abandon answers everything pending with NOT_CONTROLLER and stops the pipeline.
func (d *driver) abandon(why error) {
	if !errors.Is(why, kafkaerr.NotController) {
		why = fmt.Errorf("%w: a proposal failed: %w", kafkaerr.NotController, why)
	}
	for _, p := range d.pending {
		p.answer(answer{err: why})
	}
	d.pending, d.sent, d.pendingRecords = nil, 0, 0
	d.barrierStop()
	if d.pipe != nil {
		d.pipe.stop()
	}
}

// recover asks for a barrier of the current term; requests wait until it has passed.
func (d *driver) recover(ctx context.Context, pause time.Duration) {
	d.phase = recovering
	d.barrierSerial++
	serial, term, old := d.barrierSerial, d.term, d.pipe
	barrierCtx, cancel := context.WithTimeout(ctx, d.c.opts.ProposeTimeout)
	d.barrierStop = cancel
	d.barriers.Go(func() {
		defer cancel()
		image, err := barrier(barrierCtx, d.c.opts.Log, term, old, pause)
		select {
		case d.barrier <- barrierResult{serial, image, err}:
		case <-ctx.Done():
		}
	})
}

// barrier waits for the barrier, but not before the old pipeline has returned from the log:
// what it is about to propose would come after the barrier.
func barrier(ctx context.Context, log Log, term metalog.Term, old *pipeline, pause time.Duration) (*metadata.Image, error) {
	if old != nil {
		<-old.done
	}
	if pause > 0 {
		t := time.NewTimer(pause)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	return log.Barrier(ctx, term)
}

func (d *driver) barrierDone(ctx context.Context, b barrierResult) {
	if b.serial != d.barrierSerial || d.phase != recovering {
		return
	}
	if b.err != nil {
		// Should leadership be lost, news of that will end this.
		d.c.opts.Logger.Warn("metadata barrier failed", "term", d.term, "error", b.err)
		d.recover(ctx, barrierRetry)
		return
	}
	now := time.Now()
	if d.fresh {
		d.state.activate(now, b.image)
		d.c.opts.Logger.Info("controller active", "term", d.term, "position", b.image.Position().Index)
	} else {
		d.state.rebuild(now, b.image)
	}
	d.fresh = false
	d.phase = active
	d.pipe = newPipeline(ctx, d.c.opts.Log, d.term, d.c.opts.ProposeTimeout)
	d.c.metrics.active.Set(1)
}

// take decides one request.
func (d *driver) take(ctx context.Context, r *request, known addressKnowledge) {
	if d.phase != active {
		r.done <- answer{err: fmt.Errorf("node %d: %w", d.c.opts.NodeID, kafkaerr.NotController)}
		return
	}
	now := time.Now()
	if r.ctx.Err() != nil { // nobody waits any more
		d.state.heardLate(now, r.call)
		return
	}
	if _, ok := r.call.Request.(*kmsg.BrokerRegistrationRequest); ok {
		decided, probe := d.state.registerBroker(now, r.call, known)
		switch {
		case probe == nil:
			d.enqueue(decided, r)
		case !d.probeNewcomer(ctx, r, *probe):
			d.take(ctx, r, addressSilent)
		}
		return
	}
	d.enqueue(d.state.decide(now, r.call), r)
}

// decide finds the function for a request.
func (s *state) decide(now time.Time, call Call) decision {
	switch call.Request.(type) {
	case *kmsg.CreateTopicsRequest:
		return s.createTopics(now, call)
	case *kmsg.DeleteTopicsRequest:
		return s.deleteTopics(now, call)
	case *kmsg.CreatePartitionsRequest:
		return s.createPartitions(now, call)
	case *kmsg.ElectLeadersRequest:
		return s.electLeaders(now, call)
	case *kmsg.AlterPartitionAssignmentsRequest:
		return s.alterReassignments(now, call)
	case *kmsg.ListPartitionReassignmentsRequest:
		return s.listReassignments(call)
	case *kmsg.AlterClientQuotasRequest:
		return s.alterClientQuotas(call)
	case *kmsg.UpdateFeaturesRequest:
		return s.updateFeatures(call)
	case *kmsg.UnregisterBrokerRequest:
		return s.unregisterBroker(call)
	case *kmsg.AlterConfigsRequest:
		return s.alterConfigs(call)
	case *kmsg.IncrementalAlterConfigsRequest:
		return s.incrementalAlterConfigs(call)
	case *kmsg.BrokerHeartbeatRequest:
		return s.heartbeat(now, call)
	case *kmsg.AllocateProducerIDsRequest:
		return s.allocateProducerIDs(now, call)
	case *kmsg.AlterPartitionRequest:
		return s.alterPartition(now, call)
	case *kmsg.ControllerRegistrationRequest:
		return s.registerController(now, call)
	case *kmsg.AssignReplicasToDirsRequest:
		return s.assignReplicas(call)
	}
	invariant.Check(false, "request %T in the controller's queue", call.Request)
	return decision{}
}

// enqueue applies a decision to the working image and lines it up for the log. An answer
// without records waits, too, for those before it, since it may depend on them.
func (d *driver) enqueue(decided decision, r *request) {
	entries, err := split(decided.records, decided.atomic, d.state.image.Feature(metadata.FeatureMetadata))
	if err != nil {
		d.c.opts.Logger.Error("decision cannot be written", "error", err)
		decided, entries = decision{}, nil
		if r != nil {
			decided.response = ErrorResponse(r.call.Request, err)
		}
	}
	if decided.fencing {
		d.c.metrics.fenced.Inc()
	}
	if len(decided.records) > 0 && r != nil {
		d.c.opts.Logger.Debug("decided", "request", kmsg.NameForKey(r.call.Request.Key()), "principal", r.call.Principal,
			"records", len(decided.records), "entries", len(entries))
	}
	d.state.take(decided.records)
	p := &inflight{decision: decided, request: r, entries: entries}
	d.pending = append(d.pending, p)
	d.pendingRecords += len(decided.records)
	d.release()
}

// finish takes the outcome of the oldest decision with records.
func (d *driver) finish(ctx context.Context, o outcome) {
	head := d.pending[0]
	invariant.Check(head == o.of, "outcome of a decision that is not the oldest")
	if o.err != nil {
		d.failed(ctx, o)
		return
	}
	d.state.committed = o.at
	if head.committed != nil {
		head.committed(o.at)
	}
	d.pop()
	head.answer(answer{response: head.response, at: o.at})
	d.release()
}

// failed handles a proposal that is not in the log, or of which that is not known: what
// was decided on top of it is void.
func (d *driver) failed(ctx context.Context, o outcome) {
	d.c.metrics.failed.Inc()
	if !errors.Is(o.err, metalog.ErrFull) { // the metadata log says once that its disk is full
		d.c.opts.Logger.Warn("metadata proposal failed", "term", d.term, "error", o.err)
	}
	head, pause := d.pending[0], time.Duration(0)
	switch {
	case head.request == nil:
		// What time alone has caused, the next tick would decide again at once.
		pause = barrierRetry
	case !errors.Is(o.err, kafkaerr.NotController) && errors.Is(o.err, kafkaerr.KafkaStorageError):
		// Nothing was written, and to send it again at once would not help.
		head.answer(answer{response: ErrorResponse(head.request.call.Request, o.err), at: d.state.committed})
		d.pop()
	}
	d.abandon(o.err)
	d.recover(ctx, pause)
}

// release answers the oldest decisions that have nothing to wait for.
func (d *driver) release() {
	for len(d.pending) > 0 && len(d.pending[0].entries) == 0 {
		head := d.pending[0]
		d.pop()
		head.answer(answer{response: head.response, at: d.state.committed})
	}
}

func (d *driver) pop() {
	d.pendingRecords -= len(d.pending[0].records)
	d.pending = d.pending[1:]
	d.sent = max(d.sent-1, 0)
}

func (p *inflight) answer(a answer) {
	if p.request != nil {
		p.request.done <- a
	}
}

// tick decides what time alone causes.
func (d *driver) tick(ctx context.Context, now time.Time) {
	if d.phase != active {
		return
	}
	// A heartbeat that waits in the queue counts.
	for range len(d.c.brokers) {
		d.take(ctx, <-d.c.brokers, addressNotProbed)
	}
	for _, b := range d.state.suspects(now) {
		d.suspect(ctx, now, b)
	}
	for {
		decided, more := d.state.tick(now)
		if !more {
			return
		}
		d.enqueue(decided, nil)
	}
}

// suspect probes a broker that may be dead (D9).
func (d *driver) suspect(ctx context.Context, now time.Time, b *metadata.Broker) {
	d.probes.start(ctx, probeResult{probe: probe{broker: b.ID}, epoch: b.Epoch, began: now}, *d.state.brokerListener(b))
}

// probeNewcomer has an address probed before a registration is decided.
func (d *driver) probeNewcomer(ctx context.Context, r *request, at metadata.Endpoint) bool {
	id := r.call.Request.(*kmsg.BrokerRegistrationRequest).BrokerID
	return d.probes.start(ctx, probeResult{probe: probe{id, true}, request: r}, at)
}

func (d *driver) probed(ctx context.Context, p probeResult) {
	delete(d.probes.running, p.probe)
	switch {
	case p.newcomer && p.refused:
		d.take(ctx, p.request, addressRefuses)
	case p.newcomer:
		d.take(ctx, p.request, addressSilent)
	case p.refused && d.phase == active:
		if decided, ok := d.state.fenceRefusing(p.broker, p.epoch, p.began); ok {
			d.enqueue(decided, nil)
		}
	}
}

// connectionLost takes the news that a broker's heartbeat connection closed.
func (d *driver) connectionLost(ctx context.Context, id brokerIncarnation) {
	if d.phase != active {
		return
	}
	if b := d.state.image.Broker(id.broker); b != nil && b.Epoch == id.epoch && !b.Fenced {
		d.suspect(ctx, time.Now(), b)
	}
}

// shutdown ends what run started and waits for it.
func (d *driver) shutdown() {
	d.abandon(errStopped)
	d.c.metrics.active.Set(0)
	if d.pipe != nil {
		<-d.pipe.done
	}
	d.barriers.Wait()
	d.probes.wg.Wait()
}
