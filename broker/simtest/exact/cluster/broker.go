package cluster

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/controller"
	"github.com/klamm-mq/klamm/cluster/fetchsession"
	"github.com/klamm-mq/klamm/cluster/metadata"
	member "github.com/klamm-mq/klamm/cluster/node"
	"github.com/klamm-mq/klamm/cluster/quota"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/offset"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// broker is one process: the cores of a broker, and what drives them here.
type broker struct {
	w *world
	n *node

	dirs     []*directory
	parts    map[replica.TopicIDPartition]*partition
	order    []*partition // by creation here
	sessions *fetchsession.Cache
	parked   []*parkedFetch
	fetchers map[fetcherKey]*fetcher
	// fetchedBy is the fetcher of each replica that follows.
	fetchedBy map[replica.TopicIDPartition]*fetcher

	incarnation   uuid.UUID
	previousEpoch int64 // of a clean stop
	epoch         int64 // of the registration, -1 before it
	registering   bool

	known       uint64          // how far the metadata log is known to be
	publishFrom uint64          // the position of the registration
	image       *metadata.Image // applied; nil before the first
	taken       *metadata.Image // that all replicas have taken over
	inService   bool            // unfenced, as the last heartbeat said
	stopping    bool

	leaderThrottle, followerThrottle *quota.Replication
	alone                            []*flushAlone      // scheduled
	forgotten                        map[forgotten]bool // see ForgottenForGood

	moves   map[replica.TopicIDPartition]*moving
	futures []placed // copies that an earlier process has begun, until metadata is applied
}

// partition is a replica of this process.
type partition struct {
	*replica.Partition
	id        replica.TopicIDPartition
	topic     string
	log       *logstore.Log // nil if there is none that can be used
	d         *directory
	remains   bool         // there are files, which could not be opened
	left      []*directory // where it has been
	assigning bool         // the controller is being told where it is
	config    replica.TopicConfig
	waiting   []*attempt
	judged    judged
}

func newBroker(n *node) *broker {
	r := rand.New(rand.NewPCG(n.w.opts.Seed, uint64(n.id)<<32|uint64(n.life)))
	b := &broker{
		w: n.w, n: n, parts: make(map[replica.TopicIDPartition]*partition), fetchers: make(map[fetcherKey]*fetcher),
		fetchedBy: make(map[replica.TopicIDPartition]*fetcher),
		moves:     make(map[replica.TopicIDPartition]*moving),
		epoch:     -1, previousEpoch: -1,
		sessions: fetchsession.NewCache(fetchsession.Options{Rand: r, WalkEvery: n.w.opts.Break.walkEvery()}),
	}
	b.incarnation, _ = uuid.New(randReader{r})
	b.leaderThrottle, b.followerThrottle = b.newThrottle(throttledRates[0], false), b.newThrottle(throttledRates[1], true)
	return b
}

// after schedules an event of this process.
func (b *broker) after(d time.Duration, name string, run func()) {
	b.w.schedule(&event{at: b.w.now.Add(d), name: name, node: b.n, life: b.n.life, run: run})
}

// randReader draws bytes from a seed.
type randReader struct{ *rand.Rand }

// Read implements io.Reader.
func (r randReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return len(p), nil
}

var _ io.Reader = randReader{}

func (b *broker) open() error {
	b.n.recovering = true
	r := rand.New(rand.NewPCG(b.w.opts.Seed, uint64(b.n.id)<<40|uint64(b.n.life)))
	fsys := b.n.process()
	for i := range b.w.plan.directories {
		if err := b.openDir(fsys, directoryPath(i), randReader{r}); err != nil {
			return err
		}
	}
	b.previousEpoch = b.cleanStop()
	return nil
}

// directoryPath is where a node has its log directories.
func directoryPath(i int) string {
	if i == 0 {
		return "/data"
	}
	return fmt.Sprintf("/data%d", i+1)
}

func (b *broker) openDir(fsys vfs.FS, path string, ids io.Reader) error {
	dir, err := logstore.OpenDir(logstore.DirOptions{
		FS: fsys, Path: path, NodeID: b.n.id, ClusterID: "exact", Rand: ids,
		Logger: slog.New(slog.DiscardHandler), Codecs: b.w.codecs, ReserveBytes: 1,
	})
	if err != nil {
		return err
	}
	d := &directory{Dir: dir, b: b}
	o := b.w.plan.keeper
	o.HighWatermark, o.Wake = b.highWatermark, d.wantFlush
	o.OnDeleted = func(l *logstore.Log, _ []logstore.DeletedSegment) {
		if p := b.ofLog(l); p != nil {
			p.LogStartMoved()
		}
	}
	d.keeper = logstore.NewKeeper(dir, o)
	b.dirs = append(b.dirs, d)
	return nil
}

