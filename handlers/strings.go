package handlers

import (
	"fmt"
	"math"
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxString is the longest string that Kafka reads or writes, in bytes. Flexible versions
// could bear longer ones, and Kafka's readers refuse them all the same. Here it is more
// than form: in the records of groups lengths have two bytes, and the id of one group would
// be cut down to that of another.
const maxString = math.MaxInt16

// checkStrings looks for strings that are too long in a decoded request of a body of n
// bytes. Only large bodies of flexible versions can have them.
func checkStrings(req kmsg.Request, n int) error {
	if n <= maxString || !req.IsFlexible() {
		return nil
	}
	if size := longestString(reflect.ValueOf(req)); size > maxString {
		return fmt.Errorf("a string of %d bytes", size)
	}
	return nil
}

// longestString is the length of the longest string in v, in whatever depth.
func longestString(v reflect.Value) (longest int) {
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Pointer:
		if !v.IsNil() {
			return longestString(v.Elem())
		}
	case reflect.Slice:
		if !hasStrings(v.Type().Elem()) {
			return 0 // most of Fetch and Produce
		}
		for i := range v.Len() {
			longest = max(longest, longestString(v.Index(i)))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			longest = max(longest, longestString(v.Field(i)))
		}
	default: // numbers, ids; unknown tags are bytes
	}
	return longest
}

func hasStrings(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String:
		return true
	case reflect.Pointer, reflect.Slice:
		return hasStrings(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if hasStrings(t.Field(i).Type) {
				return true
			}
		}
	default:
	}
	return false
}
