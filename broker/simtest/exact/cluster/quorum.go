package cluster

import (
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/controller"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// quorum stands for Raft, and holds the controller. What a controller proposes is committed
// in order, while a majority of the nodes is up. When another one is elected, what was
// proposed and not committed survives up to a random point, and the new one begins with all
// that has (architecture.md, D17).
type quorum struct {
	w       *world
	log     [][]metadata.Record // committed entries; entry i has index i+1
	images  []*metadata.Image   // after each of them
	term    uint64
	leader  int32 // node id, 0: none
	core    *controller.Core
	pending []*proposal
}

// proposal is a decision on its way.
type proposal struct {
	controller.Decision
	answer  func(kmsg.Response, metadata.Position) // nil: nobody asked
	unclean bool                                   // it was asked for unclean elections
}

func (q *quorum) init(w *world) {
	q.w = w
	q.commit([]metadata.Record{metadata.BootstrapRecord{
		ClusterID: "exact", Durability: w.durability(),
		Features: []metadata.FeatureLevel{{Name: metadata.FeatureMetadata, Level: metadata.MaxMetadataLevel}},
	}}, false)
}

// committed is the index of the last entry.
func (q *quorum) committed() uint64 { return uint64(len(q.log)) }

func (q *quorum) image() *metadata.Image {
	if len(q.images) == 0 {
		return metadata.Empty()
	}
	return q.images[len(q.images)-1]
}

func (q *quorum) commit(records []metadata.Record, unclean bool) metadata.Position {
	pos := metadata.Position{Index: q.committed() + 1, Term: q.term}
	delta := metadata.NewDelta(q.image())
	if err := delta.ReplayAll(records...); err != nil {
		q.w.fail("Harness", "records of the controller: %v", err)
	}
	q.log, q.images = append(q.log, records), append(q.images, delta.Image(pos))
	q.w.judge.committed(delta, unclean)
	for _, n := range q.w.nodes {
		q.tell(n)
	}
	return pos
}

// tell lets a node know how far the log is.
func (q *quorum) tell(n *node) {
	if q.leader == 0 {
		return
	}
	at := q.committed()
	q.w.net.send(q.leader, n.id, "metadata", func(b *broker) { b.learn(at) }, nil)
}

// majority tells whether more than half of the nodes is up and reaches one, in both
// directions.
func (q *quorum) majority(of int32) bool {
	up := 0
	for _, n := range q.w.nodes {
		if n.up() && !q.w.net.cut[link{of, n.id}] && !q.w.net.cut[link{n.id, of}] {
			up++
		}
	}
	return 2*up > len(q.w.nodes) && q.w.node(of).up()
}

// check elects a controller where there is none that a majority follows, and lets time pass
// for the one that there is.
func (q *quorum) check() {
	q.w.after(20*time.Millisecond, "check of the quorum", q.check)
	if q.leader == 0 || !q.majority(q.leader) {
		q.elect()
	}
	if q.core == nil {
		return
	}
	for {
		d, more := q.core.Tick(q.w.now)
		if !more {
			break
		}
		q.propose(d, nil)
	}
	for _, n := range q.w.nodes {
		q.tell(n)
	}
}

// elect makes another node the controller, if a majority follows it.
func (q *quorum) elect() {
	survive := 0
	if n := len(q.pending); n > 0 {
		survive = q.w.rand.IntN(n + 1)
	}
	kept := q.pending[:survive]
	q.pending, q.core, q.leader = nil, nil, 0
	for _, i := range q.w.rand.Perm(len(q.w.nodes)) {
		if id := q.w.nodes[i].id; q.majority(id) {
			q.leader = id
			break
		}
	}
	if q.leader == 0 {
		return // what was proposed is lost: a lawful outcome, too
	}
	q.term++
	q.w.report.Controllers++
	for _, p := range kept {
		if len(p.Records) > 0 {
			q.commit(q.w.broken(p.Records), p.unclean)
		}
	}
	q.w.tracef("controller is %d, term %d, %d of its predecessor's proposals survive", q.leader, q.term, len(kept))
	q.core = controller.NewCore(q.w.now, q.options(), q.image())
}

func (q *quorum) options() controller.Options {
	return controller.Options{
		NodeID: q.leader, Topics: topicRules{q.w}, SessionTimeout: sessionTimeout,
		LeaderBalanceInterval: 500 * time.Millisecond, LeaderBalanceDisabled: !q.w.plan.preferred,
		UncleanElectionPeriod: time.Second,
		Rand:                  rand.New(rand.NewPCG(q.w.opts.Seed, q.term)),
		IDs:                   randReader{rand.New(rand.NewPCG(q.w.opts.Seed, q.term+1<<32))},
	}
}

// handle decides a request that has come to a node.
func (q *quorum) handle(at int32, req kmsg.Request, answer func(kmsg.Response, metadata.Position)) {
	if q.core == nil || q.leader != at {
		return // NOT_CONTROLLER, to whoever asks; here it asks again after its timeout
	}
	d := q.core.Decide(q.w.now, controller.Call{Request: req}, func(e metadata.Endpoint) bool {
		return !q.w.node(e.Port).up()
	})
	q.propose(d, answer)
	q.pending[len(q.pending)-1].unclean = asksUnclean(req)
}

// connectionLost is what fast fencing (D9) makes of a process that died.
func (q *quorum) connectionLost(n *node, epoch int64) {
	if q.core == nil || n.up() {
		return
	}
	if d, ok := q.core.Refused(n.id, epoch, q.w.now); ok {
		q.propose(d, nil)
	}
}

func (q *quorum) propose(d controller.Decision, answer func(kmsg.Response, metadata.Position)) {
	q.pending = append(q.pending, &proposal{Decision: d, answer: answer})
	term := q.term
	q.w.after(q.w.delay(), "commit", func() { q.commitNext(term) })
}

// commitNext commits the oldest proposal of a term.
func (q *quorum) commitNext(term uint64) {
	if q.term != term || len(q.pending) == 0 {
		return
	}
	if !q.majority(q.leader) {
		q.w.after(q.w.plan.maxDelay, "commit", func() { q.commitNext(term) })
		return
	}
	p := q.pending[0]
	q.pending = q.pending[1:]
	at := metadata.Position{Index: q.committed(), Term: q.term}
	if len(p.Records) > 0 {
		at = q.commit(q.w.broken(p.Records), p.unclean)
	}
	p.Committed(at)
	if p.answer != nil {
		p.answer(p.Response, at)
	}
}

// topicRules are the topic keys that the controller reads.
type topicRules struct{ w *world }

// Validate implements controller.TopicConfigs.
func (topicRules) Validate(map[string]string) error { return nil }

// Effective implements controller.TopicConfigs.
func (topicRules) Effective(map[string]string) []controller.ConfigEntry { return nil }

// Elections implements controller.TopicConfigs.
func (t topicRules) Elections(config map[string]string) controller.ElectionConfig {
	return controller.ElectionConfig{
		MinISR: int32(t.w.plan.minISR), UncleanElection: t.w.opts.Break == UncleanElections || config[uncleanKey] == "true",
	}
}

// CheckGroup implements controller.TopicConfigs.
func (topicRules) CheckGroup(map[string]string) error { return kafkaerr.InvalidRequest }

// With implements controller.TopicConfigs.
func (t topicRules) With(map[string]string, map[string]string) controller.TopicConfigs { return t }

// durability of all topics.
func (w *world) durability() metadata.Durability {
	if w.plan.fsync {
		return metadata.DurabilityFsync
	}
	return metadata.DurabilityReplicated
}
