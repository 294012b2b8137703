package metalog

import (
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/klamm-mq/klamm/cluster/metadata"
)

// fsm drives the machine on Raft's FSM goroutine: no clock, no randomness, no I/O but the
// hand-over to the loader, which never blocks.
type fsm struct {
	machine   *machine
	image     atomic.Pointer[metadata.Image]
	bytes     atomic.Int64 // of entries since the last snapshot
	clusterID string       // refuse another cluster's; "": any
	loader    *loader
	metrics   *metrics
	logger    *slog.Logger
	fail      func(error)
	applied   func(*metadata.Image) // of tests; nil: none
	failed    bool                  // the machine stopped short of what is committed
}

// outcome is what Raft's Apply answers to the proposer.
type outcome struct {
	pos  metadata.Position
	next uint64 // number of the next entry of this term
	err  error
}

// Apply implements raft.FSM.
func (f *fsm) Apply(l *raft.Log) any {
	pos := metadata.Position{Index: l.Index, Term: l.Term}
	if f.failed {
		return outcome{pos: pos, err: fmt.Errorf("metadata stopped before: %w", errDropped)}
	}
	f.bytes.Add(int64(len(l.Data)))
	entry, err := metadata.DecodeEntry(l.Data)
	if err != nil {
		return f.stop(pos, err)
	}
	delta, err := f.machine.apply(pos, entry)
	if delta == nil {
		return f.stop(pos, err)
	}
	if err != nil {
		f.metrics.dropped.Inc()
		f.logger.Warn("metadata entry does not count", "index", pos.Index, "reason", err)
	}
	if id := delta.Next().ClusterID(); f.isForeign(id) {
		return f.stop(pos, foreignCluster(id, f.clusterID))
	}
	f.publish(delta) // not to be read any more
	return outcome{pos: pos, next: f.machine.next(pos.Term), err: err}
}

// stop gives up: from here on the image would not be what the others have.
func (f *fsm) stop(pos metadata.Position, err error) outcome {
	f.failed = true
	err = fmt.Errorf("apply metadata entry %d: %w", pos.Index, err)
	f.fail(err)
	return outcome{pos: pos, err: err}
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
	if err != nil {
		f.failed = true
		f.fail(err)
		return err
	}
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
