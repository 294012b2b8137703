//go:build invariants

package invariant

import "math/rand/v2"

// Enabled is true in builds with the tag "invariants".
const Enabled = true

// Sometimes is true in about percent of 100 calls, and never without the tag.
func Sometimes(percent int) bool { return rand.IntN(100) < percent }
