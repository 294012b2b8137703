package overlay

import "testing"

// A change of many keys does not cost its map room for good, nor the journal.
func TestRoomOfPendingChangesIsGivenUp(t *testing.T) {
	var j Journal
	maps := make([]*Map[int, int], 4*maxSpares)
	offset := int64(0)
	for i := range maps {
		maps[i] = NewMapIn[int, int](&j)
		for k := range 4 * maxSpareChanges {
			maps[i].Set(offset, k%7, k)
			offset++
		}
	}
	j.Rollback(offset / 2) // some maps lose their changes, others keep them
	j.Advance(offset / 2)
	for i, m := range maps {
		if m.pending != nil {
			t.Errorf("map %d has room for pending changes and none", i)
		}
	}
	if len(j.spares) != 0 {
		t.Errorf("%d pieces of room kept, all are too large", len(j.spares))
	}
	offset /= 2
	for _, m := range maps {
		m.Set(offset, 1, 2)
		offset++
	}
	if n := cap(j.pending.ring); n > maxJournalRoom {
		t.Errorf("the journal keeps room for %d changes", n)
	}
	j.Advance(offset)
	if len(j.spares) != maxSpares {
		t.Errorf("%d pieces of room kept, want %d", len(j.spares), maxSpares)
	}
}
