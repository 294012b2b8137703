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

// TestReplicasFarBehindShareAnAnswer: a replica whose answers come full asks for more than
// replica.fetch.max.bytes, those of one leader together for no more than a whole answer.
func TestReplicasFarBehindShareAnAnswer(t *testing.T) {
	f := NewFetcher(FetcherOptions{PartitionMaxBytes: 100, MaxBytes: 1000})
	replicas := make([]*followed, 12)
	for i := range replicas {
		replicas[i] = &followed{}
	}
	for full, want := range map[int]int32{0: 1000, 1: 1000, 4: 250, 9: 111, 12: 100} {
		for i, r := range replicas {
			r.full = i < full
		}
		if got := f.shareOfBehind(replicas); got != want {
			t.Errorf("%d of 12 came full: each asks for %d, want %d", full, got, want)
		}
	}
}
