package wire

import (
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
	if got := classSize(numClasses - 1); got < DefaultMaxRequestBytes {
		t.Errorf("the largest class holds %d bytes, less than the largest frame", got)
	}
	if got := classFor(classSize(numClasses-1) + 1); got != -1 {
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
			if n >= minClass {
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
	b.put(one)
	b.put(two)
	if got := b.FreeBytes(); got != 2<<20 {
		t.Fatalf("%d bytes free", got)
	}
	if got := b.get(1 << 20); got != two && got != one {
		t.Error("a fresh buffer although two are free")
	}
	b.put(two)
	b.put(b.get(2 << 20)) // above the bound: left to the collector
	if got := b.FreeBytes(); got != 2<<20 {
		t.Errorf("%d bytes free, above the bound", got)
	}
}

func TestTrimKeepsWhatIsUsed(t *testing.T) {
	b := NewBuffers(16 << 20)
	var held []*buffer
	for range 4 {
		held = append(held, b.get(1<<20))
	}
	for _, buf := range held {
		b.put(buf)
	}
	b.Trim() // all four were taken since the last one
	if got := b.FreeBytes(); got != 4<<20 {
		t.Fatalf("%d bytes free after the first trim", got)
	}
	b.put(b.get(1 << 20)) // one is enough in this period
	b.Trim()
	if got := b.FreeBytes(); got != 1<<20 {
		t.Errorf("%d bytes free after a period that needed one buffer", got)
	}
	b.Trim()
	if got := b.FreeBytes(); got != 0 {
		t.Errorf("%d bytes free after a period that needed none", got)
	}
}

func TestEnormousBuffersAreNotPooled(t *testing.T) {
	b := NewBuffers(0)
	buf := b.get(1<<maxClassShift + 1)
	b.put(buf)
	if len(buf.b) != 1<<maxClassShift+1 || b.FreeBytes() != 0 {
		t.Errorf("%d bytes, %d free", len(buf.b), b.FreeBytes())
	}
}
