package main

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// garbagePercent is how much a large heap grows between two collections. Go's own 100 lets
	// it double; what fills it under load are frames, which the collector need not look into,
	// so that a collection costs next to nothing: 0.1 % of the broker's CPU at this setting.
	garbagePercent = 50
	// smallGarbage is how much any heap may grow, up to three times its size. A small one would
	// else be collected again and again, where metadata changes much: 5,000 topics in a row
	// cost a third more CPU.
	smallGarbage = 32 << 20
	// mostGarbagePercent keeps an idle broker small.
	mostGarbagePercent = 200
)

// limitHeap keeps garbage small, and has Go collect it sooner when the process comes near
// the memory that it may use, instead of being killed for it. That is a net, seldom
// reached: what bounds memory are the limits on requests. GOGC and GOMEMLIMIT decide where
// they are set.
func limitHeap(memory uint64) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(mostGarbagePercent)
		afterCollections(garbageFor())
	}
	if memory > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(min(memory/4*3, math.MaxInt64)))
	}
}

// garbageFor sets the growth that suits the size of the heap.
func garbageFor() func() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	set := mostGarbagePercent
	return func() {
		metrics.Read(live)
		if p := percentFor(live[0].Value.Uint64()); p != set {
			set = p
			debug.SetGCPercent(p)
		}
	}
}

// percentFor rounds, since a change stops all goroutines for a moment.
func percentFor(live uint64) int {
	percent := smallGarbage * 100 / max(live, 1)
	const step = 25
	return int(min(max(percent/step*step, garbagePercent), mostGarbagePercent))
}

// afterCollections calls f after each one, on a goroutine of the runtime's: what is collected
// with it is made anew.
func afterCollections(f func()) {
	type token struct{ _ [1]*byte } // not so small that it would share its memory with others
	runtime.AddCleanup(new(token), func(f func()) {
		f()
		afterCollections(f)
	}, f)
}
