package compaction

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// OffsetMap knows the newest offset of each key that it was given (Kafka's
// SkimpyOffsetMap): 24 bytes a key, whatever the key's size. It begins small and grows to
// the bound that it was made with.
//
// It is a row of open-addressed tables, chosen by the first bits of a key's hash, each of
// which grows by itself, so that little memory is taken twice while one grows.
type OffsetMap struct {
	tables   []table
	shift    int // of a hash's first half: what is left is the number of its table
	maxSlots int // of one table
	limit    int // keys in all
	n        int
	latest   int64
}

const (
	slotBytes = 24
	// maxTables is how many tables a large map has; one with less than minTableSlots for
	// each has fewer.
	maxTables     = 64
	minTableSlots = 4096
	// firstSlots is the size that a table begins with.
	firstSlots = 64
)

// slot is one key. The offset is stored plus one: 0 is an empty slot.
type slot struct {
	hash hash
	next int64
}

// hash is the first half of a key's SHA-256.
type hash struct{ high, low uint64 }

func hashOf(key []byte) hash {
	sum := sha256.Sum256(key)
	return hash{binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:])}
}

// NewOffsetMap makes a map that takes up to maxBytes of memory and is full when loadFactor
// of its slots are taken. It has room for one key at least.
func NewOffsetMap(maxBytes int64, loadFactor float64) *OffsetMap {
	slots := int(max(maxBytes/slotBytes, 2))
	tables := 1
	for tables < maxTables && slots/(2*tables) >= minTableSlots {
		tables *= 2
	}
	m := &OffsetMap{
		tables:   make([]table, tables),
		shift:    64 - bits.TrailingZeros(uint(tables)),
		maxSlots: slots / tables,
		limit:    max(int(float64(slots)*loadFactor), 1),
	}
	m.Clear()
	return m
}

// Put notes the offset of a key, in the place of one noted before: offsets rise. False if
// the map is full; nothing was put then, nor is it for a key that the map has.
func (m *OffsetMap) Put(key []byte, offset int64) bool {
	if m.n >= m.limit {
		return false
	}
	h := hashOf(key)
	t := m.table(h)
	s := t.find(h)
	if s == nil || s.next == 0 {
		if !t.makeRoom(m.maxSlots) {
			return false
		}
		s = t.find(h)
		m.n++
		t.n++
	}
	*s = slot{hash: h, next: offset + 1}
	m.Reach(offset)
	return true
}

// Get is the newest offset of a key, -1 if the map has none.
func (m *OffsetMap) Get(key []byte) int64 {
	h := hashOf(key)
	s := m.table(h).find(h)
	if s == nil {
		return -1
	}
	return s.next - 1
}

func (m *OffsetMap) table(h hash) *table { return &m.tables[h.high>>m.shift] }

// Latest is the offset up to which, itself included, the log is in the map; -1 at first.
func (m *OffsetMap) Latest() int64 { return m.latest }

// Reach says that everything up to offset is in the map (Kafka's updateLatestOffset).
func (m *OffsetMap) Reach(offset int64) { m.latest = max(m.latest, offset) }

// Len is the number of keys.
func (m *OffsetMap) Len() int { return m.n }

// Utilization is the share of slots, of all that there may be, that are taken.
func (m *OffsetMap) Utilization() float64 {
	return float64(m.n) / float64(m.maxSlots*len(m.tables))
}

// Clear forgets everything and gives the memory back.
func (m *OffsetMap) Clear() {
	clear(m.tables)
	m.n, m.latest = 0, -1
}

// table is a hash table with linear probing. One slot at least is always empty, so that
// every search ends.
type table struct {
	slots []slot
	n     int
}

// find is the slot of a hash, or the empty one where it would be; nil in a table without
// slots.
func (t *table) find(h hash) *slot {
	if len(t.slots) == 0 {
		return nil
	}
	high, _ := bits.Mul64(h.low, uint64(len(t.slots)))
	for i := int(high); ; {
		s := &t.slots[i]
		if s.next == 0 || s.hash == h {
			return s
		}
		if i++; i == len(t.slots) {
			i = 0
		}
	}
}

// makeRoom grows the table, if it is nearly full, to at most maxSlots; false if it has no
// room for one more.
func (t *table) makeRoom(maxSlots int) bool {
	if size := min(max(2*len(t.slots), firstSlots), maxSlots); size > len(t.slots) && t.n+1 > len(t.slots)*3/4 {
		old := t.slots
		t.slots = make([]slot, size)
		for _, s := range old {
			if s.next != 0 {
				*t.find(s.hash) = s
			}
		}
	}
	return t.n+1 < len(t.slots)
}
