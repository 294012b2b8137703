package metalog

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/hashicorp/raft"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/metalog/raftstore"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// restoringSuffix is that of the directory in which a log is being restored.
const restoringSuffix = ".restoring"

// NotEmptyError refuses to restore a log on top of another one.
type NotEmptyError struct {
	Dir string
}

func (e *NotEmptyError) Error() string {
	return fmt.Sprintf("%s has entries: move it away if they are not wanted any more", e.Dir)
}

// Restore makes s the beginning of the metadata log in o.Dir, with this node, under a new
// directory id, as the only voter. Nobody else may be using the directory. Either all of it
// is there afterwards or nothing: the log is made under another name, and renamed. Of the
// options, those count that say who this node is (NodeID, IDs, Address, Stream, which is not
// used, but tells whether addresses name nodes) and where the log is (Dir, FS, Stores).
func Restore(o Options, s metadata.Snapshot) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("restore metadata log in %s: %w", o.Dir, err)
		}
	}()
	o.setDefaults()
	if err := makeWay(o); err != nil {
		return err
	}
	made := o
	made.Dir += restoringSuffix
	if err := o.FS.RemoveAll(made.Dir); err != nil { // of an attempt that was cut off
		return err
	}
	if o.DirectoryID, err = uuid.New(o.IDs); err != nil {
		return err
	}
	made.DirectoryID = o.DirectoryID
	if err := restoreIn(made, s); err != nil {
		return err
	}
	if err := o.FS.Rename(made.Dir, o.Dir); err != nil {
		return err
	}
	return o.FS.SyncDir(filepath.Dir(o.Dir))
}

// makeWay removes a log that a start has made and that never had an entry.
func makeWay(o Options) error {
	if _, err := o.FS.Stat(o.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	l, err := openStopped(o)
	if err != nil {
		return err
	}
	empty, err := l.storesNothing()
	if err := errors.Join(err, l.store.Store.Close()); err != nil {
		return err
	}
	if !empty {
		return &NotEmptyError{o.Dir}
	}
	return o.FS.RemoveAll(o.Dir)
}

// openStopped opens the stores of a log that does not run.
func openStopped(o Options) (*Log, error) {
	l := newLog(o)
	for _, dir := range []string{o.Dir, filepath.Join(o.Dir, "raft")} {
		if err := makeDir(o.FS, dir, true); err != nil {
			return nil, err
		}
	}
	store, err := openStore(&o)
	if err != nil {
		return nil, err
	}
	l.store = &guard{Store: store, space: l.space, fail: l.fail, badger: o.Stores == BadgerStores}
	return l, nil
}

// restoreIn writes what Raft finds of a log whose entries are all in a snapshot.
func restoreIn(o Options, s metadata.Snapshot) error {
	l, err := openStopped(o)
	if err != nil {
		return err
	}
	return errors.Join(l.storeFirst(s), l.store.Store.Close())
}

func (l *Log) storeFirst(s metadata.Snapshot) error {
	if err := l.storeIdentity(); err != nil {
		return err
	}
	at := s.Image.Position()
	if err := l.store.Store.SetUint64([]byte(keyCurrentTerm), at.Term); err != nil {
		return err
	}
	snapshots, err := raftstore.OpenSnapshots(l.opts.FS, filepath.Join(l.opts.Dir, "snapshots"), l.logger)
	if err != nil {
		return err
	}
	sink, err := snapshots.Create(raft.SnapshotVersionMax, at.Index, at.Term, l.configuration([]Voter{l.self()}), at.Index, nil)
	if err != nil {
		return err
	}
	if err := metadata.WriteSnapshot(sink, s); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

// ReadStopped gives the metadata that the log in o.Dir has come to, which nobody may be using.
// Entries count that were never committed, if they are the last: nobody can tell here, and
// another node may have been about to be told that they are.
func ReadStopped(o Options) (_ metadata.Snapshot, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read metadata log in %s: %w", o.Dir, err)
		}
	}()
	o.setDefaults()
	if _, err := o.FS.Stat(filepath.Join(o.Dir, "raft")); err != nil {
		return metadata.Snapshot{}, err
	}
	l, err := openStopped(o)
	if err != nil {
		return metadata.Snapshot{}, err
	}
	s, err := l.replayStored()
	return s, errors.Join(err, l.store.Store.Close())
}

func (l *Log) replayStored() (s metadata.Snapshot, err error) {
	snapshots, err := l.openSnapshots()
	if err != nil {
		return s, err
	}
	if err := l.replaySnapshot(snapshots); err != nil {
		return s, err
	}
	last, err := l.store.LastIndex()
	if err != nil {
		return s, err
	}
	for i := l.fsm.machine.image.Position().Index + 1; i <= last; i++ {
		var entry raft.Log
		if err := l.store.Store.GetLog(i, &entry); err != nil {
			return s, fmt.Errorf("entry %d: %w", i, err)
		}
		if entry.Type != raft.LogCommand {
			continue
		}
		if _, _, err := l.fsm.applyBatch(metadata.Position{Index: i, Term: entry.Term}, entry.Data); err != nil {
			return s, fmt.Errorf("entry %d: %w", i, err)
		}
	}
	l.fsm.machine.open = nil // a transaction whose end is not there has no effect
	return l.fsm.machine.snapshot()
}

// replaySnapshot begins with the newest snapshot that is whole.
func (l *Log) replaySnapshot(snapshots raft.SnapshotStore) error {
	list, err := snapshots.List()
	if err != nil {
		return err
	}
	var failed error
	for _, meta := range list {
		_, payload, err := snapshots.Open(meta.ID)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		s, err := metadata.ReadSnapshot(payload)
		if err = errors.Join(err, payload.Close()); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		l.fsm.machine.restore(s)
		if s.Image.Position().Index < meta.Index { // entries of Raft's own are in no image
			l.fsm.machine.image = s.Image.At(metadata.Position{Index: meta.Index, Term: meta.Term})
		}
		return nil
	}
	return failed
}
