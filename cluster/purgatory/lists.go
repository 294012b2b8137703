package purgatory

import (
	"container/heap"
	"time"
)

// lists is who watches which key and who expires when: the core, without clock and lock.
type lists[K comparable] struct {
	watchers  map[K]watchers[K] // no entry for a key that nobody watches
	deadlines deadlines[K]      // min-heap
}

// watchers is a doubly linked list in order of arrival.
type watchers[K comparable] struct{ first, last *node[K] }

func newLists[K comparable]() lists[K] {
	return lists[K]{watchers: make(map[K]watchers[K])}
}

func (l *lists[K]) len() int { return len(l.deadlines) }

func (l *lists[K]) add(it *Item[K]) {
	for i := range it.nodes {
		n := &it.nodes[i]
		w := l.watchers[n.key]
		if n.prev = w.last; n.prev == nil {
			w.first = n
		} else {
			n.prev.next = n
		}
		w.last = n
		l.watchers[n.key] = w
	}
	heap.Push(&l.deadlines, it)
}

func (l *lists[K]) remove(it *Item[K]) {
	for i := range it.nodes {
		l.unlink(&it.nodes[i])
	}
	if it.heapPos >= 0 {
		heap.Remove(&l.deadlines, it.heapPos)
	}
}

func (l *lists[K]) unlink(n *node[K]) {
	w := l.watchers[n.key]
	if n.prev == nil {
		w.first = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		w.last = n.prev
	} else {
		n.next.prev = n.prev
	}
	if w.first == nil {
		delete(l.watchers, n.key)
		return
	}
	l.watchers[n.key] = w
}

// watching appends a ticket for each operation that watches key, in order of arrival.
func (l *lists[K]) watching(key K, to []ticket[K]) []ticket[K] {
	for n := l.watchers[key].first; n != nil; n = n.next {
		to = append(to, ticket[K]{n.item, n.item.generation()})
	}
	return to
}

// nextDeadline is the earliest one; false if nothing waits.
func (l *lists[K]) nextDeadline() (time.Time, bool) {
	if len(l.deadlines) == 0 {
		return time.Time{}, false
	}
	return l.deadlines[0].deadline, true
}

// due takes the operations whose deadline has come off the heap, earliest first. They
// stay in the lists of their keys until they end.
func (l *lists[K]) due(now time.Time) []ticket[K] {
	var due []ticket[K]
	for len(l.deadlines) > 0 && !l.deadlines[0].deadline.After(now) {
		it := heap.Pop(&l.deadlines).(*Item[K])
		due = append(due, ticket[K]{it, it.generation()})
	}
	return due
}

func (l *lists[K]) all() []ticket[K] {
	all := make([]ticket[K], 0, len(l.deadlines))
	for _, it := range l.deadlines {
		all = append(all, ticket[K]{it, it.generation()})
	}
	return all
}

// deadlines is a min-heap of items by deadline; heap.Interface.
type deadlines[K comparable] []*Item[K]

func (d deadlines[K]) Len() int           { return len(d) }
func (d deadlines[K]) Less(i, j int) bool { return d[i].deadline.Before(d[j].deadline) }
func (d deadlines[K]) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].heapPos, d[j].heapPos = i, j
}

// Push implements heap.Interface.
func (d *deadlines[K]) Push(x any) {
	it := x.(*Item[K])
	it.heapPos = len(*d)
	*d = append(*d, it)
}

// Pop implements heap.Interface.
func (d *deadlines[K]) Pop() any {
	last := len(*d) - 1
	it := (*d)[last]
	it.heapPos = -1
	(*d)[last] = nil
	*d = (*d)[:last]
	return it
}
