package compaction

import "math"

// Piece is a segment that is to be cleaned.
type Piece struct {
	// Base is its base offset, End where the next one begins.
	Base, End int64
	Size      int64 // of its log
	// IndexBytes and TimeIndexBytes are the sizes of its indexes.
	IndexBytes, TimeIndexBytes int64
}

// maxGroupBytes is the most that several pieces have together, whatever segment.bytes says. A
// batch that is written anew may be larger than it was: the first time that tombstones are seen,
// their timestamps become differences to a horizon days ahead, which makes the smallest of them
// half as large again. A group that passed the 2 GiB of a segment could never be cleaned.
const maxGroupBytes = 1 << 30

// Groups puts neighbours together, each group to become one segment of maxSize bytes at
// most, with indexes of maxIndexBytes, and offsets that 31 bits hold (Kafka's
// groupSegmentsBySize, which knows no maxGroupBytes). A piece that is too large by itself is a
// group of its own.
func Groups(pieces []Piece, maxSize, maxIndexBytes int64) [][]Piece {
	maxSize = min(maxSize, maxGroupBytes)
	var groups [][]Piece
	for len(pieces) > 0 {
		n := groupLen(pieces, maxSize, maxIndexBytes)
		groups = append(groups, pieces[:n:n])
		pieces = pieces[n:]
	}
	return groups
}

// groupLen is how many pieces from the first on go together.
func groupLen(pieces []Piece, maxSize, maxIndexBytes int64) int {
	sum := pieces[0]
	for n, p := range pieces[1:] {
		sum.Size += p.Size
		sum.IndexBytes += p.IndexBytes
		sum.TimeIndexBytes += p.TimeIndexBytes
		// An empty one has no offsets, so that its end does not count.
		tooFar := p.Size > 0 && p.End-1-sum.Base > math.MaxInt32
		if tooFar || sum.Size > maxSize || sum.IndexBytes > maxIndexBytes || sum.TimeIndexBytes > maxIndexBytes {
			return n + 1
		}
	}
	return len(pieces)
}
