// Package invariant stops the process when something happened that cannot happen.
//
// A stopped broker recovers from its log; one that goes on with a wrong state writes
// it down. So a broken assumption is never an error value: [Check] panics, and nothing
// in the broker recovers from that panic. What a disk or a client can cause is not an
// invariant and is an ordinary error.
//
// Checks that cost more than a comparison stand behind [Enabled], which is true in
// builds with the tag "invariants":
//
//	if invariant.Enabled {
//		invariant.Check(slices.IsSorted(offsets), "offsets %v out of order", offsets)
//	}
//
// [Sometimes] lets such builds take an optional path at random (roll a segment early,
// drop a cache entry), so that tests meet it.
//
// Without state and goroutines.
package invariant
