package compaction

// OffsetMap knows the newest offset of each key that it was given (Kafka's
// SkimpyOffsetMap): 24 bytes a key, whatever the key's size. It begins small and grows to
// the bound that it was made with.
type OffsetMap struct {
	latest int64
}

// NewOffsetMap makes a map that takes up to maxBytes of memory and is full when loadFactor
// of its slots are taken. It has room for one key at least.
func NewOffsetMap(maxBytes int64, loadFactor float64) *OffsetMap { return &OffsetMap{latest: -1} }

// Put notes the offset of a key, in the place of one noted before: offsets rise. False if
// the map is full; nothing was put then.
func (m *OffsetMap) Put(key []byte, offset int64) bool { return false }

// Get is the newest offset of a key, -1 if the map has none.
func (m *OffsetMap) Get(key []byte) int64 { return -1 }

// Latest is the offset up to which, itself included, the log is in the map; -1 at first.
func (m *OffsetMap) Latest() int64 { return m.latest }

// Reach says that everything up to offset is in the map (Kafka's updateLatestOffset).
func (m *OffsetMap) Reach(offset int64) { m.latest = max(m.latest, offset) }

// Len is the number of keys.
func (m *OffsetMap) Len() int { return 0 }

// Utilization is the share of slots, of all that there may be, that are taken.
func (m *OffsetMap) Utilization() float64 { return 0 }

// Clear forgets everything and gives the memory back.
func (m *OffsetMap) Clear() {}
