package metalog

import (
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// fsm drives the machine on Raft's FSM goroutine: no clock, no randomness, no I/O but the
// hand-over to the loader, which never blocks.
type fsm struct {
	machine   *machine
	image     atomic.Pointer[metadata.Image]
	lineage   atomic.Pointer[uuid.UUID] // of machine; nil: zero
	bytes     atomic.Int64              // of entries since the last snapshot
	clusterID string                    // refuse another cluster's; "": any
	loader    *loader
	metrics   *metrics
	logger    *slog.Logger
	fail      func(error)
	onApplied func(index uint64)
	applied   func(*metadata.Image) // of tests; nil: none
	failed    bool                  // the machine stopped short of what is committed
}

// outcome is what became of one entry: Raft's Apply answers a list of them, one for each
// entry of the batch.
type outcome struct {
	pos  metadata.Position
	next uint64 // number of the next entry of this term
	open bool   // a transaction is open behind it
	err  error
}

// Apply implements raft.FSM.
func (f *fsm) Apply(l *raft.Log) any {
	pos := metadata.Position{Index: l.Index, Term: l.Term}
	if f.failed {
		return fmt.Errorf("metadata stopped before: %w", errDropped)
	}
	f.bytes.Add(int64(len(l.Data)))
	delta, outcomes, err := f.applyBatch(pos, l.Data)
	if err != nil {
		f.failed = true // from here on the image would not be what the others have
		err = fmt.Errorf("apply metadata entry %d: %w", pos.Index, err)
		f.fail(err)
		return err
	}
	f.publish(delta) // not to be read any more
	f.onApplied(pos.Index)
	return outcomes
}

// applyBatch takes the entries of a batch one after the other. They have one position, and
// one delta.
func (f *fsm) applyBatch(pos metadata.Position, b []byte) (*metadata.Delta, []outcome, error) {
	entries, err := metadata.DecodeBatch(b)
	if err != nil {
		return nil, nil, err
	}
	batch := metadata.Unchanged(f.machine.image, pos)
	outcomes := make([]outcome, len(entries))
	for i, e := range entries {
		delta, err := f.machine.apply(pos, e)
		if delta == nil {
			return nil, nil, err
		}
		if err != nil {
			f.metrics.dropped.Inc()
			f.logger.Warn("metadata entry does not count", "index", pos.Index, "reason", err)
		}
		batch.Merge(delta)
		outcomes[i] = outcome{pos: pos, next: f.machine.next(pos.Term), open: f.machine.open != nil, err: err}
	}
	f.machine.image = batch.Next()
	if id := batch.Next().ClusterID(); f.isForeign(id) {
		return nil, nil, foreignCluster(id, f.clusterID)
	}
	return batch, outcomes, nil
}

func (f *fsm) isForeign(id string) bool { return f.clusterID != "" && id != "" && id != f.clusterID }

func foreignCluster(found, want string) error {
	return fmt.Errorf("the metadata log is that of cluster %s, this node belongs to %s", found, want)
}

func (f *fsm) publish(delta *metadata.Delta) {
	image := delta.Next()
	f.image.Store(image)
	f.metrics.applied.Set(float64(image.Position().Index))
	if f.applied != nil {
		f.applied(image)
	}
	f.loader.push(delta)
}

// Snapshot implements raft.FSM.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	if f.failed {
		return nil, fmt.Errorf("metadata stopped: %w", errDropped)
	}
	s, err := f.machine.snapshot()
	if err != nil {
		return nil, err
	}
	f.bytes.Store(0)
	return fsmSnapshot{s}, nil
}

// Restore implements raft.FSM.
func (f *fsm) Restore(r io.ReadCloser) error {
	s, err := metadata.ReadSnapshot(r)
	if err == nil && f.isForeign(s.Image.ClusterID()) {
		err = foreignCluster(s.Image.ClusterID(), f.clusterID)
	}
	if err == nil {
		err = f.checkLineage(s)
	}
	if err != nil {
		f.failed = true
		f.fail(err)
		return err
	}
	f.lineage.Store(&s.Lineage)
	f.publish(f.machine.restore(s))
	return nil
}

type fsmSnapshot struct {
	state metadata.Snapshot
}

// Persist implements raft.FSMSnapshot. Raft cancels the sink on an error.
func (s fsmSnapshot) Persist(sink raft.SnapshotSink) error {
	return metadata.WriteSnapshot(sink, s.state)
}

// Release implements raft.FSMSnapshot.
func (s fsmSnapshot) Release() {}
