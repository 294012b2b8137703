package replica

import (
	"testing"
	"time"
)

// TestEndOfAPauseIsNotAskedForWithoutWaiting: less than a millisecond before it, a fetch that
// waits for zero of them would be sent in a loop.
func TestEndOfAPauseIsNotAskedForWithoutWaiting(t *testing.T) {
	now, most := time.Unix(1, 0), 500*time.Millisecond
	for ends, want := range map[time.Time]time.Duration{
		{}:                               most,
		now.Add(time.Second):             most,
		now.Add(20 * time.Millisecond):   20 * time.Millisecond,
		now.Add(300 * time.Microsecond):  time.Millisecond,
		now.Add(-300 * time.Microsecond): time.Millisecond,
	} {
		if got := mayWait(now, ends, most); got != want {
			t.Errorf("pause ends after %v: waits %v, want %v", ends.Sub(now), got, want)
		}
	}
}
