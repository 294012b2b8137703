// Package compacted judges what cleaning leaves of a partition. It knows the rules and no
// cleaner: it is told what a log held before, how far it may be cleaned, and what it holds
// afterwards.
//
//	offset    0    1    2    3    4  │ 5
//	before    a=1  b=1  a=2  c=1  c=- │ a=3      cleaned up to 5
//	after     ·    b=1  a=2  ·    c=- │ a=3      0 and 3 must be gone, 1, 2, 4 and 5 stay
//	later     ·    b=1  a=2  ·    ·   │ a=3      4 may go when its retention is over
//
// What may be missing is so for good, on every replica; it may also still be there, on one
// that has cleaned less, or is read before a crash has let a cleaning become whole. Where
// nothing may be missing, the log is what it always was: see History.
package compacted
