package wire

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// Size classes: four per doubling, from minClass up, so that a buffer is at most a
// quarter larger than asked for.
const (
	minClassShift = 9 // 512 bytes
	minClass      = 1 << minClassShift
	maxClassShift = 18
	numClasses    = (maxClassShift-minClassShift)*4 + 1

	// largeSize is where the garbage collector's pools stop. They are emptied within two
	// collections, and first touch of fresh memory costs 4 to 5 CPU seconds per GB, so
	// larger buffers have memory of their own with a bound of its own.
	largeSize = 1 << maxClassShift
)

// DefaultLargeBytes bounds the memory of large buffers: what frames may take, and somewhat
// more, since it cannot be used to the last byte, and answers want some of it.
const DefaultLargeBytes = DefaultQueuedRequestBytes * 5 / 4

// Buffers is a set of pools of byte buffers, shared by everything that a broker sends and
// receives: up to 256 KiB in size classes, above in an arena. It is safe for concurrent use;
// the zero value is not ready.
type Buffers struct {
	small [numClasses]sync.Pool // *buffer
	large *arena

	responses sync.Pool // *Response
	hints     [256]atomic.Int32
}

// NewBuffers makes a set whose large buffers share largeBytes (0: DefaultLargeBytes). What
// does not fit there is made and left to the collector.
func NewBuffers(largeBytes int) *Buffers {
	if largeBytes == 0 {
		largeBytes = DefaultLargeBytes
	}
	b := &Buffers{large: newArena(largeBytes)}
	b.responses.New = func() any { return new(Response) }
	return b
}

// Trim gives the memory of large buffers back to the collector if nobody has used any since
// the last Trim.
func (b *Buffers) Trim() { b.large.trim() }

// FreeBytes is what is kept for large buffers and not in use.
func (b *Buffers) FreeBytes() int { return b.large.free() }

// buffer is a pooled byte slice. Its length is the class's, or whole pages of the arena;
// whoever holds it keeps count of what is used.
type buffer struct {
	b     []byte
	class int // index of the size class, or one of the two below
	page  int // in the arena
}

// Classes of buffers that are in none.
const (
	unpooled = -1
	inArena  = -2
)

// get returns a buffer of at least n bytes. Its content is arbitrary.
func (b *Buffers) get(n int) *buffer {
	if n > largeSize {
		return b.getLarge(n)
	}
	class := classFor(n)
	if buf, ok := b.small[class].Get().(*buffer); ok {
		return buf
	}
	return &buffer{b: make([]byte, classSize(class)), class: class}
}

func (b *Buffers) getLarge(n int) *buffer {
	p, page := b.large.take(n)
	if p == nil {
		return &buffer{b: make([]byte, n), class: unpooled}
	}
	return &buffer{b: p, class: inArena, page: page}
}

// put takes a buffer back.
func (b *Buffers) put(buf *buffer) {
	switch buf.class {
	case unpooled:
	case inArena:
		b.large.give(buf.b, buf.page)
	default:
		b.small[buf.class].Put(buf)
	}
}

// adopt makes a buffer of a slice that grew outside the pools, so that it can be put
// into the class that it fills.
func adopt(p []byte) *buffer {
	p = p[:cap(p)]
	class := classFor(len(p))
	if class >= 0 && classSize(class) > len(p) {
		class--
	}
	if class < 0 {
		return &buffer{b: p, class: unpooled}
	}
	return &buffer{b: p[:classSize(class):classSize(class)], class: class}
}

// classFor is the smallest class that holds n bytes, unpooled if none does.
func classFor(n int) int {
	if n <= minClass {
		return 0
	}
	if n > 1<<maxClassShift {
		return unpooled
	}
	k := bits.Len(uint(n-1)) - 1 // 2^k < n ≤ 2^(k+1)
	quarter := (n - 1 - 1<<k) >> (k - 2)
	return (k-minClassShift)*4 + quarter + 1
}

// classSize is the number of bytes in a buffer of the class.
func classSize(class int) int {
	k := minClassShift + class/4
	return 1<<k + (class%4)<<(k-2)
}
