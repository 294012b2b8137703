package wire

import (
	"math/bits"
	"sync"
)

// arena is the memory of large buffers: one piece, in pages, of which each buffer gets the
// first run that is long enough. So buffers of all sizes use the same memory, where a free
// list of each size would need many times as much, or be short of the size that is asked
// for, and leave hundreds of megabytes a second to the garbage collector. What has never been
// used of it costs no memory, and low pages are used first.
type arena struct {
	mu    sync.Mutex
	size  int    // bytes, whole pages
	mem   []byte // nil until somebody asks, and after a while in which nobody did
	used  bitmap
	pages int // in use
	most  int // in use at once since the last trim

	misses int64 // buffers that did not fit
}

// pageSize is what a large buffer is a multiple of. On average half a page is lost of each,
// which is an eighth of the smallest.
const pageSize = 64 << 10

func newArena(size int) *arena {
	n := (size + pageSize - 1) / pageSize
	return &arena{size: n * pageSize, used: newBitmap(n)}
}

// take returns n bytes at least and the page where they begin; nil if there is no room.
func (a *arena) take(n int) (p []byte, page int) {
	count := (n + pageSize - 1) / pageSize
	a.mu.Lock()
	defer a.mu.Unlock()
	page = a.used.firstRun(count)
	if page < 0 {
		a.misses++
		return nil, 0
	}
	if a.mem == nil {
		a.mem = make([]byte, a.size)
	}
	a.used.set(page, count, true)
	a.pages += count
	a.most = max(a.most, a.pages)
	at := page * pageSize
	return a.mem[at : at+count*pageSize : at+count*pageSize], page
}

// give takes back what take returned.
func (a *arena) give(p []byte, page int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	count := len(p) / pageSize
	a.used.set(page, count, false)
	a.pages -= count
}

// trim leaves the memory to the collector if nobody has used any since the last trim.
func (a *arena) trim() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.most == 0 {
		a.mem = nil
	}
	a.most = a.pages
}

// free is how much is kept and not in use.
func (a *arena) free() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mem == nil {
		return 0
	}
	return a.size - a.pages*pageSize
}

func (a *arena) missed() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.misses
}

// bitmap has a bit for each page, set if it is in use; those beyond the last page are.
type bitmap []uint64

func newBitmap(n int) bitmap {
	b := make(bitmap, (n+63)/64)
	b.set(n, len(b)*64-n, true)
	return b
}

func (b bitmap) set(from, count int, on bool) {
	for i := from; i < from+count; i++ {
		if on {
			b[i/64] |= 1 << (i % 64)
		} else {
			b[i/64] &^= 1 << (i % 64)
		}
	}
}

// firstRun is where the first run of count free pages begins, -1 if there is none.
func (b bitmap) firstRun(count int) int {
	from := 0
	for {
		from = b.next(from, false)
		end := min(b.next(from, true), from+count)
		if end-from == count {
			return from
		}
		if end == len(b)*64 {
			return -1
		}
		from = end
	}
}

// next is the first page at or after from that is in use, or is not; the number of bits if
// there is none.
func (b bitmap) next(from int, used bool) int {
	for i := from / 64; i < len(b); i++ {
		w := b[i]
		if !used {
			w = ^w
		}
		if i == from/64 {
			w &= ^uint64(0) << (from % 64)
		}
		if w != 0 {
			return i*64 + bits.TrailingZeros64(w)
		}
	}
	return len(b) * 64
}
