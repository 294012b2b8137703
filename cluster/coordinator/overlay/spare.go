package overlay

// Of the room that maps have given up a journal keeps maxSpares pieces, each for at most
// maxSpareChanges changes: a few tens of KiB each.
const (
	maxSpares       = 16
	maxSpareChanges = 512
)

// takeSpare finds room for the pending changes of a map, or makes some.
func takeSpare[K comparable, V any](j *Journal) *pending[K, V] {
	for i := len(j.spares) - 1; i >= 0; i-- {
		p, ok := j.spares[i].(*pending[K, V])
		if !ok {
			continue // of another kind of map
		}
		last := len(j.spares) - 1
		j.spares[i], j.spares[last] = j.spares[last], nil
		j.spares = j.spares[:last]
		return p
	}
	return &pending[K, V]{newest: make(map[K]uint64)}
}

// giveSpare keeps room without changes for the next map, unless it is too large or there
// is enough.
func giveSpare[K comparable, V any](j *Journal, p *pending[K, V]) {
	if len(j.spares) < maxSpares && len(p.history.ring) <= maxSpareChanges {
		j.spares = append(j.spares, p)
	}
}
