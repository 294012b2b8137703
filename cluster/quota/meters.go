package quota

import (
	"container/list"
	"iter"
	"time"
)

const (
	// maxMeters bounds the meters of one kind. Client ids are the clients' choice, and under
	// a default quota each has a meter: beyond the bound the one that was used least recently
	// is forgotten, and begins anew when it is used again.
	maxMeters = 10_000
	// idleMeter is how long a meter is kept that nobody uses (Kafka's
	// INACTIVE_SENSOR_EXPIRATION_TIME_SECONDS).
	idleMeter = time.Hour
)

// meters are those of one kind, by whom they are of. The zero value has none.
type meters[ID comparable] struct {
	byID  map[ID]*list.Element // of *meter[ID]
	byUse list.List            // the one used last is in front
}

// meter measures one user, client or address.
type meter[ID comparable] struct {
	id     ID
	used   moment
	rate   rate
	bucket bucket // of changes only
	limit  float64
	pauses average // in ms
}

// get finds or makes a meter, and drops those that nobody uses.
func (m *meters[ID]) get(id ID, now moment) *meter[ID] {
	e := m.byID[id]
	if e == nil {
		if m.byID == nil {
			m.byID = map[ID]*list.Element{}
		}
		e = m.byUse.PushFront(&meter[ID]{id: id})
		m.byID[id] = e
	}
	m.byUse.MoveToFront(e)
	e.Value.(*meter[ID]).used = now
	m.expire(now)
	return e.Value.(*meter[ID])
}

func (m *meters[ID]) expire(now moment) {
	for last := m.byUse.Back(); last != nil; last = m.byUse.Back() {
		old := last.Value.(*meter[ID])
		if len(m.byID) <= maxMeters && now.since(old.used) < idleMeter {
			return
		}
		m.byUse.Remove(last)
		delete(m.byID, old.id)
	}
}

// all yields the meters, the one that was used last first.
func (m *meters[ID]) all() iter.Seq[*meter[ID]] {
	return func(yield func(*meter[ID]) bool) {
		for e := m.byUse.Front(); e != nil; e = e.Next() {
			if !yield(e.Value.(*meter[ID])) {
				return
			}
		}
	}
}
