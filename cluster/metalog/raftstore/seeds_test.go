//go:build !slow

package raftstore

// powerCutSeeds is how many seeds TestPowerCuts runs through.
const powerCutSeeds uint64 = 60
