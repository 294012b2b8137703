package compaction

import (
	"fmt"
	"math"
	"testing"
)

// TestGroups has the cases of Kafka's testSegmentGrouping and its sisters.
func TestGroups(t *testing.T) {
	const g = math.MaxInt32
	piece := func(base, end, size, index, times int64) Piece { return Piece{base, end, size, index, times} }
	three := []Piece{piece(0, 10, 100, 8, 12), piece(10, 20, 100, 8, 12), piece(20, 30, 100, 8, 12)}
	far := []Piece{piece(0, 10, 1, 0, 0), piece(10, g+1, 1, 0, 0)}
	tests := []struct {
		name              string
		pieces            []Piece
		maxSize, maxIndex int64
		want              string
	}{
		{"none", nil, g, g, "[]"},
		{"all in one", three, g, g, "[[0 10 20]]"},
		{"too large by themselves", three, 1, g, "[[0] [10] [20]]"},
		{"index too large by itself", three, g, 1, "[[0] [10] [20]]"},
		{"two fit", three, 200, g, "[[0 10] [20]]"},
		{"a byte too much", three, 199, g, "[[0] [10] [20]]"},
		{"two offset indexes fit", three, g, 24, "[[0 10] [20]]"},
		{"offset index", []Piece{piece(0, 1, 1, 9, 0), piece(1, 2, 1, 9, 0)}, g, 17, "[[0] [1]]"},
		{"time index", []Piece{piece(0, 1, 1, 0, 9), piece(1, 2, 1, 0, 9)}, g, 17, "[[0] [1]]"},
		{"the largest relative offset", far, g, g, "[[0 10]]"},
		{"one beyond it", []Piece{far[0], piece(10, g+2, 1, 0, 0)}, g, g, "[[0] [10]]"},
		{"beyond it but empty", []Piece{far[0], piece(10, g+2, 0, 0, 0)}, g, g, "[[0 10]]"},
		{"goes on behind a gap", []Piece{far[0], piece(g+5, g+9, 1, 0, 0), piece(g+9, g+10, 1, 0, 0)}, g, g, fmt.Sprintf("[[0] [%d %d]]", g+5, g+9)},
		{"what grows has room", []Piece{piece(0, 1, 600<<20, 0, 0), piece(1, 2, 500<<20, 0, 0), piece(2, 3, 500<<20, 0, 0)}, g, g, "[[0] [1 2]]"},
		{"a large one between", []Piece{three[0], piece(10, 20, 999, 0, 0), three[2]}, 250, g, "[[0] [10] [20]]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bases := [][]int64{}
			for _, group := range Groups(tt.pieces, tt.maxSize, tt.maxIndex) {
				var b []int64
				for _, p := range group {
					b = append(b, p.Base)
				}
				bases = append(bases, b)
			}
			if got := fmt.Sprint(bases); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}
