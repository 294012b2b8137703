package raftstore

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

// TestPowerCuts runs random operations on the file store, cuts the power at random sync
// points (after killing the process first, at times), opens the store again and asks for
// everything that had been acknowledged. Each seed goes through several cuts.
func TestPowerCuts(t *testing.T) {
	for seed := range powerCutSeeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			disk := vfs.NewCrash(rand.NewPCG(seed, 1))
			if err := disk.MkdirAll("/d", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := disk.SyncDir("/"); err != nil {
				t.Fatal(err)
			}
			m := &crashModel{t: t, disk: disk, rand: rand.New(rand.NewPCG(seed, 2)), stable: map[string]uint64{}}
			for range 8 {
				m.life()
			}
		})
	}
}

// crashModel knows what the store must hold. Entries are told apart by their terms.
type crashModel struct {
	t     *testing.T
	disk  *vfs.CrashFS
	rand  *rand.Rand
	store Store

	term   uint64 // of the next entries
	log    run
	stable map[string]uint64

	// What an operation that was interrupted would have made of it.
	nextLog    *run
	nextStable map[string]uint64
}

// run is a log: its first index and the terms of its entries.
type run struct {
	first uint64 // meaningless if there are none
	terms []uint64
}

func (r run) next() uint64 { return r.first + uint64(len(r.terms)) }

func (r run) String() string { return fmt.Sprintf("%d:%v", r.first, r.terms) }

// life opens the store, checks it, and works until the power fails.
func (m *crashModel) life() {
	store, err := OpenFiles(m.disk.Process(), "/d/raft")
	if err != nil {
		m.t.Fatal(err)
	}
	m.store = store
	m.check()
	m.plan()
	for m.operate() {
	}
	if m.rand.IntN(2) == 0 {
		m.disk.Kill()
		m.disk.PowerCut()
	}
	_ = store.Close() // of a dead process
	m.disk.OnSync(nil)
}

// plan has the power fail at a sync point some way ahead.
func (m *crashModel) plan() {
	left := 1 + m.rand.IntN(60)
	crash := m.disk.PowerCut
	switch m.rand.IntN(3) {
	case 0:
		crash = m.disk.PowerCutLosingAll
	case 1:
		crash = m.disk.Kill
	}
	m.disk.OnSync(func(vfs.SyncPoint) error {
		if left--; left == 0 {
			crash()
		}
		return nil
	})
}

// operate does one thing and reports whether the process still lives.
func (m *crashModel) operate() bool {
	m.term += uint64(m.rand.IntN(2))
	switch m.rand.IntN(6) {
	case 0, 1, 2:
		return m.append()
	case 3:
		return m.set()
	case 4:
		return m.deleteSuffix()
	default:
		return m.deletePrefix()
	}
}

func (m *crashModel) survived(err error) bool {
	if err != nil && !errors.Is(err, vfs.ErrCrashed) {
		m.t.Fatal(err)
	}
	return err == nil
}

// change runs an operation on the log that leads to next.
func (m *crashModel) change(next run, err error) bool {
	if !m.survived(err) {
		m.nextLog = &next
		return false
	}
	m.log = next
	return true
}

func (m *crashModel) append() bool {
	next := run{m.log.first, slices.Clone(m.log.terms)}
	if len(next.terms) == 0 {
		next.first = 1 + uint64(m.rand.IntN(50)) // as after a snapshot
	}
	var logs []*raft.Log
	for range 1 + m.rand.IntN(5) {
		size := m.rand.IntN(1 << m.rand.IntN(20))
		logs = append(logs, &raft.Log{Index: next.next(), Term: m.term, Data: make([]byte, size)})
		next.terms = append(next.terms, m.term)
	}
	return m.change(next, m.store.StoreLogs(logs))
}

func (m *crashModel) deleteSuffix() bool {
	if len(m.log.terms) == 0 {
		return true
	}
	keep := m.rand.IntN(len(m.log.terms))
	if m.rand.IntN(4) > 0 {
		keep = max(keep, len(m.log.terms)-3) // as it happens: few entries conflict
	}
	next := run{m.log.first, slices.Clone(m.log.terms[:keep])}
	return m.change(next, m.store.DeleteRange(next.next(), m.log.next()-1))
}

