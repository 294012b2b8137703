package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/fetchsession"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/quota"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/configs"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// Throttled replicas, in a third of the runs, as kafka-reassign-partitions --throttle leaves
// them: topics name some or all of their replicas, on one side or both, and brokers have rates.
// Administrators change both all the time, and begin and cancel reassignments meanwhile. In the
// end the throttles are lifted, or the rate is one that lets everything through in time.
//
// What throttled replicas outside the ISR have fetched is flushed beside the group commits, in
// an event of its own: other things happen between that and the append.

// throttles are those of a run, drawn from a source of their own.
type throttles struct {
	rand    *rand.Rand
	on      bool
	samples int // of the meters
	window  time.Duration
	sides   []int // leaders, followers
	begun   bool
	end     throttleEnd
	broker  *configs.Broker // whose defaults topics have
}

// throttleEnd is what has held-back replicas catch up when the faults have ended.
type throttleEnd int8

const (
	withoutRates throttleEnd = iota
	withoutNames
	byTheirRate // endRate, of all replicas
	throttleEnds
)

// endRate lets through in some seconds what a run has produced.
const endRate = "5000" // bytes a second

var (
	throttledRates    = []string{"leader.replication.throttled.rate", "follower.replication.throttled.rate"}
	throttledReplicas = []string{"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}
)

func (w *world) drawThrottles() {
	t := &w.throttles
	t.rand = rand.New(rand.NewPCG(w.opts.Seed, 1<<33))
	switch t.on = t.rand.IntN(3) == 0; {
	case w.opts.Break.throttles():
		t.on = true
	case w.opts.Break != Nothing:
		t.on = false
	}
	t.samples, t.window = 1+t.rand.IntN(6), time.Duration(10+t.rand.IntN(150))*time.Millisecond
	t.sides = [][]int{{0}, {1}, {1}, {0, 1}}[t.rand.IntN(4)]
	if small := int32(1 + t.rand.IntN(200)); t.on && t.rand.IntN(2) == 0 {
		w.plan.fetchBytes = small // who is behind needs many fetches
	}
	t.end, t.broker = throttleEnd(t.rand.IntN(int(throttleEnds))), configs.Default()
}

func (w *world) startThrottles() {
	if w.throttles.on {
		w.after(20*w.plan.maxDelay, "throttle", w.throttle)
	}
}

// throttle changes a throttle, or what is under one, and comes back.
func (w *world) throttle() {
	if w.calm {
		return
	}
	t := &w.throttles
	w.after(time.Duration(1+t.rand.Int64N(int64(w.plan.maxDelay)*40)), "throttle", w.throttle)
	if w.quorum.core == nil {
		return
	}
	switch r := t.rand.IntN(16); {
	case !t.begun:
		t.begun = true
		for i := range w.plan.topics {
			w.set(kmsg.ConfigResourceTypeTopic, fmt.Sprintf("t%d", i), t.of(throttledReplicas), "*")
		}
		w.set(kmsg.ConfigResourceTypeBroker, "", t.of(throttledRates), strconv.Itoa(t.rand.IntN(2000)))
	case r < 5:
		w.nameThrottled()
	case r < 10:
		w.setRates(strconv.Itoa(t.rand.IntN(2) * t.rand.IntN(100<<t.rand.IntN(8))))
	case r == 10:
		w.setRates("")
	case r == 11:
		w.set(kmsg.ConfigResourceTypeTopic, fmt.Sprintf("t%d", t.rand.IntN(w.plan.topics)), throttledReplicas, "")
	case r < 15:
		w.reassign()
	default:
		w.cancelReassignment()
	}
}

// nameThrottled has a topic name throttled replicas.
func (w *world) nameThrottled() {
	t := &w.throttles
	which := "*"
	if t.rand.IntN(2) == 0 {
		var list []string
		for range 1 + t.rand.IntN(3*w.plan.partitions) {
			list = append(list, fmt.Sprintf("%d:%d", t.rand.IntN(w.plan.partitions), 1+t.rand.IntN(len(w.nodes))))
		}
		which = strings.Join(list, ",")
	}
	w.set(kmsg.ConfigResourceTypeTopic, fmt.Sprintf("t%d", t.rand.IntN(w.plan.topics)), t.of(throttledReplicas), which)
}

// setRates sets the rates of all brokers or of one, "" for none.
func (w *world) setRates(rate string) {
	t := &w.throttles
	broker := ""
	if t.rand.IntN(2) == 0 {
		broker = strconv.Itoa(1 + t.rand.IntN(len(w.nodes)))
	}
	w.set(kmsg.ConfigResourceTypeBroker, broker, t.of(throttledRates), rate)
}

// of are the keys of the sides that the run throttles.
func (t *throttles) of(keys []string) (some []string) {
	for _, side := range t.sides {
		some = append(some, keys[side])
	}
	return some
}

// set gives keys of a resource a value, or none.
func (w *world) set(kind kmsg.ConfigResourceType, name string, keys []string, value string) {
	w.tracef("%v of %v %q is to be %q", keys, kind, name, value)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version = 1
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	for _, key := range keys {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = key, &value
		if value == "" {
			c.Op, c.Value = kmsg.IncrementalAlterConfigOpDelete, nil
		}
		r.Configs = append(r.Configs, c)
	}
	req.Resources = append(req.Resources, r)
	w.quorum.handle(w.quorum.leader, req, func(reply kmsg.Response, _ metadata.Position) {
		resp := reply.(*kmsg.IncrementalAlterConfigsResponse)
		switch code := resp.Resources[0].ErrorCode; code {
		case 0:
			w.report.Throttles++
		case kafkaerr.UnknownTopicOrPartition.Code, kafkaerr.BrokerIDNotRegistered.Code:
		default:
			w.fail("Harness", "%v of %q: error %d", keys, name, code)
		}
	})
}

// liftThrottles ends what holds replicas back, of topics too that are not there yet.
func (w *world) liftThrottles() {
	if !w.throttles.on {
		return
	}
	w.after(heartbeatInterval, "lift throttles", w.liftThrottles)
	if w.quorum.core == nil || w.throttled() == "" {
		return
	}
	rate, names := "", ""
	if w.throttles.end == byTheirRate {
		rate, names = endRate, "*"
	}
	if w.throttles.end != withoutNames {
		for _, n := range w.nodes {
			w.set(kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(n.id)), throttledRates, rate)
		}
		w.set(kmsg.ConfigResourceTypeBroker, "", throttledRates, rate)
	}
	if w.throttles.end != withoutRates {
		for t := range w.quorum.image().Topics() {
			w.set(kmsg.ConfigResourceTypeTopic, t.Name, throttledReplicas, names)
		}
	}
}

