package invariant

import "fmt"

// Check panics with "invariant violated: …" unless ok. The arguments are evaluated
// either way: keep them cheap.
func Check(ok bool, format string, args ...any) {
	if !ok {
		fail(format, args)
	}
}

// fail is apart so that Check stays small enough to be inlined.
//
//go:noinline
func fail(format string, args []any) {
	panic("invariant violated: " + fmt.Sprintf(format, args...))
}
