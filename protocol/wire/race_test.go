//go:build race

package wire

// The race detector makes pools forget at random, so allocations are not counted then.
const raceEnabled = true
