//go:build !slow

package group

// defaultSeeds is how many seeds TestSeeds runs unless it is told.
const defaultSeeds = 50
