//go:build race

package compaction

// The race detector makes pools forget at random, so allocations are not counted then.
const raceEnabled = true
