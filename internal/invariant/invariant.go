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
	panic("invariant violated: " + fmt.Sprintf(format, toHeap(args)...))
}

// hide keeps escape analysis from seeing that args reach fmt, which would move every
// argument of every Check to the heap before it is known whether the check holds.
// Whoever takes the result must not store it: see toHeap.
//
//go:nosplit
//go:nocheckptr
func hide(args []any) []any {
	p := uintptr(unsafe.Pointer(&args))
	return *(*[]any)(unsafe.Pointer(p ^ 0))
}

// toHeap copies what the arguments point to. fmt keeps an argument in a heap object
// while it formats, where a growing stack would not find the pointer to adjust it.
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