// throttled tells what is left of the throttles that is to end, "" for nothing.
func (w *world) throttled() string {
	if !w.throttles.on {
		return ""
	}
	image, end := w.quorum.image(), w.throttles.end
	for i := range throttledRates {
		for id := range len(w.nodes) + 1 {
			name := strconv.Itoa(id)
			if id == 0 {
				name = ""
			}
			rate, set := image.Config(metadata.Resource{Type: metadata.BrokerResource, Name: name})[throttledRates[i]]
			if end == withoutRates && set || end == byTheirRate && rate != endRate {
				return fmt.Sprintf("broker %q has a rate of %q", name, rate)
			}
		}
		for t := range image.Topics() {
			names, set := image.Config(metadata.Resource{Type: metadata.TopicResource, Name: t.Name})[throttledReplicas[i]]
			if end == withoutNames && set || end == byTheirRate && names != "*" {
				return fmt.Sprintf("of %s %q are throttled", t.Name, names)
			}
		}
	}
	return ""
}

// newThrottle is the meter of one side, with the rate that the applied metadata says.
func (b *broker) newThrottle(key string, paced bool) *quota.Replication {
	t := &b.w.throttles
	return quota.NewReplication(quota.ReplicationOptions{
		Samples: t.samples, Window: t.window, Epoch: b.w.begin, Paced: paced,
		Limit: func() (bytesPerSecond float64, set bool) { return b.rate(key) },
	})
}

