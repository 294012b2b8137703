package raftstore

import (
	"bytes"
	"testing"

	"github.com/hashicorp/raft"
)

// D25: the entries of one call go into several of Badger's transactions. Here the last entry
// is refused, when those before it are already committed: they are taken back.
func TestBadgerTakesBackWhatItWrote(t *testing.T) {
	open := stores(t)["badger"]
	s := &reopening{t: t, open: open}
	s.reopen()
	defer func() { s.must(s.Close()) }()
	s.must(s.StoreLogs(entries(1, 1, 3)))
	var logs []*raft.Log
	for i := range uint64(40) {
		logs = append(logs, &raft.Log{Index: i + 4, Term: 2, Data: bytes.Repeat([]byte{1}, 50_000)})
	}
	logs = append(logs, &raft.Log{Index: 44, Term: 2, Data: make([]byte, 4*MaxBadgerEntry)})
	if err := s.StoreLogs(logs); err == nil {
		t.Fatal("an entry larger than a value-log file was stored")
	}
	s.wantLog(entries(1, 1, 3))
	s.reopen()
	s.wantLog(entries(1, 1, 3))
	s.must(s.StoreLogs(entries(3, 4, 5)))
	s.reopen()
	s.wantLog(entries(1, 1, 3), entries(3, 4, 5))
}

// An append that failed, and could not be taken back, leaves entries behind the end that Raft
// knows. The next append replaces them all: one that was left would follow entries that it
// has never followed, and give this node a longer log than it has.
func TestBadgerReplacesWhatWasLeft(t *testing.T) {
	s := &reopening{t: t, open: stores(t)["badger"]}
	s.reopen()
	defer func() { s.must(s.Close()) }()
	s.must(s.StoreLogs(entries(1, 1, 6)))
	s.must(s.StoreLogs(entries(2, 3, 4)))
	s.wantLog(entries(1, 1, 2), entries(2, 3, 4))
	s.reopen()
	s.wantLog(entries(1, 1, 2), entries(2, 3, 4))
}

// Badger's default is to leave its writes to the page cache: a vote, or an entry that was
// acknowledged to a leader, would be gone with the power. No test can cut that under Badger,
// which uses the operating system's files.
func TestBadgerSyncsEachWrite(t *testing.T) {
	s, err := stores(t)["badger"]()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	badger, ok := s.(*badgerStore)
	if !ok || !badger.db.Opts().SyncWrites {
		t.Errorf("%T does not sync its writes", s)
	}
}