func (b *broker) highWatermark(l *logstore.Log) (offset.HighWatermark, bool) {
	if p := b.ofLog(l); p != nil {
		return p.HighWatermark(), true
	}
	return 0, false
}

func (b *broker) ofLog(l *logstore.Log) *partition {
	if p := b.parts[replica.TopicIDPartition{TopicID: l.ID().TopicID, Partition: l.ID().Partition}]; p != nil && p.log == l {
		return p
	}
	return nil
}

// ask sends a request to whoever is the controller, and again until it is answered.
func (b *broker) ask(req kmsg.Request, what string, done func(kmsg.Response, metadata.Position)) {
	type reply struct {
		resp kmsg.Response
		at   metadata.Position
	}
	to := b.w.quorum.leader
	if to == 0 {
		to = b.n.id
	}
	call(b.w, b, to, what, func(at *broker, answer func(reply)) {
		b.w.quorum.handle(at.n.id, req, func(resp kmsg.Response, pos metadata.Position) { answer(reply{resp, pos}) })
	}, func(r reply, err error) {
		if err != nil {
			done(nil, metadata.Position{})
			return
		}
		done(r.resp, r.at)
	})
}

// register makes the process a member, as node.Node does.
func (b *broker) register() {
	if b.registering {
		return
	}
	b.registering = true
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.Version = 4
	req.BrokerID, req.ClusterID, req.IncarnationID, req.PreviousBrokerEpoch = b.n.id, "exact", b.incarnation, b.previousEpoch
	for _, d := range b.dirs {
		req.LogDirs = append(req.LogDirs, d.DirectoryID())
	}
	l := kmsg.NewBrokerRegistrationRequestListener()
	l.Name, l.Host, l.Port = "B", "node", uint16(b.n.id)
	req.Listeners = append(req.Listeners, l)
	f := kmsg.NewBrokerRegistrationRequestFeature()
	f.Name, f.MinSupportedVersion, f.MaxSupportedVersion = metadata.FeatureMetadata, metadata.MinMetadataLevel, metadata.MaxMetadataLevel
	req.Features = append(req.Features, f)
	b.ask(req, "registration", func(reply kmsg.Response, at metadata.Position) {
		b.registering = false
		resp, ok := reply.(*kmsg.BrokerRegistrationResponse)
		if !ok || resp.ErrorCode != 0 {
			b.after(heartbeatInterval, "register again", b.register)
			return
		}
		first := b.epoch < 0
		b.epoch, b.publishFrom = resp.BrokerEpoch, at.Index
		b.learn(at.Index)
		if first {
			b.beat()
		}
	})
}

// registered tells whether metadata has this very process.
func (b *broker) registered() bool {
	m := b.w.quorum.image().Broker(b.n.id)
	return m != nil && b.epoch >= 0 && m.Epoch == b.epoch
}

// beat sends a heartbeat, and comes back.
func (b *broker) beat() {
	b.after(heartbeatInterval, "heartbeat", b.beat)
	if b.registering {
		return
	}
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.Version, req.BrokerID, req.BrokerEpoch = 2, b.n.id, b.epoch
	req.WantFence, req.WantShutdown = b.image == nil && !b.stopping, b.stopping
	var failed []controller.FailedReplica
	for _, id := range b.failedReplicas() {
		failed = append(failed, controller.FailedReplica{TopicID: id.TopicID, Partition: id.Partition})
	}
	controller.SetFailedReplicas(req, failed)
	if b.w.opts.Break != FullDirsUntold {
		controller.SetFullDirs(req, b.fullDirs())
	}
	if b.image != nil {
		req.CurrentMetadataOffset = int64(b.image.Position().Index)
	}
	b.ask(req, "heartbeat", func(reply kmsg.Response, _ metadata.Position) {
		resp, ok := reply.(*kmsg.BrokerHeartbeatResponse)
		switch {
		case !ok:
		case resp.ErrorCode == kafkaerr.StaleBrokerEpoch.Code && !b.stopping:
			b.register()
		case b.stopping && (resp.ErrorCode != 0 || resp.ShouldShutdown):
			b.stop()
		default:
			b.inService = !resp.IsFenced
		}
	})
}

// fullDirs are the directories without room.
func (b *broker) fullDirs() (full []uuid.UUID) {
	for _, d := range b.dirs {
		if d.Full() {
			full = append(full, d.DirectoryID())
		}
	}
	return full
}

