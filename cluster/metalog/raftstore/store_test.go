package raftstore

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
	"go.uber.org/goleak"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(killedDir); dir != "" {
		acked, err := strconv.ParseUint(os.Args[1], 10, 64)
		if err == nil {
			err = writeUntilKilled(dir, acked, os.Stdout)
		}
		fmt.Println(err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// stores are the implementations; each function opens the same store again and again.
func stores(t *testing.T) map[string]func() (Store, error) {
	badgerDir, mem := t.TempDir(), vfs.NewMem()
	if err := mem.MkdirAll("/d", 0o755); err != nil {
		t.Fatal(err)
	}
	return map[string]func() (Store, error){
		"badger": func() (Store, error) { return OpenBadger(badgerDir, slog.New(slog.DiscardHandler)) },
		"files":  func() (Store, error) { return OpenFiles(mem, "/d/raft") },
	}
}

// conform runs a test on each kind of store.
func conform(t *testing.T, test func(t *testing.T, s *reopening)) {
	for name, open := range stores(t) {
		t.Run(name, func(t *testing.T) {
			s := &reopening{t: t, open: open}
			s.reopen()
			defer func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}()
			test(t, s)
		})
	}
}

// reopening is a store that a test closes and opens again.
type reopening struct {
	Store
	t    *testing.T
	open func() (Store, error)
}

func (s *reopening) reopen() {
	s.t.Helper()
	if s.Store != nil {
		if err := s.Close(); err != nil {
			s.t.Fatal(err)
		}
	}
	var err error
	if s.Store, err = s.open(); err != nil {
		s.t.Fatal(err)
	}
}

func entries(term uint64, from, to uint64) []*raft.Log {
	var logs []*raft.Log
	for i := from; i <= to; i++ {
		logs = append(logs, &raft.Log{
			Index: i, Term: term, Type: raft.LogCommand,
			Data: fmt.Appendf(nil, "entry %d of term %d", i, term), AppendedAt: time.Unix(1700000000, int64(i)),
		})
	}
	return logs
}

// wantLog checks that the store holds exactly the given entries.
func (s *reopening) wantLog(want ...[]*raft.Log) {
	s.t.Helper()
	var all []*raft.Log
	for _, part := range want {
		all = append(all, part...)
	}
	first, err1 := s.FirstIndex()
	last, err2 := s.LastIndex()
	if err1 != nil || err2 != nil {
		s.t.Fatal(err1, err2)
	}
	var wantFirst, wantLast uint64
	if len(all) > 0 {
		wantFirst, wantLast = all[0].Index, all[len(all)-1].Index
	}
	if first != wantFirst || last != wantLast {
		s.t.Fatalf("log is %d to %d, want %d to %d", first, last, wantFirst, wantLast)
	}
	for _, w := range all {
		var got raft.Log
		if err := s.GetLog(w.Index, &got); err != nil {
			s.t.Fatalf("entry %d: %v", w.Index, err)
		}
		s.wantEqual(w, &got)
	}
	for _, outside := range []uint64{0, first - 1, last + 1} {
		if outside >= first && outside <= last && first > 0 {
			continue
		}
		var l raft.Log
		if err := s.GetLog(outside, &l); err != raft.ErrLogNotFound { //nolint:errorlint // raft compares like this
			s.t.Fatalf("entry %d: got error %v, want exactly ErrLogNotFound", outside, err)
		}
	}
}

func (s *reopening) wantEqual(want, got *raft.Log) {
	s.t.Helper()
	if reflect.DeepEqual(want, got) { // cmp takes its time with large data
		return
	}
	s.t.Fatalf("entry %d: %s", want.Index, cmp.Diff(want, got))
}

func (s *reopening) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func TestEmptyStore(t *testing.T) {
	conform(t, func(t *testing.T, s *reopening) {
		s.wantLog()
		s.reopen()
		s.wantLog()
		if v, err := s.Get([]byte("k")); len(v) != 0 || err != nil {
			t.Errorf("Get: %q, %v", v, err)
		}
		if v, err := s.GetUint64([]byte("k")); v != 0 || err != nil {
			t.Errorf("GetUint64: %d, %v", v, err)
		}
	})
}

func TestAppendAndReopen(t *testing.T) {
	conform(t, func(t *testing.T, s *reopening) {
		s.must(s.StoreLogs(entries(1, 1, 10)))
		s.must(s.StoreLog(entries(2, 11, 11)[0]))
		s.wantLog(entries(1, 1, 10), entries(2, 11, 11))
		s.reopen()
		s.wantLog(entries(1, 1, 10), entries(2, 11, 11))
		s.must(s.StoreLogs(entries(2, 12, 12)))
		s.reopen()
		s.wantLog(entries(1, 1, 10), entries(2, 11, 12))
	})
}

func TestEntryFieldsSurvive(t *testing.T) {
	conform(t, func(t *testing.T, s *reopening) {
		logs := []*raft.Log{
			{Index: 5, Term: 1, Type: raft.LogNoop},
			{Index: 6, Term: 1, Type: raft.LogConfiguration, Data: []byte{0}, Extensions: []byte("x")},
			{Index: 7, Term: 2, Type: raft.LogBarrier, Extensions: bytes.Repeat([]byte("e"), 100)},
			{Index: 8, Term: 2, Type: raft.LogCommand, Data: bytes.Repeat([]byte("d"), 1<<20), AppendedAt: time.Unix(1, 2)},
		}
		s.must(s.StoreLogs(logs))
		s.reopen()
		s.wantLog(logs)
	})
}

func TestGapIsRefused(t *testing.T) {
	conform(t, func(t *testing.T, s *reopening) {
		s.must(s.StoreLogs(entries(1, 3, 5)))
		for _, logs := range [][]*raft.Log{
			entries(1, 7, 8),
			append(entries(1, 6, 6), entries(1, 8, 8)...),
			{{Index: 0}},
		} {
			if err := s.StoreLogs(logs); !errors.Is(err, ErrNotContiguous) {
				t.Errorf("store from %d: %v", logs[0].Index, err)
			}
		}
		if err := s.DeleteRange(4, 4); !errors.Is(err, ErrNotContiguous) {
			t.Errorf("delete in the middle: %v", err)
		}
		s.must(s.StoreLogs(nil))
		s.wantLog(entries(1, 3, 5))
	})
}

func TestDeletePrefix(t *testing.T) {
	conform(t, func(t *testing.T, s *reopening) {
		s.must(s.StoreLogs(entries(1, 1, 2500)))
		s.must(s.DeleteRange(1, 1200))
		s.wantLog(entries(1, 1201, 2500))
		s.must(s.StoreLogs(entries(1, 2501, 2501)))
		s.must(s.Compact(0))
		s.must(s.Compact(1 << 30))
		s.wantLog(entries(1, 1201, 2501))
		s.must(s.DeleteRange(0, 1300)) // reaches below the first
		s.wantLog(entries(1, 1301, 2501))
		s.reopen()
		if last, _ := s.LastIndex(); last != 2501 {
			t.Errorf("last index %d", last)
		}
	})
}

func TestDeleteSuffixAndWriteAnother(t *testing.T) {
	conform(t, func(t *testing.T, s *reopening) {
		s.must(s.StoreLogs(entries(1, 1, 2500)))
		s.must(s.DeleteRange(101, 2500))
		s.wantLog(entries(1, 1, 100))
		s.must(s.StoreLogs(entries(2, 101, 103)))
		s.wantLog(entries(1, 1, 100), entries(2, 101, 103))
		s.reopen()
		s.wantLog(entries(1, 1, 100), entries(2, 101, 103))
	})
}

func TestDeleteAllAndStartElsewhere(t *testing.T) {
	conform(t, func(t *testing.T, s *reopening) {
		s.must(s.StoreLogs(entries(1, 1, 30)))
		s.must(s.DeleteRange(1, 30))
		s.wantLog()
		s.must(s.DeleteRange(1, 30)) // nothing there
		s.reopen()
		s.wantLog()
		s.must(s.StoreLogs(entries(3, 101, 105)))
		s.reopen()
		s.wantLog(entries(3, 101, 105))
	})
}

// Larger than one Badger transaction and one segment, but with small values and with large.
func TestManyEntriesAtOnce(t *testing.T) {
	conform(t, func(t *testing.T, s *reopening) {
		var logs []*raft.Log
		for i := range uint64(64) {
			logs = append(logs, &raft.Log{Index: i + 1, Term: 1, Data: bytes.Repeat([]byte{byte(i)}, 50_000)})
		}
		s.must(s.StoreLogs(logs))
		for i := range logs {
			logs[i] = &raft.Log{Index: uint64(i) + 65, Term: 1, Data: bytes.Repeat([]byte{byte(i)}, 300_000)}
		}
		s.must(s.StoreLogs(logs))
		s.reopen()
		if last, _ := s.LastIndex(); last != 128 {
			t.Fatalf("last index %d", last)
		}
		s.must(s.DeleteRange(1, 64))
		s.wantLog(logs)
		s.must(s.StoreLogs(entries(2, 129, 130)))
		s.must(s.DeleteRange(100, 130))
		s.reopen()
		s.must(s.StoreLogs(entries(2, 100, 101)))
		s.wantSuffix(entries(2, 100, 101))
	})
}

func (s *reopening) wantSuffix(want []*raft.Log) {
	s.t.Helper()
	if last, _ := s.LastIndex(); last != want[len(want)-1].Index {
		s.t.Fatalf("last index %d", last)
	}
	for _, w := range want {
		var got raft.Log
		s.must(s.GetLog(w.Index, &got))
		s.wantEqual(w, &got)
	}
}

func TestStableValues(t *testing.T) {
	conform(t, func(t *testing.T, s *reopening) {
		s.must(s.SetUint64([]byte("CurrentTerm"), 7))
		s.must(s.Set([]byte("k"), []byte("v")))
		s.must(s.Set([]byte("empty"), nil))
		s.must(s.SetUint64([]byte("CurrentTerm"), 8))
		s.reopen()
		if v, err := s.GetUint64([]byte("CurrentTerm")); v != 8 || err != nil {
			t.Errorf("term %d, %v", v, err)
		}
		if v, err := s.Get([]byte("k")); string(v) != "v" || err != nil {
			t.Errorf("k %q, %v", v, err)
		}
		if _, err := s.GetUint64([]byte("k")); err == nil {
			t.Error("read text as a number")
		}
	})
}

// A crash between the two halves of a vote must not leave the old candidate with the new
// term: that vote was never weighed.
func TestVoteIsWrittenAsAWhole(t *testing.T) {
	conform(t, func(t *testing.T, s *reopening) {
		vote := func() (uint64, string) {
			term, err := s.GetUint64(keyVoteTerm)
			s.must(err)
			candidate, err := s.Get(keyVoteCandidate)
			s.must(err)
			return term, string(candidate)
		}
		s.must(s.SetUint64(keyVoteTerm, 4))
		s.must(s.Set(keyVoteCandidate, []byte("a")))
		s.must(s.SetUint64(keyVoteTerm, 5))
		s.reopen() // the process ended here
		if term, candidate := vote(); term != 4 || candidate != "a" {
			t.Errorf("vote for %q in term %d", candidate, term)
		}
		s.must(s.SetUint64(keyVoteTerm, 5))
		s.must(s.Set(keyVoteCandidate, []byte("b")))
		s.reopen()
		if term, candidate := vote(); term != 5 || candidate != "b" {
			t.Errorf("vote for %q in term %d", candidate, term)
		}
	})
}

func TestSecondOpenIsRefused(t *testing.T) {
	conform(t, func(t *testing.T, s *reopening) {
		if second, err := s.open(); err == nil {
			t.Error("opened twice", second.Close())
		}
	})
}