func (m *crashModel) deletePrefix() bool {
	if len(m.log.terms) == 0 {
		return true
	}
	drop := m.rand.IntN(len(m.log.terms))
	next := run{m.log.first + uint64(drop), m.log.terms[drop:]}
	return m.change(next, m.store.DeleteRange(m.log.first, next.first-1))
}

func (m *crashModel) set() bool {
	if m.rand.IntN(2) == 0 {
		m.nextStable = map[string]uint64{"CurrentTerm": m.term}
		if !m.survived(m.store.SetUint64([]byte("CurrentTerm"), m.term)) {
			return false
		}
	} else {
		vote := map[string]uint64{string(keyVoteTerm): m.term, string(keyVoteCandidate): uint64(m.rand.IntN(3))}
		m.nextStable = vote
		if !m.survived(errors.Join(
			m.store.SetUint64(keyVoteTerm, vote[string(keyVoteTerm)]),
			m.store.SetUint64(keyVoteCandidate, vote[string(keyVoteCandidate)]))) {
			return false
		}
	}
	maps.Copy(m.stable, m.nextStable)
	m.nextStable = nil
	return true
}

// check compares the store with what was acknowledged, and goes on from what it holds.
func (m *crashModel) check() {
	got := m.read()
	if !m.allowed(got) {
		m.t.Fatalf("log %v, acknowledged %v, then maybe %v", got, m.log, m.nextLog)
	}
	m.log, m.nextLog = got, nil
	m.checkStable()
}

// allowed tells whether got is the acknowledged log, or one on the way to what an
// interrupted operation would have made of it. Entries that were deleted from the front
// may be back.
func (m *crashModel) allowed(got run) bool {
	if m.nextLog == nil {
		return endsLike(got, m.log)
	}
	for n := min(len(m.log.terms), len(m.nextLog.terms)); n <= max(len(m.log.terms), len(m.nextLog.terms)); n++ {
		for _, longer := range []run{m.log, *m.nextLog} {
			if n <= len(longer.terms) && endsLike(got, run{longer.first, longer.terms[:n]}) {
				return true
			}
		}
	}
	return endsLike(got, *m.nextLog)
}

// endsLike tells whether got is want, or that with something in front.
func endsLike(got, want run) bool {
	if len(want.terms) == 0 || len(got.terms) == 0 {
		return len(want.terms) == len(got.terms)
	}
	return got.next() == want.next() && got.first <= want.first &&
		slices.Equal(got.terms[want.first-got.first:], want.terms)
}

func (m *crashModel) read() run {
	first, err1 := m.store.FirstIndex()
	last, err2 := m.store.LastIndex()
	if err := errors.Join(err1, err2); err != nil {
		m.t.Fatal(err)
	}
	got := run{first: first}
	for index := first; index <= last && last > 0; index++ {
		var l raft.Log
		if err := m.store.GetLog(index, &l); err != nil || l.Index != index {
			m.t.Fatalf("entry %d: %d, %v", index, l.Index, err)
		}
		got.terms = append(got.terms, l.Term)
	}
	return got
}

// checkStable takes the values as a whole: a vote of one term for the candidate of
// another would be wrong.
func (m *crashModel) checkStable() {
	got := map[string]uint64{}
	for _, key := range []string{"CurrentTerm", string(keyVoteTerm), string(keyVoteCandidate)} {
		v, err := m.store.GetUint64([]byte(key))
		if err != nil {
			m.t.Fatal(err)
		}
		got[key] = v
		m.stable[key] += 0
	}
	next := maps.Clone(m.stable)
	maps.Copy(next, m.nextStable)
	if !maps.Equal(got, m.stable) && !maps.Equal(got, next) {
		m.t.Fatalf("stable values %v, want %v or %v", got, m.stable, next)
	}
	m.stable, m.nextStable = got, nil
}
