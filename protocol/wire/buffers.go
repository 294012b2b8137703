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
	maxClassShift = 27
	numClasses    = (maxClassShift-minClassShift)*4 + 1

	// largeSize is where the garbage collector's pools stop. They are emptied within two
	// collections, and first touch of fresh memory costs 4 to 5 CPU seconds per GB, so
	// larger buffers are kept in a free list with a bound of its own.
	largeSize = 256 << 10
)

// DefaultMaxFreeBytes bounds the free list of large buffers.
const DefaultMaxFreeBytes = 64 << 20

// maxHeldBytes bounds large buffers in use and free together: when frames in flight come
// near their own bound, a free list on top of them would be memory that nobody needs.
const maxHeldBytes = DefaultQueuedRequestBytes * 5 / 4

// Buffers is a set of pools of byte buffers in size classes, shared by everything that
// a broker sends and receives. It is safe for concurrent use; the zero value is not ready.
type Buffers struct {
	small [numClasses]sync.Pool // *buffer, up to largeSize
	large freeList

	responses sync.Pool // *Response
	hints     [256]atomic.Int32
}

// NewBuffers makes a set whose free list of large buffers holds at most maxFreeBytes
// (0: DefaultMaxFreeBytes).
func NewBuffers(maxFreeBytes int) *Buffers {
	if maxFreeBytes == 0 {
		maxFreeBytes = DefaultMaxFreeBytes
	}
	b := &Buffers{large: freeList{maxBytes: maxFreeBytes}}
	b.responses.New = func() any { return new(Response) }
	return b
}

// Trim gives large buffers back to the collector that nobody took since the last Trim.
func (b *Buffers) Trim() { b.large.trim() }

// FreeBytes is the size of the free list of large buffers.
func (b *Buffers) FreeBytes() int { return b.large.size() }

// buffer is a pooled byte slice. Its length is the class's; whoever holds it keeps count
// of what is used.
type buffer struct {
	b     []byte
	class int // index of the size class, -1 if it belongs to no pool
}

// get returns a buffer of at least n bytes. Its content is arbitrary.
func (b *Buffers) get(n int) *buffer {
	class := classFor(n)
	if class < 0 {
		return &buffer{b: make([]byte, n), class: -1}
	}
	if classSize(class) <= largeSize {
		if buf, ok := b.small[class].Get().(*buffer); ok {
			return buf
		}
	} else if buf := b.large.pop(class); buf != nil {
		return buf
	}
	return &buffer{b: make([]byte, classSize(class)), class: class}
}

// put takes a buffer back.
func (b *Buffers) put(buf *buffer) {
	switch {
	case buf.class < 0:
	case classSize(buf.class) <= largeSize:
		b.small[buf.class].Put(buf)
	default:
		b.large.push(buf)
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
		return &buffer{b: p, class: -1}
	}
	return &buffer{b: p[:classSize(class):classSize(class)], class: class}
}

// classFor is the smallest class that holds n bytes, -1 if none does.
func classFor(n int) int {
	if n <= minClass {
		return 0
	}
	if n > 1<<maxClassShift {
		return -1
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

// largerClasses is how far above its own class a buffer may be taken from: less than twice
// the size.
const largerClasses = 3

// freeList keeps large buffers, at most maxBytes of them, and with those in use at most
// maxHeldBytes.
type freeList struct {
	mu       sync.Mutex
	maxBytes int
	bytes    int
	inUse    int // bytes of large buffers that are not in the list
	stacks   [numClasses][]*buffer
	low      [numClasses]int // fewest in the stack since the last trim
}

func (f *freeList) pop(class int) *buffer {
	f.mu.Lock()
	defer f.mu.Unlock()
	// A larger buffer does as well: frames of many sizes would else each have buffers of
	// their own, that the bounds then let go to waste.
	asked := class
	for len(f.stacks[class]) == 0 {
		if class++; class > asked+largerClasses || class == numClasses {
			f.inUse += classSize(asked) // the caller makes one
			return nil
		}
	}
	f.inUse += classSize(class)
	s := f.stacks[class]
	buf := s[len(s)-1]
	s[len(s)-1] = nil
	f.stacks[class] = s[:len(s)-1]
	f.low[class] = min(f.low[class], len(s)-1)
	f.bytes -= len(buf.b)
	return buf
}

func (f *freeList) push(buf *buffer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inUse = max(f.inUse-len(buf.b), 0) // an adopted one was never taken
	if free := f.bytes + len(buf.b); free > f.maxBytes || free+f.inUse > maxHeldBytes {
		return
	}
	f.stacks[buf.class] = append(f.stacks[buf.class], buf)
	f.bytes += len(buf.b)
}

func (f *freeList) trim() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for class, s := range f.stacks {
		keep := len(s) - f.low[class]
		for i := keep; i < len(s); i++ {
			f.bytes -= len(s[i].b)
			s[i] = nil
		}
		f.stacks[class] = s[:keep]
		f.low[class] = keep
	}
}

func (f *freeList) size() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bytes
}
