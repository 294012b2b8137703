package peer

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// What an address says once is not believed, nor what it says in turn.
func TestRefusesTwice(t *testing.T) {
	for _, test := range []struct {
		says  string // what each dial says: r refuses, a accepts, s says nothing
		want  bool
		takes time.Duration
	}{
		{"rr", true, twicePause},
		{"arr", true, 2 * twicePause},
		{"aaaarr", true, 5 * twicePause},
		{"rarara", false, 5 * twicePause},
		{"rra", true, twicePause},
		{"aaaaaa", false, 5 * twicePause},
		{"ssss", false, refusalPatience},
	} {
		synctest.Test(t, func(t *testing.T) {
			dials, begin := 0, time.Now()
			got := RefusesTwice(t.Context(), func(ctx context.Context) bool {
				dials++
				if test.says[dials-1] == 's' {
					<-ctx.Done()
				}
				return test.says[dials-1] == 'r'
			})
			if took := time.Since(begin); got != test.want || took != test.takes {
				t.Errorf("%s: %v after %v, want %v after %v", test.says, got, took, test.want, test.takes)
			}
		})
	}
}

// Whoever waits for it may stop.
func TestRefusesTwiceEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	if RefusesTwice(ctx, func(context.Context) bool { cancel(); return true }) {
		t.Error("refused twice, by one dial")
	}
}
