//go:build !invariants

package invariant

// Enabled is true in builds with the tag "invariants".
const Enabled = false

// Sometimes is true in about percent of 100 calls, and never without the tag.
func Sometimes(percent int) bool { return false }
