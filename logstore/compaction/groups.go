package compaction

// Piece is a segment that is to be cleaned.
type Piece struct {
	// Base is its base offset, End where the next one begins.
	Base, End int64
	Size      int64 // of its log
	// IndexBytes and TimeIndexBytes are the sizes of its indexes.
	IndexBytes, TimeIndexBytes int64
}

// Groups puts neighbours together, each group to become one segment of maxSize bytes at
// most, with indexes of maxIndexBytes, and offsets that 31 bits hold (Kafka's
// groupSegmentsBySize). A piece that is too large by itself is a group of its own. What is
// written anew can be a little larger than what was read, because of larger differences of
// timestamps.
func Groups(pieces []Piece, maxSize, maxIndexBytes int64) [][]Piece { return nil }
