package metamorphic

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Kind is what an operation does.
type Kind string

// The operations. All but the reads change the log.
const (
	Append   Kind = "append"   // a batch of N records by producer P (-1 = none), sized Size
	Repeat   Kind = "repeat"   // the last batch of producer P again
	Follow   Kind = "follow"   // N batches as a follower
	EndTxn   Kind = "end-txn"  // a marker for producer P; Commit says which
	Truncate Kind = "truncate" // cut N batches off the end, and begin a new epoch
	Start    Kind = "start"    // advance the log start by N batches
	Tick     Kind = "tick"     // N seconds pass
	Flush    Kind = "flush"
	ReadFrom Kind = "read"     // all from the batch N before the end on
	ReadAll  Kind = "read-all" // from the log start on
	ByTime   Kind = "by-time"  // the first record at or after N seconds before now
	Epochs   Kind = "epochs"   // ends of all epochs
)

// Op is one operation.
type Op struct {
	Kind   Kind
	N      int
	P      int64
	Size   int
	Commit bool
}

func (o Op) String() string {
	return fmt.Sprintf("{%s, n=%d, p=%d, size=%d, commit=%v}", o.Kind, o.N, o.P, o.Size, o.Commit)
}

// weights say how often an operation comes.
var weights = []struct {
	kind   Kind
	weight int
}{
	{Append, 40},
	{Repeat, 5},
	{Follow, 10},
	{EndTxn, 6},
	{Truncate, 4},
	{Start, 3},
	{Tick, 8},
	{Flush, 8},
	{ReadFrom, 8},
	{ReadAll, 3},
	{ByTime, 5},
	{Epochs, 3},
}

// Generate draws n operations, and one that reads everything at the end.
func Generate(r *rand.Rand, n int) []Op {
	total := 0
	for _, w := range weights {
		total += w.weight
	}
	ops := make([]Op, 0, n+1)
	for range n {
		at := r.IntN(total)
		kind := weights[0].kind
		for _, w := range weights {
			if at -= w.weight; at < 0 {
				kind = w.kind
				break
			}
		}
		ops = append(ops, Op{
			Kind: kind, N: 1 + r.IntN(5), P: int64(r.IntN(6)) - 2,
			Size: r.IntN(120), Commit: r.IntN(2) == 0,
		})
	}
	return append(ops, Op{Kind: ReadAll})
}

// Describe is a list of operations as text.
func Describe(ops []Op) string {
	var b strings.Builder
	for _, o := range ops {
		fmt.Fprintln(&b, o)
	}
	return b.String()
}

// Simplify drops operations as long as fails holds for the rest: first large pieces,
// then single ones.
func Simplify(ops []Op, fails func([]Op) bool) []Op {
	for size := len(ops) / 2; size >= 1; {
		dropped := false
		for at := 0; at+size <= len(ops); {
			rest := append(append([]Op(nil), ops[:at]...), ops[at+size:]...)
			if fails(rest) {
				ops, dropped = rest, true
			} else {
				at += size
			}
		}
		if !dropped || size > 1 {
			size /= 2
		}
	}
	return ops
}
