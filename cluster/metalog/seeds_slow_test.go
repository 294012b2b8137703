//go:build slow

package metalog

// How many seeds the randomised tests run through.
const (
	chaosSeeds    uint64 = 60
	powerCutSeeds uint64 = 2000
)
