// Package metamorphic runs one list of operations against a log under many
// configurations, and demands that a client sees the same history under all of them.
//
// The idea, as in pebble's package of that name: nobody needs to know what the right
// answer is, if it must not depend on how the log is cut into segments, how dense its
// indexes are, what is kept open or in memory, and when the process was stopped, killed
// or lost power.
//
//	ops ──► Run(config 0) ──► history 0 ┐
//	    ├─► Run(config 1) ──► history 1 ├── all equal, or Simplify shrinks the ops
//	    └─► Run(config 2) ──► history 2 ┘
//
// Op is one operation with all its arguments, drawn by Generate from a seed. Config is
// what must not matter, drawn by a seed as well. A history is one line of text for each
// operation: what it answered. Offsets, values, timestamps, epochs and duplicates are in
// it; sizes of regions and of files are not.
//
// The package has no goroutines.
package metamorphic