// alterPartition proposes a change of an ISR, and does so again as Partition says.
func (b *broker) alterPartition(p *partition, change *replica.ISRChange) {
	changes := []*replica.ISRChange{change}
	b.ask(member.AlterPartitionRequest(b.n.id, b.epoch, changes), "AlterPartition", func(reply kmsg.Response, _ metadata.Position) {
		var err error
		if reply == nil {
			err = errNoAnswer
		}
		e, retry := p.AlterPartitionDone(b.w.now, change, member.ISRResults(changes, reply, err)[0])
		if retry {
			b.after(heartbeatInterval/2, "AlterPartition again", func() { b.alterPartition(p, change) })
		}
		b.carryOut(p, e)
	})
}

// BrokerEpoch implements replica.Brokers with the applied metadata.
func (b *broker) BrokerEpoch(id int32) (epoch int64, eligible bool) {
	if b.image == nil {
		return -1, false
	}
	m := b.image.Broker(id)
	if m == nil || m.Fenced {
		return -1, false
	}
	return m.Epoch, !m.InControlledShutdown
}

// HasOnlineDir implements replica.Brokers.
func (b *broker) HasOnlineDir(id int32, dir uuid.UUID) bool {
	if b.image == nil {
		return false
	}
	m := b.image.Broker(id)
	return m != nil && m.HasOnlineDir(dir)
}

// carryOut does what replica.Manager does with effects.
func (b *broker) carryOut(p *partition, e replica.Effects) {
	if b.n.crashed {
		return
	}
	if e.FlushWanted {
		p.d.wantFlush()
	}
	if e.Wake {
		b.answer(p)
	}
	if e.WakeFetcher {
		b.wakeFetches(p)
	}
	if e.AlterPartition != nil {
		b.alterPartition(p, e.AlterPartition)
	}
}

// answer lets every produce that waits on p look whether it is done.
func (b *broker) answer(p *partition) {
	still := p.waiting[:0]
	for _, a := range p.waiting {
		if done, err := p.Reached(a.awaited); done {
			a.finish(err)
			continue
		}
		still = append(still, a)
	}
	p.waiting = still
}

// learn hears how far the metadata log is.
func (b *broker) learn(at uint64) {
	b.known = max(b.known, at)
	if b.epoch >= 0 && b.known >= b.publishFrom && (b.image == nil || b.known > b.image.Position().Index) {
		b.apply(b.known)
	}
}

// pull asks how far it is, in case nobody tells.
func (b *broker) pull() {
	b.after(heartbeatInterval, "look for metadata", b.pull)
	for _, p := range b.order {
		if p.LeadsFollowers() {
			b.carryOut(p, p.Tick(b.w.now))
		}
	}
}

// apply makes the replicas what the metadata up to an entry says, as replica.Manager does.
func (b *broker) apply(to uint64) {
	base := b.image
	if base == nil {
		base = metadata.Empty()
	}
	delta := metadata.NewDelta(base)
	for i := base.Position().Index; i < to; i++ {
		if err := delta.ReplayAll(b.w.quorum.log[i]...); err != nil {
			b.w.fail("Harness", "replay entry %d: %v", i+1, err)
		}
	}
	want := b.w.quorum.images[to-1]
	next := delta.Image(want.Position())
	if metadata.DiffImages(want, next) != "" {
		b.w.fail("ImagesEqualAtOffset", "broker %d at %d: %s", b.n.id, to, metadata.DiffImages(want, next))
	}
	if b.image == nil {
		if err := b.openLogs(next); err != nil || b.n.crashed {
			b.startFailed(err)
			return
		}
	}
	first := b.image == nil
	b.image = next
	b.applyConfigs(delta)
	for topic := range delta.Topics() {
		for change := range topic.Partitions() {
			if !b.n.crashed {
				b.change(topic, change)
			}
		}
	}
	b.taken = next
	if first {
		b.resumeMoves()
	}
}

func (b *broker) change(topic metadata.TopicChange, change metadata.PartitionChange) {
	id := replica.TopicIDPartition{TopicID: topic.ID, Partition: change.Index}
	if change.New == nil || !slices.Contains(change.New.Replicas, b.n.id) {
		b.remove(id)
		return
	}
	if p := b.parts[id]; p != nil {
		b.assume(p, change.New)
	} else {
		b.begin(id, topic.Name(), change.New)
	}
	if p := b.parts[id]; p != nil && !b.n.crashed {
		b.settlePlace(p, change.New)
		b.repair(p, change.New)
	}
}

// begin makes a replica that was never here, and gives it its role.
func (b *broker) begin(id replica.TopicIDPartition, topic string, state *metadata.Partition) {
	if p := b.add(id, topic); p != nil {
		b.assume(p, state)
	}
}

// excused tells whether an error of the storage is explained by a disk that is full.
func (b *broker) excused(err error) bool { return logstore.MayPass(err) && b.n.disturbed() }

