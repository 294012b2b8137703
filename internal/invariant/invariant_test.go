package invariant

import (
	"errors"
	"testing"
)

type pair struct {
	topic string
	n     int64
}

func TestCheckPanicsWithItsMessageOnlyWhenBroken(t *testing.T) {
	Check(true, "never shown %d", 1)
	n := 1000 * int64(min(48, 100+len(t.Name())))
	tests := []struct {
		format string
		args   []any
		want   string
	}{
		{"plain", nil, "invariant violated: plain"},
		{"end %d below start %d", []any{3, n}, "invariant violated: end 3 below start 48000"},
		{"%v, %s, %v", []any{pair{"orders", n}, "text", errors.New("cause")}, "invariant violated: {orders 48000}, text, cause"},
		{"%v and %+v", []any{nil, &pair{"orders", 1}}, "invariant violated: <nil> and &{topic:orders n:1}"},
	}
	for _, test := range tests {
		if got := panicOf(func() { Check(false, test.format, test.args...) }); got != test.want {
			t.Errorf("panic = %v, want %q", got, test.want)
		}
	}
}

// The message is right although formatting makes the stack grow (and so move) while
// the arguments live on it.
func TestCheckFormatsArgumentsOfAMovingStack(t *testing.T) {
	done := make(chan any)
	go func() { // a new goroutine has the smallest stack
		n := 1000 * int64(min(48, 100+len(t.Name())))
		done <- panicOf(func() { Check(n < 0, "%v %d", deep{n}, n) })
	}()
	if got, want := <-done, "invariant violated: 48000 48000"; got != want {
		t.Errorf("panic = %v, want %q", got, want)
	}
}

// deep needs much stack to be printed.
type deep struct{ n int64 }

func (d deep) String() string { return d.after(1000) }

func (d deep) after(calls int) string {
	var room [256]byte
	room[calls%len(room)] = 1
	if calls == 0 {
		return "48000"
	}
	return d.after(calls - int(room[calls%len(room)]))
}

func panicOf(fn func()) (value any) {
	defer func() { value = recover() }()
	fn()
	return nil
}

func TestCheckThatHoldsAllocatesNothing(t *testing.T) {
	start, end := int64(1<<40), int64(1<<41)
	allocs := testing.AllocsPerRun(100, func() {
		start++
		Check(start <= end, "start %d above end %d of %s", start, end, t.Name())
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestSometimesFollowsTheBuildTag(t *testing.T) {
	if got := Sometimes(100); got != Enabled {
		t.Errorf("Sometimes(100) = %v, want %v", got, Enabled)
	}
	if Sometimes(0) {
		t.Error("Sometimes(0) = true")
	}
}
