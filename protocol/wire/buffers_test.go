package wire

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestSizeClasses(t *testing.T) {
	for class := range numClasses {
		size := classSize(class)
		if got := classFor(size); got != class {
			t.Fatalf("class of %d bytes is %d, want %d", size, got, class)
		}
		if class+1 < numClasses {
			if got := classFor(size + 1); got != class+1 {
				t.Fatalf("class of %d bytes is %d, want %d", size+1, got, class+1)
			}
		}
	}
	if got := classSize(numClasses - 1); got != largeSize {
		t.Errorf("the largest class holds %d bytes", got)
	}
	if got := classFor(largeSize + 1); got != unpooled {
		t.Errorf("beyond the largest class: %d", got)
	}
}

func TestSizeClassesWasteAtMostAQuarter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(minClass, 1<<maxClassShift).Draw(t, "n")
		size := classSize(classFor(n))
		if size < n || size > n+n/4 {
			t.Fatalf("%d bytes get %d", n, size)
		}
	})
}

func TestAdoptFitsItsClass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 1<<20).Draw(t, "n")
		buf := adopt(make([]byte, n))
		switch {
		case buf.class < 0:
			if n >= minClass && n <= largeSize {
				t.Fatalf("%d bytes fit no class", n)
			}
		case len(buf.b) != classSize(buf.class) || len(buf.b) > n:
			t.Fatalf("%d bytes became %d of class %d", n, len(buf.b), buf.class)
		}
	})
}

func TestLargeBuffersAreReused(t *testing.T) {
	b := NewBuffers(3 << 20)
	one, two := b.get(1<<20), b.get(1<<20)
	first := &one.b[0]
	b.put(one)
	if got := b.get(512 << 10); &got.b[0] != first || len(got.b) != 512<<10 {
		t.Errorf("%d bytes elsewhere, although memory that was used is free", len(got.b))
	}
	if three := b.get(2 << 20); three.class != unpooled {
		t.Error("a buffer in memory that is not there")
	} else {
		b.put(three)
	}
	if got := b.large.missed(); got != 1 {
		t.Errorf("%d buffers did not fit, want 1", got)
	}
	b.put(two)
	if got := b.get(2 << 20); got.class != inArena {
		t.Error("no buffer of pages that are free again")
	}
}

func TestTrimKeepsWhatIsUsed(t *testing.T) {
	b := NewBuffers(16 << 20)
	if got := b.FreeBytes(); got != 0 {
		t.Fatalf("%d bytes before anybody asked", got)
	}
	buf := b.get(1 << 20)
	b.Trim()
	b.put(buf)
	b.Trim() // it was in use since the last one
	if got := b.FreeBytes(); got != 16<<20 {
		t.Fatalf("%d bytes free after a period with one buffer", got)
	}
	b.Trim()
	if got := b.FreeBytes(); got != 0 {
		t.Errorf("%d bytes free after a period that needed none", got)
	}
	if got := b.get(1 << 20); got.class != inArena {
		t.Error("no memory after a trim")
	}
}

// Buffers of the arena never overlap, whoever takes and gives them back in which order, and
// one is refused only if no run of pages is long enough.
func TestArenaAgainstAModel(t *testing.T) {
	const pages = 70 // more than a word, not a multiple of one
	rapid.Check(t, func(t *rapid.T) {
		a := newArena(pages*pageSize - 1)
		type taken struct {
			p    []byte
			page int
		}
		var held []taken
		var owner [pages]bool
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			if len(held) > 0 && rapid.Bool().Draw(t, "give") {
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				for k := range len(held[i].p) / pageSize {
					owner[held[i].page+k] = false
				}
				a.give(held[i].p, held[i].page)
				held = slices.Delete(held, i, i+1)
				continue
			}
			n := rapid.IntRange(1, 80*pageSize).Draw(t, "bytes")
			p, page := a.take(n)
			if p == nil {
				if longestRun(owner[:])*pageSize >= n {
					t.Fatalf("%d bytes refused, with a run of %d pages", n, longestRun(owner[:]))
				}
				continue
			}
			if len(p) < n || len(p) >= n+pageSize || cap(p) != len(p) || &p[0] != &a.mem[page*pageSize] {
				t.Fatalf("%d bytes at page %d for %d", len(p), page, n)
			}
			for k := range len(p) / pageSize {
				if owner[page+k] {
					t.Fatalf("page %d is in two buffers", page+k)
				}
				owner[page+k] = true
			}
			held = append(held, taken{p, page})
		}
	})
}

func longestRun(owner []bool) (longest int) {
	run := 0
	for _, taken := range owner {
		if run++; taken {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}