// rate is that of the broker, before that of all.
func (b *broker) rate(key string) (bytesPerSecond float64, set bool) {
	if b.image == nil {
		return 0, false
	}
	for _, name := range []string{strconv.Itoa(int(b.n.id)), ""} {
		if text, ok := b.image.Config(metadata.Resource{Type: metadata.BrokerResource, Name: name})[key]; ok {
			n, err := strconv.ParseFloat(text, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// topicConfig is that of a topic, as far as replicas here care.
func (b *broker) topicConfig(topic string) replica.TopicConfig {
	c := replica.TopicConfig{Log: b.w.brokenConfig(), MinInSyncCount: b.w.plan.minISR}
	if b.image == nil || !b.w.throttles.on {
		return c
	}
	parsed, err := configs.ParseTopic(b.image.Config(metadata.Resource{Type: metadata.TopicResource, Name: topic}), b.w.throttles.broker)
	if err != nil {
		b.w.fail("Harness", "configuration of %s: %v", topic, err)
	}
	here := func(t configs.ThrottledReplicas) replica.Throttled {
		return replica.Throttled{All: t.All, Partitions: t.On(b.n.id)}
	}
	c.LeaderThrottled, c.FollowerThrottled = here(parsed.LeaderThrottledReplicas), here(parsed.FollowerThrottledReplicas)
	return c
}

// applyConfigs gives the replicas of topics what has changed of them, before their roles
// change, as replica.Manager does.
func (b *broker) applyConfigs(delta *metadata.Delta) {
	for change := range delta.Configs() {
		if change.Type != metadata.TopicResource || b.image.Topic(change.Name) == nil {
			continue
		}
		for _, p := range slices.Clone(b.order) {
			if p.id.TopicID == b.image.Topic(change.Name).ID && !b.n.crashed {
				b.reconfigure(p)
			}
		}
	}
}

// reconfigure has a follower that is throttled by now, or is not any more, fetched with the
// others that are, or are not.
func (b *broker) reconfigure(p *partition) {
	old := p.throttled(p.config.FollowerThrottled)
	p.config = b.topicConfig(p.topic)
	b.carryOut(p, p.UpdateConfig(b.w.now, p.config))
	if leader, leads := p.Leader(); p.throttled(p.config.FollowerThrottled) != old && b.fetchedBy[p.id] != nil && !leads {
		b.follow(p, leader.ID, leader.Epoch)
	}
}

func (p *partition) throttled(t replica.Throttled) bool {
	return t.All || slices.Contains(t.Partitions, p.id.Partition)
}

// overQuota tells whether followers are to be sent nothing.
func (b *broker) overQuota() bool {
	over := b.leaderThrottle.Exceeded(b.w.now) > 0
	if over {
		b.w.report.Withheld++
	}
	return over
}

// countThrottled counts what an answer sends of throttled replicas.
func (f *parkedFetch) countThrottled(results []replica.FetchResult) {
	size := 0
	for i := range results {
		p := f.b.parts[replica.TopicIDPartition{TopicID: f.parts[i].TopicID, Partition: f.parts[i].Partition}]
		if r := results[i].Records; r != nil && p != nil && p.throttled(p.config.LeaderThrottled) {
			size += r.Len()
		}
	}
	if size > 0 {
		f.b.leaderThrottle.Record(f.b.w.now, size)
	}
}

// flushAlone is of what an answer has brought of replicas that nobody waits for.
type flushAlone struct {
	b    *broker
	logs []behind
	done bool
}

type behind struct {
	log    *logstore.Log
	d      *directory
	forget bool
}

func (x *flushAlone) add(p *partition, forget bool) {
	x.logs = append(x.logs, behind{p.log, p.d, forget})
}

// run flushes. A process that stops in good order waits for its fetchers, and so for this.
func (x *flushAlone) run() {
	if x.done {
		return
	}
	x.done = true
	n := x.b.n
	n.alone = true
	defer func() { n.alone = false }()
	for _, l := range x.logs {
		if n.crashed {
			return
		}
		n.w.report.FlushedAlone++
		if n.w.opts.Break != FlushAloneLeftOut {
			l.log.FlushAlone(l.forget)
		}
		l.d.wantFlush()
	}
}

// flushAlone schedules that, and what comes then; done is called at once if there is nothing.
func (b *broker) flushAlone(x *flushAlone, done func()) {
	if len(x.logs) == 0 {
		done()
		return
	}
	b.alone = append(slices.DeleteFunc(b.alone, func(x *flushAlone) bool { return x.done }), x)
	b.after(time.Duration(b.w.throttles.rand.Int64N(int64(b.w.plan.maxDelay))), "flush alone", func() {
		if x.run(); !b.n.crashed {
			done()
		}
	})
}

// asks looks at a fetch before it is sent: no member of the ISR is left out of a session for
// the sake of a throttle.
func (j *judge) asks(b *broker, req *kmsg.FetchRequest) {
	for _, t := range req.ForgottenTopics {
		for _, index := range t.Partitions {
			j.w.report.Forgotten++
			p := b.parts[replica.TopicIDPartition{TopicID: t.TopicID, Partition: index}]
			if p == nil {
				continue
			}
			if j.knownInSync(b, p.id, b.n.id) {
				j.w.fail("InSyncNotHeldBack", "%s-%d on %d is in the ISR, and not to be fetched; its log ends at %d", t.Topic, index, b.n.id, p.log.LogEnd())
			}
		}
	}
}

// sends looks at what a leader has read for a follower that lacked records, when anything would
// have had room: no member of the ISR gets nothing for the sake of a throttle.
func (j *judge) sends(p *partition, to *replica.Reader, r *replica.FetchResult) {
	if r.Records != nil || r.Err != nil || r.Diverging != nil || to.NoRoom || !j.leadsNow(p) || p.log.Failure() != nil {
		return
	}
	if j.knownInSync(p.d.b, p.id, to.ReplicaID) {
		j.w.fail("InSyncNotHeldBack", "%s-%d: broker %d, in the ISR, is sent nothing by %d", p.topic, p.id.Partition, to.ReplicaID, p.d.b.n.id)
	}
}

// knownInSync tells whether a broker's replica is in the ISR, and another broker has applied that.
// What it has not heard of it cannot heed: a follower that is caught up, and has had no answer
// since an election, goes by the ISR that it knows.
func (j *judge) knownInSync(b *broker, id replica.TopicIDPartition, member int32) bool {
	if b.taken == nil {
		return false
	}
	known, now := b.taken.Partition(id.TopicID, id.Partition), j.w.quorum.image().Partition(id.TopicID, id.Partition)
	return known != nil && now != nil && known.PartitionEpoch == now.PartitionEpoch && slices.Contains(now.ISR, member)
}

// throttles tells whether a break is one of throttles.
func (how Break) throttles() bool {
	switch how {
	case FlushAloneUnsynced, FlushAloneLeftOut, NeverLetThrough, ForgottenForGood, WithheldInSync, ForgottenInSync:
		return true
	default:
		return false
	}
}

// askedThrottle is what a fetcher asks. With NeverLetThrough it is exceeded for ever once it
// was.
type askedThrottle struct {
	replica.Throttle
	w    *world
	wait time.Duration
}

// Exceeded counts that too.
func (a *askedThrottle) Exceeded(now time.Time) time.Duration {
	wait := a.Throttle.Exceeded(now)
	if a.w.opts.Break == NeverLetThrough {
		a.wait = max(a.wait, wait)
		wait = a.wait
	}
	if wait > 0 {
		a.w.report.HeldBack++
	}
	return wait
}

// forgotten is what a session was told to forget.
type forgotten struct {
	session int32
	key     fetchsession.Key
}

// takenIn are the partitions that a session takes in; with ForgottenForGood none that it was
// told to forget.
func (b *broker) takenIn(r *fetchsession.Request) []fetchsession.Partition {
	if b.w.opts.Break != ForgottenForGood || r.Epoch <= 0 {
		return r.Partitions
	}
	if b.forgotten == nil {
		b.forgotten = map[forgotten]bool{}
	}
	for _, k := range r.Forgotten {
		b.forgotten[forgotten{r.SessionID, k}] = true
	}
	return slices.DeleteFunc(r.Partitions, func(p fetchsession.Partition) bool { return b.forgotten[forgotten{r.SessionID, p.Key}] })
}

// forgetAnyway has a session forget a member of the ISR, for ForgottenInSync.
func (b *broker) forgetAnyway(fetch *kmsg.FetchRequest) {
	if b.w.opts.Break != ForgottenInSync || fetch.SessionEpoch <= 0 || b.followerThrottle.Exceeded(b.w.now) == 0 {
		return
	}
	for _, t := range fetch.Topics {
		for _, p := range t.Partitions {
			f := kmsg.NewFetchRequestForgottenTopic()
			f.Topic, f.TopicID, f.Partitions = t.Topic, t.TopicID, []int32{p.Partition}
			fetch.ForgottenTopics = append(fetch.ForgottenTopics, f)
		}
	}
}

// breakWithheld takes away what throttled replicas in the ISR are to be sent, for
// WithheldInSync.
func (b *broker) breakWithheld(p *partition, to *replica.Reader, r *replica.FetchResult) {
	if b.w.opts.Break == WithheldInSync && r.Records != nil && p.throttled(p.config.LeaderThrottled) && to.OverQuota() {
		r.Records.Release()
		r.Records = nil
	}
}
