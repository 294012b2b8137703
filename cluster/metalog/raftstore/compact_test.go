package raftstore

import (
	"bytes"
	"io/fs"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
)

// Deleted entries leave the disk when the store is compacted, small ones from tables and
// large ones from the value log; without room for it nothing is touched.
func TestCompactionGivesBackRoom(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenBadger(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	r := &reopening{t: t, Store: s, open: func() (Store, error) { return OpenBadger(dir, slog.New(slog.DiscardHandler)) }}
	defer func() { r.must(r.Close()) }()
	next := uint64(1)
	appendEntries := func(n, size int) {
		var logs []*raft.Log
		for range n {
			logs = append(logs, &raft.Log{Index: next, Term: 1, Data: bytes.Repeat([]byte{byte(next)}, size)})
			next++
		}
		r.must(r.StoreLogs(logs))
	}
	for range 30 {
		appendEntries(40, 20_000)
		appendEntries(3, 300_000)
	}
	r.reopen() // files are as long as what is in them
	r.must(r.DeleteRange(1, next-10))
	r.reopen() // a memtable's deletions count from the next compaction on
	before := diskUsage(t, dir)
	r.must(r.Compact(1 << 20))
	if after := diskUsage(t, dir); after < before {
		t.Errorf("compacted without room: from %d to %d bytes", before, after)
	}
	r.must(r.Compact(1 << 30))
	r.reopen()
	if after := diskUsage(t, dir); after > before/4 {
		t.Errorf("from %d to %d bytes", before, after)
	}
	for index := next - 9; index < next; index++ {
		var l raft.Log
		r.must(r.GetLog(index, &l))
		if l.Index != index || l.Data[0] != byte(index) {
			t.Errorf("entry %d: %d", index, l.Index)
		}
	}
}

func diskUsage(t *testing.T, dir string) (size int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return size
}
