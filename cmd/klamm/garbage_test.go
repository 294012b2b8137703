package main

import (
	"runtime"
	"testing"
)

func TestGarbageThatSuitsTheHeap(t *testing.T) {
	for mib, want := range map[uint64]int{0: 200, 8: 200, 16: 200, 20: 150, 32: 100, 40: 75, 64: 50, 1000: 50} {
		if got := percentFor(mib << 20); got != want {
			t.Errorf("live heap of %d MiB: %d %%, want %d", mib, got, want)
		}
	}
}

// TestAfterEachCollection: the runtime tells of the first one, and of those after it.
func TestAfterEachCollection(t *testing.T) {
	told := make(chan struct{})
	afterCollections(func() {
		select {
		case told <- struct{}{}:
		case <-t.Context().Done():
		}
	})
	for heard := 0; heard < 3; {
		runtime.GC()
		select {
		case <-told:
			heard++
		default:
			runtime.Gosched()
		}
	}
}
