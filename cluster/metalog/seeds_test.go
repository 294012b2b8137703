//go:build !slow

package metalog

// How many seeds the randomised tests run through.
const (
	chaosSeeds    uint64 = 2
	powerCutSeeds uint64 = 40
)
