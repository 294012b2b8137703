package configs

import "slices"

// nearest finds the known name that name is a likely misspelling of, or "".
func nearest(name string, known []string) string {
	best, bestDistance := "", 1+max(2, len(name)/4)
	for _, candidate := range known {
		if max(len(name)-len(candidate), len(candidate)-len(name)) >= bestDistance {
			continue // too far already, and a name of any length costs nothing
		}
		if d := distance(name, candidate); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best
}

func didYouMean(name string) string {
	if name == "" {
		return ""
	}
	return "; did you mean " + name + "?"
}

// distance is the least number of bytes to insert, delete, replace or swap with their
// neighbour that makes b of a.
func distance(a, b string) int {
	before, last, row := []int(nil), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(replace, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, slices.Clone(row)
	}
	return last[len(b)]
}