// add makes a replica that was never here. One that cannot be created comes again.
func (b *broker) add(id replica.TopicIDPartition, topic string) *partition {
	p := &partition{id: id, topic: topic, d: b.chooseDirectory(id)}
	var err error
	p.log, err = p.d.CreateLog(b.w.now, logstore.ID{Topic: topic, TopicID: id.TopicID, Partition: id.Partition}, b.w.plan.config)
	switch {
	case b.n.crashed:
		return nil
	case err == nil:
		return b.host(p, nil)
	case !b.excused(err):
		b.w.fail("CleanRecovery", "broker %d cannot create %s-%d: %v", b.n.id, topic, id.Partition, err)
		return nil
	}
	b.w.tracef("%s-%d is not created: %v", topic, id.Partition, err)
	b.after(b.w.plan.maxDelay*5, "create again", func() {
		if b.parts[id] != p {
			return
		}
		b.forget(p)
		b.begin(id, topic, b.image.Partition(id.TopicID, id.Partition))
	})
	p.log = nil
	return b.host(p, fmt.Errorf("%w: %w", kafkaerr.KafkaStorageError, err))
}

// host takes in a replica; failed says that its log cannot be used.
func (b *broker) host(p *partition, failed error) *partition {
	p.config = b.topicConfig(p.topic)
	o := replica.PartitionOptions{
		ID: p.id, Topic: p.topic, BrokerID: b.n.id, Failed: failed,
		Config: p.config, Brokers: b, ReplicaLagMax: lagMax,
	}
	if p.log != nil {
		o.Log = b.w.brokenLog(p.log)
	}
	p.Partition = replica.NewPartition(o)
	b.parts[p.id] = p
	b.order = append(b.order, p)
	return p
}

// forget takes a replica off the list.
func (b *broker) forget(p *partition) {
	delete(b.parts, p.id)
	b.order = slices.DeleteFunc(b.order, func(o *partition) bool { return o == p })
}

func (b *broker) remove(id replica.TopicIDPartition) {
	p := b.parts[id]
	if p == nil {
		return
	}
	b.forget(p)
	b.leave(p)
	b.carryOut(p, p.Retire(kafkaerr.UnknownTopicOrPartition))
	b.w.mended(b.n, id)
	b.endMove(p)
	b.dropCopies(id)
	if b.n.crashed {
		return
	}
	err := b.retire(func() (err error) {
		if p.log != nil {
			err = p.d.DeleteLogs(b.w.now, p.log)
			for _, d := range p.left {
				if d != p.d && !b.n.crashed {
					err = errors.Join(err, d.ForgetMoved(p.log.ID()))
				}
			}
		}
		for _, d := range b.dirs {
			if !b.n.crashed {
				err = errors.Join(err, d.DeleteFailed(b.w.now, logstore.ID{Topic: p.topic, TopicID: id.TopicID, Partition: id.Partition}))
			}
		}
		return err
	}, id)
	if err != nil && !b.excused(err) {
		b.w.fail("CleanDeletion", "broker %d deletes %s-%d: %v", b.n.id, p.topic, id.Partition, err)
	}
}

// assume makes p leader or follower.
func (b *broker) assume(p *partition, state *metadata.Partition) {
	if state.Leader != b.n.id {
		b.carryOut(p, p.BecomeFollower(state))
		b.w.truncateByHighWatermark(p)
		if state.Leader == metadata.NoLeader || p.Failure() != nil {
			b.leave(p)
			return
		}
		b.follow(p, state.Leader, state.LeaderEpoch)
		return
	}
	b.leave(p)
	offline := p.Failure() != nil
	e, err := p.BecomeLeader(b.w.now, state)
	switch {
	case b.n.crashed:
	case offline:
	case err != nil && !b.excused(err):
		b.w.fail("CleanRecovery", "broker %d cannot lead %s-%d: %v", b.n.id, p.topic, p.id.Partition, err)
	case err != nil:
		b.w.tracef("cannot lead %s-%d: %v", p.topic, p.id.Partition, err)
		b.fail(p, err)
	default:
		b.carryOut(p, e)
	}
}

// stop ends the process in good order.
func (b *broker) stop() {
	if b.w.cleanings.under { // it ends first
		b.after(0, "stop later", b.stop)
		return
	}
	b.w.tracef("clean stop")
	b.w.report.Stops++
	for _, x := range b.alone {
		x.run()
	}
	for _, d := range b.dirs {
		d.stop()
		for _, p := range b.order {
			b.carryOut(p, p.Retire(kafkaerr.NotLeaderOrFollower))
		}
		if err := d.Close(b.w.now, b.epoch); err != nil && !b.excused(err) {
			b.w.fail("CleanStop", "broker %d: %v", b.n.id, err)
		}
	}
	if !b.n.crashed {
		b.w.damageStopped(b.n)
	}
	b.n.crashed = true // for good
}
