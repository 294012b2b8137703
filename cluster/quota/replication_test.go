package quota

import (
	"testing"
	"time"
)

// TestReplicationRate: a whole window counts at least, then the time since the oldest of the
// samples that are kept (Kafka's ReplicationQuotaManager with a SimpleRate).
func TestReplicationRate(t *testing.T) {
	start := time.Unix(1000, 0)
	limit, set := 100.0, true
	r := NewReplication(ReplicationOptions{Epoch: start, Limit: func() (float64, bool) { return limit, set }})
	for _, step := range []struct {
		after  time.Duration
		record int
		rate   float64
		wait   time.Duration
	}{
		{0, 0, 0, 0},
		{0, 100, 100, 0},           // in one window
		{0, 100, 200, time.Second}, // at twice the limit until two seconds have passed
		{500 * time.Millisecond, 0, 200, 1500*time.Millisecond - 500*time.Millisecond},
		{1500 * time.Millisecond, 0, 200 / 1.5, 500 * time.Millisecond},
		{2 * time.Second, 0, 100, 0}, // exactly at it is not above it
		{2 * time.Second, 800, 500, 8 * time.Second},
		{10 * time.Second, 0, 100, 0},
		{12 * time.Second, 0, 80, 0}, // the first sample is forgotten
	} {
		now := start.Add(step.after)
		if step.record > 0 {
			r.Record(now, step.record)
		}
		if rate, wait := r.Rate(now), r.Exceeded(now); rate != step.rate || wait != step.wait {
			t.Errorf("after %v: %v a second, wait %v; want %v, %v", step.after, rate, wait, step.rate, step.wait)
		}
	}
	now := start.Add(12 * time.Second)
	limit = 10
	if wait := r.Exceeded(now); wait != time.Second {
		t.Errorf("with a limit that the windows cannot show: wait %v, want 1s, when all is forgotten", wait)
	}
	set = false
	if wait := r.Exceeded(now); wait != 0 {
		t.Errorf("without a limit: wait %v", wait)
	}
}

// TestPaceOfReplication: what is let in comes evenly, not a window's worth at once; what was
// missed is made up for as far as a quarter of a second, and nobody waits for longer than a window.
func TestPaceOfReplication(t *testing.T) {
	const ms = time.Millisecond
	start := time.Unix(1000, 0)
	limit := 1000.0
	r := NewReplication(ReplicationOptions{Epoch: start, Limit: func() (float64, bool) { return limit, true }, Paced: true})
	for _, step := range []struct {
		after  time.Duration
		record int
		wait   time.Duration
	}{
		{0, 250, 0}, // what has not come before counts as missed
		{0, 100, 100 * ms},
		{100 * ms, 0, 0},
		{100 * ms, 50, 50 * ms},
		{5 * time.Second, 250, 0},
		{5 * time.Second, 1, ms},
		{10 * time.Second, 9000, time.Second}, // more than ten windows' worth: all of it is known, the pace forgets
		{11 * time.Second, 0, 0},
	} {
		now := start.Add(step.after)
		if step.record > 0 {
			r.Record(now, step.record)
		}
		if wait := r.Exceeded(now); wait != step.wait {
			t.Errorf("after %v: wait %v, want %v", step.after, wait, step.wait)
		}
	}
	limit = 0
	r.Record(start.Add(12*time.Second), 1)
	limit = 1e6
	if wait := r.Exceeded(start.Add(12 * time.Second)); wait != 0 {
		t.Errorf("after a limit of 0: wait %v", wait)
	}
}
