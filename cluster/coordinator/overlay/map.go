package overlay

import "iter"

// Map is a map of which the committed and the newest version can be read.
type Map[K comparable, V any] struct {
	journal   *Journal
	committed map[K]V
	pending   *pending[K, V] // nil: nothing is
	size      int            // keys in the newest version
}

// pending are the changes of a map that are not committed, at least one.
type pending[K comparable, V any] struct {
	newest  map[K]uint64 // number of the newest change of a key, in history
	history deque[change[K, V]]
}

// change is one pending change of a key.
type change[K comparable, V any] struct {
	key     K
	value   V
	deleted bool
	// before is the number of the change of the same key before this one; it may be
	// committed meanwhile, hence gone from history. noChange if there was none.
	before uint64
}

const noChange = ^uint64(0)

// NewMap makes a map with a journal of its own: Advance and Rollback of the map serve it.
func NewMap[K comparable, V any]() *Map[K, V] { return NewMapIn[K, V](new(Journal)) }

// NewMapIn makes an empty map whose changes are filed in j.
func NewMapIn[K comparable, V any](j *Journal) *Map[K, V] {
	return &Map[K, V]{journal: j, committed: make(map[K]V)}
}

// Get finds the newest value of a key, pending or committed.
func (m *Map[K, V]) Get(k K) (V, bool) {
	if p := m.pending; p != nil {
		if number, ok := p.newest[k]; ok {
			c := p.history.at(number)
			return c.value, !c.deleted
		}
	}
	return m.GetCommitted(k)
}

// GetCommitted finds the committed value of a key.
func (m *Map[K, V]) GetCommitted(k K) (V, bool) {
	v, ok := m.committed[k]
	return v, ok
}

// IsPending tells whether a key has changes that are not committed.
func (m *Map[K, V]) IsPending(k K) bool {
	if m.pending == nil {
		return false
	}
	_, ok := m.pending.newest[k]
	return ok
}

// Set gives a key a value by the record at offset. Offsets do not fall.
func (m *Map[K, V]) Set(offset int64, k K, v V) {
	m.change(offset, change[K, V]{key: k, value: v})
}

// Delete removes a key by the record at offset.
func (m *Map[K, V]) Delete(offset int64, k K) {
	m.change(offset, change[K, V]{key: k, deleted: true})
}

func (m *Map[K, V]) change(offset int64, c change[K, V]) {
	_, had := m.Get(c.key)
	m.size += presence(!c.deleted) - presence(had)
	if !m.journal.add(offset, m) {
		m.commit(&c)
		return
	}
	if m.pending == nil {
		m.pending = takeSpare[K, V](m.journal)
	}
	p := m.pending
	c.before = noChange
	if number, ok := p.newest[c.key]; ok {
		c.before = number
	}
	p.newest[c.key] = p.history.pushBack(c)
}

func (m *Map[K, V]) commit(c *change[K, V]) {
	if c.deleted {
		delete(m.committed, c.key)
		return
	}
	m.committed[c.key] = c.value
}

// commitOldest implements history.
func (m *Map[K, V]) commitOldest() {
	p := m.pending
	number := p.history.head
	c := p.history.popFront()
	m.commit(&c)
	if p.newest[c.key] == number {
		delete(p.newest, c.key)
	}
	m.release()
}

// dropNewest implements history.
func (m *Map[K, V]) dropNewest() {
	p := m.pending
	c := p.history.popBack()
	if c.before != noChange && c.before >= p.history.head {
		p.newest[c.key] = c.before
	} else {
		delete(p.newest, c.key)
	}
	m.release()
	_, has := m.Get(c.key)
	m.size += presence(has) - presence(!c.deleted)
}

// release gives up the room of pending changes when there are none.
func (m *Map[K, V]) release() {
	if p := m.pending; p.history.len() == 0 {
		m.pending = nil
		giveSpare(m.journal, p)
	}
}

func presence(is bool) int {
	if is {
		return 1
	}
	return 0
}

// Len counts the keys of the newest version, CommittedLen those of the committed one.
func (m *Map[K, V]) Len() int { return m.size }

// CommittedLen counts the keys of the committed version.
func (m *Map[K, V]) CommittedLen() int { return len(m.committed) }

// Pending counts the changes that are not committed. A map without keys in either version
// may have some: those that made and removed a key.
func (m *Map[K, V]) Pending() int {
	if m.pending == nil {
		return 0
	}
	return m.pending.history.len()
}

// All yields the newest version in no order. The map must not change meanwhile.
func (m *Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for k, v := range m.committed {
			if !m.IsPending(k) && !yield(k, v) {
				return
			}
		}
		if m.pending == nil {
			return
		}
		for k, number := range m.pending.newest {
			if c := m.pending.history.at(number); !c.deleted && !yield(k, c.value) {
				return
			}
		}
	}
}

// AllCommitted yields the committed version in no order. The map must not change
// meanwhile.
func (m *Map[K, V]) AllCommitted() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for k, v := range m.committed {
			if !yield(k, v) {
				return
			}
		}
	}
}

// Advance commits the changes below end, in all maps of the journal.
func (m *Map[K, V]) Advance(end int64) { m.journal.Advance(end) }

// Rollback drops the changes at and above from, in all maps of the journal.
func (m *Map[K, V]) Rollback(from int64) { m.journal.Rollback(from) }
