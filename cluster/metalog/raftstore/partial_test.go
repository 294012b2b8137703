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
