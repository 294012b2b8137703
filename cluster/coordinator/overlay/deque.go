package overlay

// deque is a row that grows at the back and shrinks at both ends. Elements keep their
// number while they are in it: the first is head, the last head+len-1.
type deque[T any] struct {
	ring []T // length is a power of two, or 0
	head uint64
	n    int
}

func (d *deque[T]) len() int { return d.n }

// at is the element of a number.
func (d *deque[T]) at(number uint64) *T { return &d.ring[number&uint64(len(d.ring)-1)] }

func (d *deque[T]) front() *T { return d.at(d.head) }
func (d *deque[T]) back() *T  { return d.at(d.head + uint64(d.n) - 1) }

// pushBack adds an element and returns its number.
func (d *deque[T]) pushBack(v T) uint64 {
	if d.n == len(d.ring) {
		d.grow()
	}
	number := d.head + uint64(d.n)
	d.n++
	*d.at(number) = v
	return number
}

func (d *deque[T]) popFront() T {
	v := *d.front()
	d.clear(d.front())
	d.head++
	d.n--
	return v
}

func (d *deque[T]) popBack() T {
	v := *d.back()
	d.clear(d.back())
	d.n--
	return v
}

// clear drops what the element refers to.
func (d *deque[T]) clear(v *T) {
	var zero T
	*v = zero
}

func (d *deque[T]) grow() {
	old := *d
	d.ring = make([]T, max(8, 2*len(old.ring)))
	for i := range old.n {
		number := d.head + uint64(i)
		*d.at(number) = *old.at(number)
	}
}
