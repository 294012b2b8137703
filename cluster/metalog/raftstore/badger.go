package raftstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/hashicorp/raft"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

// MaxBadgerEntry bounds an entry: Badger refuses values larger than a value-log file.
const MaxBadgerEntry = badgerValueLog - 64<<10

// The sizes that decide what an idle store occupies: 9 MB of files, little memory. A value
// above the threshold goes to the value log and then counts little in a transaction, whose
// bound is 15 % of a memtable.
const (
	badgerMemTable  = 2 << 20
	badgerValueLog  = 2 << 20
	badgerThreshold = 64 << 10
	// badgerMaxTables is how many memtables may be flushed between two compactions before
	// writes wait, which they then do for ever: 4 GB of log, a hundred times what snapshots
	// leave.
	badgerMaxTables = 2000
)

// deleteBatch is how many entries one transaction deletes. Each delete is about 20 bytes
// of a transaction's 300 KB.
const deleteBatch = 1000

// badgerStore is a Store in one Badger database. Keys: 'l' and the index, big-endian, for
// entries; 's' and the name for term and vote.
type badgerStore struct {
	lock   io.Closer
	db     *badger.DB
	bounds bounds
	vote   pendingVote
}

// OpenBadger opens or creates a store in dir, which only it uses. Badger works on the
// operating system's files.
func OpenBadger(dir string, logger *slog.Logger) (_ Store, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("open raft store in %s: %w", dir, err)
		}
	}()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	// Badger locks the directory as well, but not before removeUnborn, which would take a
	// file away from another process that has just created it.
	s := &badgerStore{}
	if s.lock, err = vfs.OS().Lock(filepath.Join(dir, "lock")); err != nil {
		return nil, err
	}
	if err := removeUnborn(dir); err != nil {
		return nil, errors.Join(err, s.lock.Close())
	}
	if s.db, err = badger.Open(badgerOptions(dir, logger)); err != nil {
		return nil, errors.Join(err, s.lock.Close())
	}
	if err := s.recover(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// removeUnborn removes files that Badger created and had not extended when its process
// was killed. Badger takes an empty value-log file or memtable for a new one where it
// expects an old one, and refuses to open. Nothing was ever written to them.
func removeUnborn(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if ext := filepath.Ext(entry.Name()); ext != ".vlog" && ext != ".mem" {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if info.Size() > 0 {
			continue
		}
		if err := os.Remove(filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

func badgerOptions(dir string, logger *slog.Logger) badger.Options {
	return badger.DefaultOptions(dir).
		WithSyncWrites(true).
		WithMemTableSize(badgerMemTable).
		WithNumMemtables(2).
		WithValueThreshold(badgerThreshold).
		WithValueLogFileSize(badgerValueLog).
		WithVerifyValueChecksum(true).
		WithCompression(options.None).
		WithBlockCacheSize(0).
		WithNumCompactors(0). // Compact does it: compactors cost 0.4 % of a core when idle
		WithNumLevelZeroTablesStall(badgerMaxTables).
		WithNumGoroutines(1).
		WithDetectConflicts(false). // writers are serialised by raft
		WithMetricsEnabled(false).
		WithLogger(badgerLogger{logger})
}

// recover finds the range of entries.
func (s *badgerStore) recover() error {
	var first, last uint64
	err := s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{'l'}})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			index := binary.BigEndian.Uint64(it.Item().Key()[1:])
			switch {
			case first == 0:
				first, last = index, index
			case index == last+1:
				last = index
			default:
				return fmt.Errorf("raft log entries %d to %d are missing", last+1, index-1)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if first > 0 {
		s.bounds.appended(first, last)
	}
	return nil
}

// IsMonotonic tells raft that the log has no gaps.
func (s *badgerStore) IsMonotonic() bool { return true }

func (s *badgerStore) FirstIndex() (uint64, error) {
	first, _ := s.bounds.get()
	return first, nil
}

func (s *badgerStore) LastIndex() (uint64, error) {
	_, last := s.bounds.get()
	return last, nil
}

func (s *badgerStore) GetLog(index uint64, l *raft.Log) error {
	value, err := s.get(entryKey(index))
	if err != nil {
		return fmt.Errorf("read raft log entry %d: %w", index, err)
	}
	if value == nil {
		return raft.ErrLogNotFound
	}
	if err := parseLog(value, l); err != nil {
		return fmt.Errorf("read raft log entry %d: %w", index, err)
	}
	return nil
}

func (s *badgerStore) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs writes entries in index order, in as many transactions as Badger's bound
// asks for.
func (s *badgerStore) StoreLogs(logs []*raft.Log) error {
	_, last := s.bounds.get()
	if err := checkAppend(last, logs); err != nil || len(logs) == 0 {
		return err
	}
	first, end := logs[0].Index, logs[len(logs)-1].Index
	if last >= first { // left by an append that failed and could not be taken back
		if err := s.DeleteRange(first, last); err != nil {
			return err
		}
	}
	s.bounds.appended(first, end)
	if err := s.storeLogs(logs); err != nil {
		err = fmt.Errorf("store raft log entries %d to %d: %w", first, end, err)
		return errors.Join(err, s.DeleteRange(first, end))
	}
	return nil
}

func (s *badgerStore) storeLogs(logs []*raft.Log) error {
	txn := s.db.NewTransaction(true)
	defer func() { txn.Discard() }()
	for _, l := range logs {
		value := appendLog(make([]byte, 0, entryHeaderSize+len(l.Data)+len(l.Extensions)), l)
		err := txn.Set(entryKey(l.Index), value)
		if errors.Is(err, badger.ErrTxnTooBig) {
			if err := txn.Commit(); err != nil {
				return err
			}
			txn = s.db.NewTransaction(true)
			err = txn.Set(entryKey(l.Index), value)
		}
		if err != nil {
			return err
		}
	}
	return txn.Commit()
}

func (s *badgerStore) DeleteRange(lo, hi uint64) error {
	lo, hi, ok, err := s.bounds.clip(lo, hi)
	if err != nil || !ok {
		return err
	}
	if _, last := s.bounds.get(); hi < last {
		err = s.deleteUp(lo, hi)
	} else {
		err = s.deleteDown(lo, hi)
	}
	if err != nil {
		return fmt.Errorf("delete raft log entries %d to %d: %w", lo, hi, err)
	}
	s.bounds.deleted(lo, hi)
	return nil
}

// deleteUp deletes a prefix, lowest first.
func (s *badgerStore) deleteUp(lo, hi uint64) error {
	for lo <= hi {
		upTo := min(hi, lo+deleteBatch-1)
		if err := s.deleteBatch(lo, upTo); err != nil {
			return err
		}
		lo = upTo + 1
	}
	return nil
}

// deleteDown deletes a suffix, highest first.
func (s *badgerStore) deleteDown(lo, hi uint64) error {
	for hi >= lo && hi > 0 {
		downTo := lo
		if hi-lo >= deleteBatch {
			downTo = hi - deleteBatch + 1
		}
		if err := s.deleteBatch(downTo, hi); err != nil {
			return err
		}
		hi = downTo - 1
	}
	return nil
}

func (s *badgerStore) deleteBatch(lo, hi uint64) error {
	return s.db.Update(func(txn *badger.Txn) error {
		for index := lo; index <= hi; index++ {
			if err := txn.Delete(entryKey(index)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *badgerStore) Set(key, value []byte) error {
	pairs := s.vote.set(key, value)
	if len(pairs) == 0 {
		return nil
	}
	err := s.db.Update(func(txn *badger.Txn) error {
		for k, v := range pairs {
			if err := txn.Set(append([]byte{'s'}, k...), v); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("store raft's %s: %w", key, err)
	}
	return nil
}

func (s *badgerStore) Get(key []byte) ([]byte, error) {
	value, err := s.get(append([]byte{'s'}, key...))
	if err != nil {
		return nil, fmt.Errorf("read raft's %s: %w", key, err)
	}
	return value, nil
}

func (s *badgerStore) SetUint64(key []byte, v uint64) error { return s.Set(key, uint64Value(v)) }

func (s *badgerStore) GetUint64(key []byte) (uint64, error) {
	value, err := s.Get(key)
	if err != nil {
		return 0, err
	}
	return parseUint64(value)
}

// get is a copy of the value of key, nil if there is none.
func (s *badgerStore) get(key []byte) ([]byte, error) {
	var value []byte
	err := s.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(key)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		value, err = item.ValueCopy(nil)
		return err
	})
	return value, err
}

// Compact merges the tables that memtables were flushed to, which drops what was deleted,
// and rewrites value-log files of which at least half is deleted.
func (s *badgerStore) Compact(room uint64) error {
	var size uint64
	for _, t := range s.db.Tables() {
		size += uint64(t.OnDiskSize)
	}
	if size+badgerValueLog > room {
		return nil
	}
	if err := s.db.Flatten(1); err != nil {
		return fmt.Errorf("compact raft store: %w", err)
	}
	for {
		switch err := s.db.RunValueLogGC(0.5); {
		case err == nil: // one file is gone, there may be another
		case errors.Is(err, badger.ErrNoRewrite), errors.Is(err, badger.ErrRejected):
			return nil
		default:
			return fmt.Errorf("compact raft store: %w", err)
		}
	}
}

func (s *badgerStore) Close() error {
	if err := errors.Join(s.db.Close(), s.lock.Close()); err != nil {
		return fmt.Errorf("close raft store: %w", err)
	}
	return nil
}

func entryKey(index uint64) []byte { return binary.BigEndian.AppendUint64([]byte{'l'}, index) }

// badgerLogger writes Badger's log lines; its chatter at info level is our debug.
type badgerLogger struct {
	logger *slog.Logger
}

func (l badgerLogger) Errorf(f string, args ...any)   { l.log(slog.LevelError, f, args) }
func (l badgerLogger) Warningf(f string, args ...any) { l.log(slog.LevelWarn, f, args) }
func (l badgerLogger) Infof(f string, args ...any)    { l.log(slog.LevelDebug, f, args) }
func (l badgerLogger) Debugf(string, ...any)          {}

func (l badgerLogger) log(level slog.Level, f string, args []any) {
	if ctx := context.Background(); l.logger.Enabled(ctx, level) {
		l.logger.Log(ctx, level, "badger", "message", strings.TrimSpace(fmt.Sprintf(f, args...)))
	}
}
