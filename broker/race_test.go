//go:build race

package broker_test

// The race detector allocates, so what is counted says nothing under it.
const raceEnabled = true
