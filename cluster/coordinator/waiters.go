package coordinator

// waiters are operations in the order in which they will be settled.
type waiters struct {
	row  []waiter
	head int
}

func (q *waiters) len() int       { return len(q.row) - q.head }
func (q *waiters) front() *waiter { return &q.row[q.head] }

func (q *waiters) push(w waiter) {
	if len(q.row) == cap(q.row) && q.head > len(q.row)/2 {
		n := copy(q.row, q.row[q.head:])
		clear(q.row[n:])
		q.row, q.head = q.row[:n], 0
	}
	q.row = append(q.row, w)
}

func (q *waiters) pop() waiter {
	w := q.row[q.head]
	q.row[q.head] = waiter{}
	q.head++
	if q.head == len(q.row) {
		q.row, q.head = q.row[:0], 0
	}
	return w
}
