// Package batchtest makes logs as compaction leaves them: batches that lack records, empty
// batches, offsets that nobody has. For tests of what reads such logs; the cleaner has a
// filter of its own (logstore/compaction), and this one, which knows nothing of it, is
// there to be compared with.
//
//	before    [0 a=1, 1 b=1] [2 a=2] [3 c=1] [4 a=-, 5 d=1] | [6 d=2]
//	Clean 6   [1 b=1, ·]     ·       [3 c=1] [4 a=-, 5 d=1] | [6 d=2]
//
// Each batch keeps its base and last offset, its producer, sequences and leader epoch.
package batchtest
