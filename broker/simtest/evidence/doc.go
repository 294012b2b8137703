// Package evidence writes down what a long run of simulated brokers has tried and what came
// of it: a line in the file that KLAMM_EVIDENCE names, for `make sim`. Without that, nothing
// is written.
//
//	2026-11-29 commit=1db0d80f2a01 tier=exact test=TestSeeds seeds=9000001-9020000 faults=90123 acked=1786066 duration=1m31s result=pass
//
// Which seeds a run takes is here as well, since both tiers ask the same variables:
// KLAMM_FIRST is the first one, KLAMM_SEEDS how many. A run of new seeds is worth more than
// one of those that everybody runs.
//
// Without goroutines or state.
package evidence
