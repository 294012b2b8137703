//go:build !slow

package coordinator

// How many seeds the exact tier runs through.
const exactSeeds uint64 = 100
