package metalog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/metalog/raftstore"
	"github.com/klamm-mq/klamm/logstore/vfs"
)

// Log is this node's copy of the metadata log and its part in the quorum. All methods are
// safe for concurrent use.
type Log struct {
	opts    Options
	raft    *raft.Raft
	started chan struct{} // closed when raft is set
	trans   *transport
	store   *guard
	space   *spaceWatch
	fsm     *fsm
	loader  *loader
	metrics *metrics
	logger  *slog.Logger

	proposals *proposals

	leadership  chan Leadership // capacity 1, the newest
	watched     chan struct{}   // watch has ended
	unobserve   func()
	leaderMu    sync.Mutex
	leaderMoved chan struct{}               // closed and replaced when this node hears of another leader
	silent      map[raft.ServerID]time.Time // since when: see isSilent
	lastLeader  knownLeader                 // see leaderAt
	kept        chan struct{}               // keep has ended
	orphaned    chan struct{}               // watchConnections has ended

	changing    chan struct{}  // room for one: a change of the voters, see voters.go
	changes     sync.WaitGroup // changes of Raft's members: see configure
	changesMu   sync.Mutex
	changesOver bool

	closing   chan struct{}
	closeOnce sync.Once
	closeErr  error

	failOnce sync.Once
	failedCh chan struct{}
	failErr  error // valid once failedCh is closed
}

// Open opens or creates the log and starts Raft. The only voter leads within milliseconds.
func Open(o Options) (_ *Log, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("open metadata log in %s: %w", o.Dir, err)
		}
	}()
	o.setDefaults()
	l := newLog(o)
	defer func() {
		if err != nil {
			l.metrics.close()
		}
	}()
	for _, dir := range []string{o.Dir, filepath.Join(o.Dir, "raft")} {
		if err := makeDir(o.FS, dir, true); err != nil {
			return nil, err
		}
	}
	if err := l.space.open(); err != nil {
		return nil, err
	}
	store, err := openStore(&o)
	if err != nil {
		return nil, err
	}
	l.store = &guard{Store: store, space: l.space, fail: l.fail, badger: o.Stores == BadgerStores}
	if err := l.identify(); err != nil {
		return nil, errors.Join(err, l.store.Close())
	}
	if err := l.startRaft(); err != nil {
		return nil, errors.Join(err, l.store.Close())
	}
	go l.loader.run()
	go l.watch()
	l.unobserve = l.observe()
	go l.keep()
	go l.watchConnections()
	go l.send()
	if l.isOnlyVoter() {
		l.trans.electNow(l.failedCh)
	}
	return l, nil
}

// makeDir makes a directory and those above it, durably: a log whose directory a power cut
// takes away would look like an empty disk. Those that exist are synced as well, since the
// process that made them may have been killed before it came to that. What is above the
// log's own directory may belong to somebody else; then it is not for us to sync.
func makeDir(fsys vfs.FS, dir string, ours bool) error {
	parent := filepath.Dir(dir)
	if parent == dir {
		return nil
	}
	_, err := fsys.Stat(dir)
	existed := err == nil
	if err := makeDir(fsys, parent, false); err != nil {
		return err
	}
	if err := fsys.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := fsys.SyncDir(parent); err != nil && (ours || !existed) {
		return err
	}
	return nil
}

