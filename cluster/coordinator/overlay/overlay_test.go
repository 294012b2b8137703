package overlay

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestNewestAndCommitted(t *testing.T) {
	m := NewMap[string, int]()
	m.Set(0, "a", 1)
	m.Set(1, "b", 2)
	m.Advance(2)
	m.Set(2, "a", 3)
	m.Delete(3, "b")
	m.Set(4, "c", 4)
	check := func(newest, committed map[string]int) {
		t.Helper()
		if d := cmp.Diff(newest, maps.Collect(m.All())); d != "" {
			t.Errorf("newest version: %s", d)
		}
		if d := cmp.Diff(committed, maps.Collect(m.AllCommitted())); d != "" {
			t.Errorf("committed version: %s", d)
		}
		if m.Len() != len(newest) || m.CommittedLen() != len(committed) {
			t.Errorf("lengths %d and %d, want %d and %d", m.Len(), m.CommittedLen(), len(newest), len(committed))
		}
	}
	check(map[string]int{"a": 3, "c": 4}, map[string]int{"a": 1, "b": 2})
	m.Rollback(4)
	check(map[string]int{"a": 3}, map[string]int{"a": 1, "b": 2})
	m.Advance(3)
	check(map[string]int{"a": 3}, map[string]int{"a": 3, "b": 2})
	m.Rollback(3)
	check(map[string]int{"a": 3, "b": 2}, map[string]int{"a": 3, "b": 2})
}

func TestWhatIsBelowTheEndIsCommittedAtOnce(t *testing.T) {
	m := NewMap[string, int]()
	m.Advance(10)
	m.Set(3, "a", 1)
	if v, ok := m.GetCommitted("a"); !ok || v != 1 || m.IsPending("a") {
		t.Errorf("committed %d, %v; pending %v", v, ok, m.IsPending("a"))
	}
}

func TestOneRecordMayChangeTwoMaps(t *testing.T) {
	var j Journal
	a, b := NewMapIn[int, int](&j), NewMapIn[int, int](&j)
	a.Set(0, 1, 1)
	b.Set(0, 1, 1)
	a.Set(1, 1, 2)
	if j.Rollback(1); j.Pending() != 2 {
		t.Errorf("%d changes pending, want 2", j.Pending())
	}
	j.Advance(1)
	if va, _ := a.GetCommitted(1); va != 1 || b.CommittedLen() != 1 || j.Pending() != 0 {
		t.Errorf("a %d, b %d keys, %d pending", va, b.CommittedLen(), j.Pending())
	}
}

// model is a map as its full history.
type model struct{ changes []modelChange }

type modelChange struct {
	offset  int64
	key, to int // to < 0: deleted
}

func (m *model) at(end int64) map[int]int {
	state := map[int]int{}
	for _, c := range m.changes {
		if c.offset >= end {
			break
		}
		if state[c.key] = c.to; c.to < 0 {
			delete(state, c.key)
		}
	}
	return state
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var j Journal
		maps_ := []*Map[int, int]{NewMapIn[int, int](&j), NewMapIn[int, int](&j)}
		models := []*model{{}, {}}
		next := int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				j.Advance(rapid.Int64Range(0, next).Draw(t, "end"))
			case 1:
				from := rapid.Int64Range(j.Committed(), max(j.Committed(), next)).Draw(t, "from")
				j.Rollback(from)
				for _, m := range models {
					for len(m.changes) > 0 && m.changes[len(m.changes)-1].offset >= from {
						m.changes = m.changes[:len(m.changes)-1]
					}
				}
				next = max(from, j.Committed())
			default:
				i := rapid.IntRange(0, 1).Draw(t, "map")
				c := modelChange{next, rapid.IntRange(0, 3).Draw(t, "key"), rapid.IntRange(-1, 9).Draw(t, "to")}
				if c.to < 0 {
					maps_[i].Delete(c.offset, c.key)
				} else {
					maps_[i].Set(c.offset, c.key, c.to)
				}
				models[i].changes = append(models[i].changes, c)
				next += int64(rapid.IntRange(0, 1).Draw(t, "same record"))
			}
			for i, m := range maps_ {
				compare(t, "newest", models[i].at(1<<62), maps.Collect(m.All()), m.Len(), m.Get)
				compare(t, "committed", models[i].at(j.Committed()), maps.Collect(m.AllCommitted()), m.CommittedLen(), m.GetCommitted)
			}
		}
	})
}

func compare(t *rapid.T, what string, want, got map[int]int, n int, get func(int) (int, bool)) {
	if d := cmp.Diff(want, got); d != "" || n != len(want) {
		t.Fatalf("%s, %d keys: %s", what, n, d)
	}
	for k := range 4 {
		w, has := want[k]
		if g, ok := get(k); g != w || ok != has {
			t.Fatalf("%s of %d: %d, %v; want %d, %v", what, k, g, ok, w, has)
		}
	}
}

func TestSteadyChangesAllocateNothing(t *testing.T) {
	m := NewMap[int, int]()
	o := int64(0)
	n := testing.AllocsPerRun(1000, func() {
		m.Set(o, int(o%10), 1)
		o++
		m.Advance(o - 4)
	})
	if n > 0 {
		t.Errorf("%v allocations per change", n)
	}
}

func BenchmarkLoadCommitted(b *testing.B) {
	m := NewMap[int, int64]()
	m.Advance(1 << 62)
	for i := range b.N {
		m.Set(int64(i), i%10_000, int64(i))
	}
}
