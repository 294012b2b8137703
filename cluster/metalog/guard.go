package metalog

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/klamm-mq/klamm/cluster/metalog/raftstore"
)

// guard stands between Raft and its stores. It reads the free space before each write, and
// it decides what an error means.
//
//	         everything      no proposals     no entries       nothing: the node ends
//	free ├────────────────┤├──────────────┤├──────────────┤├────────────────────────┤
//	                    KeepFree       halfway          Floor                       0
//
// Without room for entries, terms and votes are still written, and the entries without
// which there is no leader (Raft's own, barriers).
//
// Refusing an entry is harmless to Raft: a follower is behind, a leader steps down. There
// is one exception. Raft first deletes a suffix that conflicts and then stores what belongs
// there; if the second fails, it goes on with a last index that is no longer true. So the
// deletion is refused as well, and if room was found for it but is gone a moment later, the
// append may go down to Floor.
//
// Any other error of a store is the end of this node: fail is called, and where Raft would
// panic (a term that cannot be stored, an entry that cannot be read) the goroutine ends
// instead, with its deferred functions run, so that the process can say why and the rest
// can be closed.
type guard struct {
	raftstore.Store
	space  *spaceWatch
	fail   func(error)
	badger bool // the store is Badger

	owed atomic.Bool // a suffix was deleted and its replacement is not stored yet

	writing atomic.Pointer[time.Time] // since when Raft waits for a write; nil: it does not
}

// stallAfter is how long a write may take before this node counts as stalled.
const stallAfter = 3 * time.Second

// stalled tells that Raft has been waiting for the disk for long.
func (g *guard) stalled(now time.Time) bool {
	since := g.writing.Load()
	return since != nil && now.Sub(*since) >= stallAfter
}

// begin notes a write; what it returns, its end.
func (g *guard) begin() (end func()) {
	now := time.Now()
	g.writing.Store(&now)
	return func() { g.writing.Store(nil) }
}

func (g *guard) StoreLog(l *raft.Log) error { return g.StoreLogs([]*raft.Log{l}) }

func (g *guard) StoreLogs(logs []*raft.Log) error {
	defer g.begin()()
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
	size, essential := sizeOf(logs)
	if essential || g.owed.Load() {
		return nil
	}
	return g.space.forEntries(size)
}

// maxEssentialBytes is the size up to which a command is stored without room for more: a
// barrier is smaller, any other entry larger.
const maxEssentialBytes = 24

func sizeOf(logs []*raft.Log) (size int, essential bool) {
	essential = true
	for _, l := range logs {
		size += len(l.Data)
		if l.Type == raft.LogCommand && len(l.Data) > maxEssentialBytes {
			essential = false
		}
	}
	return size, essential
}

func (g *guard) DeleteRange(lo, hi uint64) error {
	last, err := g.Store.LastIndex()
	if err != nil {
		g.fail(err)
		return err
	}
	if hi >= last {
		return g.deleteSuffix(lo, hi)
	}
	if err := g.room(nil); err != nil {
		return err
	}
	err = g.Store.DeleteRange(lo, hi)
	if err == nil {
		err = g.Store.Compact(g.space.spare())
	}
	if err != nil {
		g.fail(err)
	}
	return err
}

// deleteSuffix asks for the room that the entries which follow will need.
func (g *guard) deleteSuffix(lo, hi uint64) error {
	if err := g.space.forEntries(0); err != nil {
		return err
	}
	if err := g.Store.DeleteRange(lo, hi); err != nil {
		g.fail(err)
		return err
	}
	g.owed.Store(true)
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
	defer g.begin()()
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

// Close leaves Badger open where there is no room: it would write its memtable to a table
// and die of it. What is in its write-ahead log is safe, and found at the next start. Its
// goroutines and its lock last until the process ends, which is all that is left to do then.
func (g *guard) Close() error {
	if g.badger {
		if err := g.space.forVotes(); err != nil {
			return fmt.Errorf("raft store is left open: %w", err)
		}
	}
	return g.Store.Close()
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
	if err := g.space.forEntries(0); err != nil {
		return nil, fmt.Errorf("create metadata snapshot: %w", err)
	}
	return g.Snapshots.Create(version, index, term, configuration, configurationIndex, trans)
}
