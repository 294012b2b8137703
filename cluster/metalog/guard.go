package metalog

import (
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/klamm-mq/klamm/cluster/metalog/raftstore"
)

// guard stands between Raft and its stores. It reads the free space before each write, and
// it decides what an error means.
//
//	free ≥ KeepFree           everything is written
//	KeepFree > free ≥ Floor   entries are refused; terms, votes, and the entries without
//	                          which there is no leader (Raft's own, barriers) are written
//	Floor > free              nothing: the node ends
//
// Refusing an entry is harmless to Raft: a follower is behind, a leader steps down. There
// is one exception. Raft first deletes a suffix that conflicts and then stores what belongs
// there; if the second fails, it goes on with a last index that is no longer true. So the
// append after a deletion may go down to Floor.
//
// Any other error of a store is the end of this node: fail is called, and where Raft would
// panic (a term that cannot be stored, an entry that cannot be read) the goroutine ends
// instead, with its deferred functions run, so that the process can say why and the rest
// can be closed.
type guard struct {
	raftstore.Store
	space *spaceWatch
	fail  func(error)

	owed atomic.Bool // a suffix was deleted and its replacement is not stored yet
}

func (g *guard) StoreLog(l *raft.Log) error { return g.StoreLogs([]*raft.Log{l}) }

func (g *guard) StoreLogs(logs []*raft.Log) error {
	if err := g.room(logs); err != nil {
		return err
	}
	if err := g.Store.StoreLogs(logs); err != nil {
		g.fail(err)
		return err
	}
	g.owed.Store(false)
	return nil
}

func (g *guard) room(logs []*raft.Log) error {
	if err := g.space.forVotes(); err != nil {
		g.fail(err)
		return err
	}
	if g.owed.Load() || allEssential(logs) {
		return nil
	}
	return g.space.forEntries()
}

// maxEssentialBytes is the size up to which a command is stored without room for more: a
// barrier is smaller, any other entry larger.
const maxEssentialBytes = 24

func allEssential(logs []*raft.Log) bool {
	for _, l := range logs {
		if l.Type == raft.LogCommand && len(l.Data) > maxEssentialBytes {
			return false
		}
	}
	return true
}

func (g *guard) DeleteRange(lo, hi uint64) error {
	if err := g.room(nil); err != nil {
		return err
	}
	last, err := g.Store.LastIndex()
	if err == nil {
		err = g.Store.DeleteRange(lo, hi)
	}
	if err != nil {
		g.fail(err)
		return err
	}
	if hi >= last {
		g.owed.Store(true)
		return nil
	}
	if err := g.Store.Compact(); err != nil {
		g.fail(err)
		return err
	}
	return nil
}

func (g *guard) GetLog(index uint64, l *raft.Log) error {
	err := g.Store.GetLog(index, l)
	if err != nil && err != raft.ErrLogNotFound { //nolint:errorlint // raft compares like this, too
		g.fail(err)
		runtime.Goexit()
	}
	return err
}

func (g *guard) Set(key, value []byte) error {
	return g.stable(func() error { return g.Store.Set(key, value) })
}

func (g *guard) SetUint64(key []byte, v uint64) error {
	return g.stable(func() error { return g.Store.SetUint64(key, v) })
}

func (g *guard) stable(write func() error) error {
	err := g.space.forVotes()
	if err == nil {
		err = write()
	}
	if err != nil {
		g.fail(err)
		runtime.Goexit()
	}
	return nil
}

// guardedSnapshots refuses a new snapshot while there is no room for entries.
type guardedSnapshots struct {
	*raftstore.Snapshots
	space *spaceWatch
}

// Create implements raft.SnapshotStore.
func (g guardedSnapshots) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration,
	configurationIndex uint64, trans raft.Transport,
) (raft.SnapshotSink, error) {
	if err := g.space.forEntries(); err != nil {
		return nil, fmt.Errorf("create metadata snapshot: %w", err)
	}
	return g.Snapshots.Create(version, index, term, configuration, configurationIndex, trans)
}
