package invariant

import (
	"fmt"
	"reflect"
	"unsafe"
)

// Check panics with "invariant violated: …" unless ok. A check that holds allocates
// nothing: its arguments stay on the caller's stack.
func Check(ok bool, format string, args ...any) {
	if !ok {
		fail(format, hide(args))
	}
}

// fail is apart so that Check stays small enough to be inlined.
//
//go:noinline
func fail(format string, args []any) {
	growStack()
	panic("invariant violated: " + fmt.Sprintf(format, toHeap(args)...))
}

// hide keeps escape analysis from seeing that args reach fmt, which would move every
// argument of every Check to the heap before it is known whether the check holds.
// Whoever takes the result must not store it: see toHeap.
//
//go:nosplit
func hide(args []any) []any {
	words := *(*[3]uintptr)(unsafe.Pointer(&args))
	return *(*[]any)(unsafe.Pointer(&words))
}

// toHeap copies the arguments. fmt keeps an argument in a heap object while it formats,
// where a moving stack would not find the pointer to adjust it.
func toHeap(args []any) []any {
	copies := make([]any, len(args))
	for i, arg := range args {
		if arg == nil {
			continue
		}
		c := reflect.New(reflect.TypeOf(arg)).Elem()
		c.Set(reflect.ValueOf(arg))
		copies[i] = c.Interface()
	}
	return copies
}

// growStack makes room before fmt runs, since toHeap cannot copy what a pointer
// argument points to: the stack then need not move.
//
//go:noinline
func growStack() (sum byte) {
	var room [64 << 10]byte
	for i := range room {
		sum += room[i]
	}
	return sum
}