func (o *Options) setDefaults() {
	if o.FS == nil {
		o.FS = vfs.OS()
	}
	if o.Timing == (Timing{}) {
		o.Timing = TimingForQuorum()
		if o.BootstrapSelf {
			o.Timing = TimingForOne()
		}
	}
	if o.Reserve == (Reserve{}) {
		o.Reserve = DefaultReserve()
		if o.Stores == FileStores {
			o.Reserve = fileReserve()
		}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Address == "" {
		o.Address = fmt.Sprintf("node-%d", o.NodeID)
		if o.Stream != nil {
			o.Address = o.Stream.Addr().String()
		}
	}
}

func newLog(o Options) *Log {
	m := newMetrics(o.Registerer)
	l := &Log{
		started:     make(chan struct{}),
		opts:        o,
		space:       newSpaceWatch(&o, m),
		loader:      newLoader(o.Publishers, m),
		metrics:     m,
		logger:      o.Logger,
		proposals:   newProposals(m),
		leadership:  make(chan Leadership, 1),
		watched:     make(chan struct{}),
		leaderMoved: make(chan struct{}), silent: map[raft.ServerID]time.Time{},
		kept:     make(chan struct{}),
		orphaned: make(chan struct{}),
		changing: make(chan struct{}, 1),
		closing:  make(chan struct{}),
		failedCh: make(chan struct{}),
	}
	l.fsm = &fsm{
		machine:   newMachine(),
		clusterID: o.ClusterID,
		loader:    l.loader,
		metrics:   m,
		logger:    o.Logger,
		fail:      l.fail,
		onApplied: l.tellPeers,
		applied:   o.applied,
	}
	l.fsm.image.Store(metadata.Empty())
	m.countSilent(l.silentMembers)
	return l
}

// tellPeers tells them at once what this node has applied, if it leads.
func (l *Log) tellPeers(index uint64) {
	if l.trans != nil {
		l.trans.hasApplied(index)
	}
}

func openStore(o *Options) (raftstore.Store, error) {
	dir := filepath.Join(o.Dir, "raft")
	if o.Stores == FileStores {
		return raftstore.OpenFiles(o.FS, dir)
	}
	return raftstore.OpenBadger(dir, o.Logger)
}

// Image is the newest image that this node has applied. Publishers may lag behind it.
func (l *Log) Image() *metadata.Image { return l.fsm.image.Load() }

// Published is the position of the newest image that every publisher has seen.
func (l *Log) Published() metadata.Position {
	pos, _ := l.loader.position()
	return pos
}

// WaitPublished returns once Published has reached pos.
func (l *Log) WaitPublished(ctx context.Context, pos metadata.Position) error {
	return l.loader.wait(ctx, pos)
}

// StartPublishing lets the publishers see images from pos on. Before, they see nothing:
// what a node finds in its own log when it starts may be older than what it has already
// acted upon, and a publisher would take partitions for unknown that the log is only about
// to mention. The leader's first Barrier starts publishing by itself, unless
// Options.PublishWhenTold. Any other node knows where to start from the position that the
// controller answers its registration with.
func (l *Log) StartPublishing(pos metadata.Position) { l.loader.start(pos) }

// fail gives this node up. The first error counts.
func (l *Log) fail(err error) {
	l.failOnce.Do(func() {
		l.failErr = err
		close(l.failedCh)
		l.logger.Error("metadata log failed, this node can take no further part", "error", err)
		if l.opts.Fatal != nil {
			go l.opts.Fatal(err)
		}
	})
}

// failure is the error that this node was given up with, or nil.
func (l *Log) failure() error {
	select {
	case <-l.failedCh:
		return l.failErr
	default:
		return nil
	}
}

const (
	// snapshotBytes is how much log Raft may gather before a snapshot, if the entries are
	// large; snapshotThreshold bounds it if they are small.
	snapshotBytes = 32 << 20
	// keepInterval is how often keep looks, also at the free space: Badger works on its
	// files in the background, and the ballast must be gone before it runs into the end.
	keepInterval = time.Second
)

// keep does what may take long and nobody waits for: it writes the ballast again, and asks
// for snapshots while large entries pile up.
func (l *Log) keep() {
	defer close(l.kept)
	tick := time.NewTicker(keepInterval)
	defer tick.Stop()
	for {
		select {
		case <-l.closing:
			return
		case <-l.space.rewrites:
			if l.space.wantsBallast() {
				l.space.writeBallast()
			}
		case <-tick.C:
			l.space.look()
			l.maybeSnapshot()
		}
	}
}

func (l *Log) maybeSnapshot() {
	if l.fsm.bytes.Load() < snapshotBytes {
		return
	}
	if err := l.raft.Snapshot().Error(); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
		l.logger.Warn("metadata snapshot failed", "error", err)
	}
}

// Close ends this node's part in the quorum and closes the stores. Proposals in flight are
// decided first. A publication in progress is finished.
func (l *Log) Close() error {
	l.closeOnce.Do(func() { l.closeErr = l.close() })
	return l.closeErr
}

func (l *Log) close() error {
	close(l.closing)
	l.proposals.close()
	l.endChanges()
	<-l.kept
	<-l.orphaned
	<-l.watched
	l.unobserve()
	err := l.stopRaft()
	l.loader.close()
	l.metrics.close()
	if storeErr := l.store.Close(); storeErr != nil {
		err = errors.Join(err, storeErr)
	}
	if err != nil {
		return fmt.Errorf("close metadata log: %w", err)
	}
	return nil
}
