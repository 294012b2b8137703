package compaction

import (
	"fmt"
	"runtime"
	"testing"

	"pgregory.net/rapid"
)

// TestOffsetMapIsAMap: whatever its size, it says of each key what was put last, and refuses
// more only when it has as many keys as it may.
func TestOffsetMapIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.Int64Range(0, 3*minTableSlots*2).Draw(t, "slots")
		m := NewOffsetMap(slots*slotBytes, rapid.Float64Range(0, 1.5).Draw(t, "load factor"))
		want := map[string]int64{}
		keys := rapid.IntRange(1, 300).Draw(t, "keys")
		for offset := range int64(rapid.IntRange(1, 600).Draw(t, "records")) {
			key := fmt.Sprint(rapid.IntRange(0, keys).Draw(t, "key"))
			switch put := m.Put([]byte(key), offset); {
			case put:
				want[key] = offset
				if m.Latest() != offset {
					t.Fatalf("latest is %d, not %d", m.Latest(), offset)
				}
			case m.Len() == 0 || m.Len() < m.limit && m.Len()+1 < m.maxSlots:
				t.Fatalf("full with %d keys of %d", m.Len(), m.limit)
			}
		}
		checkMap(t, m, want)
	})
}

func checkMap(t *rapid.T, m *OffsetMap, want map[string]int64) {
	if m.Len() != len(want) {
		t.Fatalf("%d keys, want %d", m.Len(), len(want))
	}
	for key, offset := range want {
		if got := m.Get([]byte(key)); got != offset {
			t.Fatalf("%q is at %d, want %d", key, got, offset)
		}
	}
	if got := m.Get([]byte("another")); got != -1 {
		t.Fatalf("a key that was not put is at %d", got)
	}
	m.Clear()
	if m.Len() != 0 || m.Latest() != -1 || m.Utilization() != 0 || m.Get([]byte("0")) != -1 {
		t.Fatal("cleared, and not empty")
	}
}

// TestOffsetMapStaysWithinItsBytes: a map grows as needed to what it may have, has by then
// nearly all the keys that this is good for, and gives everything back.
func TestOffsetMapStaysWithinItsBytes(t *testing.T) {
	const maxBytes = 16 << 20
	before := heap()
	m := NewOffsetMap(maxBytes, 0.9)
	m.Put([]byte("key"), 0)
	if used := heap() - before; used > 64<<10 {
		t.Errorf("%d bytes with one key", used)
	}
	offset := int64(1)
	for m.Put(fmt.Append(nil, offset), offset) {
		offset++
	}
	if used := heap() - before; used > maxBytes+64<<10 {
		t.Errorf("%d bytes when full", used)
	}
	if want := maxBytes / slotBytes * 9 / 10; m.Len() < want-64 || m.Utilization() < 0.89 {
		t.Errorf("full with %d keys, want %d; %v", m.Len(), want, m.Utilization())
	}
	for o := int64(1); o < offset; o++ {
		if got := m.Get(fmt.Append(nil, o)); got != o {
			t.Fatalf("key %d is at %d", o, got)
		}
	}
	m.Clear()
	if used := heap() - before; used > 64<<10 {
		t.Errorf("%d bytes after Clear", used)
	}
	runtime.KeepAlive(m)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A map of no bytes still has room for one key, so that each cleaning gets on.
func TestSmallestOffsetMap(t *testing.T) {
	m := NewOffsetMap(0, 0)
	if !m.Put([]byte("a"), 1) || m.Put([]byte("a"), 2) || m.Put([]byte("b"), 3) || m.Latest() != 1 {
		t.Errorf("%+v", m)
	}
	m.Reach(9)
	m.Reach(5)
	if m.Latest() != 9 {
		t.Error(m.Latest())
	}
}
