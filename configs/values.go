package configs

import (
	"math"
	"time"

	"github.com/klamm-mq/klamm/internal/invariant"
)

// values are parsed values by key. Reading a key as another type than its table says, or
// one that is absent, is a mistake of the program.
type values map[string]any

func (v values) has(name string) bool {
	_, ok := v[name]
	return ok
}

func (v values) bool(name string) bool      { return get[bool](v, name) }
func (v values) text(name string) string    { return get[string](v, name) }
func (v values) int(name string) int32      { return get[int32](v, name) }
func (v values) short(name string) int16    { return get[int16](v, name) }
func (v values) long(name string) int64     { return get[int64](v, name) }
func (v values) double(name string) float64 { return get[float64](v, name) }
func (v values) list(name string) []string  { return get[[]string](v, name) }

func get[T any](v values, name string) T {
	value, ok := v[name].(T)
	invariant.Check(ok, "configuration %s read as %T, it is %T", name, value, v[name])
	return value
}

// optional is the value of a key that may be unset, else the zero value.
func optional[T any](v values, name string) T {
	if !v.has(name) {
		var zero T
		return zero
	}
	return get[T](v, name)
}

// ms is a key of milliseconds as a duration; what does not fit is the longest there is.
func (v values) ms(name string) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	var n int64
	switch value := v[name].(type) {
	case int32:
		n = int64(value)
	case int64:
		n = value
	default:
		invariant.Check(false, "configuration %s read as milliseconds, it is %T", name, value)
	}
	if n > most {
		return math.MaxInt64
	}
	return time.Duration(max(n, -most)) * time.Millisecond
}
