package compaction

import (
	"math"
	"testing"
)

// TestJudge has the cases of Kafka's LogCleanerManagerTest and of testLogToClean.
func TestJudge(t *testing.T) {
	const never = math.MaxInt64
	// Four segments of ten offsets and 100, 200, 400, 800 bytes, the last one active.
	segments := []SegmentState{
		{Base: 10, Size: 100, LargestTimestampMs: 1000, FirstTimestampMs: 950},
		{Base: 20, Size: 200, LargestTimestampMs: 1100, FirstTimestampMs: 1050},
		{Base: 30, Size: 400, LargestTimestampMs: 1050, FirstTimestampMs: 0},
		{Base: 40, Size: 800, LargestTimestampMs: 1, FirstTimestampMs: 1},
	}
	state := func(change func(*State)) State {
		s := State{LogStart: 10, LogEnd: 50, Checkpoint: -1, Bound: 50, MaxCompactionLagMs: never, Segments: segments}
		change(&s)
		return s
	}
	tests := []struct {
		name   string
		change func(*State)
		want   Dirty
	}{
		{"all but the active segment", func(*State) {}, Dirty{FirstDirty: 10, FirstUncleanable: 40, CleanableBytes: 700}},
		{"from the checkpoint", func(s *State) { s.Checkpoint = 20 }, Dirty{FirstDirty: 20, FirstUncleanable: 40, CleanBytes: 100, CleanableBytes: 600}},
		{
			"a segment divided by the checkpoint counts twice", func(s *State) { s.Checkpoint = 25 },
			Dirty{FirstDirty: 25, FirstUncleanable: 40, CleanBytes: 300, CleanableBytes: 600},
		},
		{"everything is clean", func(s *State) { s.Checkpoint = 40 }, Dirty{FirstDirty: 40, FirstUncleanable: 40, CleanBytes: 700}},
		{"checkpoint in the active segment", func(s *State) { s.Checkpoint = 45 }, Dirty{FirstDirty: 45, FirstUncleanable: 40, CleanBytes: 1500}},
		{"checkpoint at the end", func(s *State) { s.Checkpoint = 50 }, Dirty{FirstDirty: 50, FirstUncleanable: 40, CleanBytes: 1500}},
		{"checkpoint beyond the end", func(s *State) { s.Checkpoint = 51 }, Dirty{FirstDirty: 10, FirstUncleanable: 40, CleanableBytes: 700, Reset: true}},
		{
			"checkpoint before the start", func(s *State) { s.LogStart, s.Checkpoint = 21, 20 },
			Dirty{FirstDirty: 21, FirstUncleanable: 40, CleanBytes: 300, CleanableBytes: 600, Reset: true},
		},
		{
			"a start inside of a segment", func(s *State) { s.LogStart = 15 },
			Dirty{FirstDirty: 15, FirstUncleanable: 40, CleanBytes: 100, CleanableBytes: 700},
		},
		{
			"start in the active segment", func(s *State) { s.LogStart, s.Checkpoint = 42, 0 },
			Dirty{FirstDirty: 42, FirstUncleanable: 40, CleanBytes: 1500, Reset: true},
		},
		{"bound at a segment", func(s *State) { s.Bound = 30 }, Dirty{FirstDirty: 10, FirstUncleanable: 30, CleanableBytes: 300}},
		{"bound inside of a segment", func(s *State) { s.Bound = 39 }, Dirty{FirstDirty: 10, FirstUncleanable: 30, CleanableBytes: 300}},
		{"bound in the first", func(s *State) { s.Bound = 19 }, Dirty{FirstDirty: 10, FirstUncleanable: 10}},
		{"bound before the start", func(s *State) { s.Bound = 0 }, Dirty{FirstDirty: 10, FirstUncleanable: 10}},
		{
			"bound below the checkpoint", func(s *State) { s.Checkpoint, s.Bound = 35, 20 },
			Dirty{FirstDirty: 35, FirstUncleanable: 30, CleanBytes: 700},
		},
		{"one is too young", func(s *State) { s.MinCompactionLagMs = 950 }, Dirty{FirstDirty: 10, FirstUncleanable: 20, CleanableBytes: 100}},
		{"all are too young", func(s *State) { s.MinCompactionLagMs = 1001 }, Dirty{FirstDirty: 10, FirstUncleanable: 10}},
		{"just old enough", func(s *State) { s.MinCompactionLagMs = 900 }, Dirty{FirstDirty: 10, FirstUncleanable: 40, CleanableBytes: 700}},
		{
			"the young one is clean", func(s *State) { s.MinCompactionLagMs, s.Checkpoint = 950, 30 },
			Dirty{FirstDirty: 30, FirstUncleanable: 40, CleanBytes: 300, CleanableBytes: 400},
		},
		{
			"overdue", func(s *State) { s.MaxCompactionLagMs = 1000 },
			Dirty{FirstDirty: 10, FirstUncleanable: 40, CleanableBytes: 700, Now: true, DelayMs: 50},
		},
		{"just not overdue", func(s *State) { s.MaxCompactionLagMs = 1050 }, Dirty{FirstDirty: 10, FirstUncleanable: 40, CleanableBytes: 700}},
		{
			"the overdue one is clean", func(s *State) { s.MaxCompactionLagMs, s.Checkpoint = 990, 20 },
			Dirty{FirstDirty: 20, FirstUncleanable: 40, CleanBytes: 100, CleanableBytes: 600},
		},
		{
			"no timestamps", func(s *State) { s.MaxCompactionLagMs, s.Checkpoint = 0, 30 },
			Dirty{FirstDirty: 30, FirstUncleanable: 40, CleanBytes: 300, CleanableBytes: 400},
		},
		{"only an active segment", func(s *State) { s.Segments = segments[3:] }, Dirty{FirstDirty: 10, FirstUncleanable: 40}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Judge(state(tt.change), 2000); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestWanted: a log is cleaned if enough of it is dirty, or it is high time.
func TestWanted(t *testing.T) {
	tests := []struct {
		d    Dirty
		min  float64
		want bool
	}{
		{Dirty{}, 0, false},
		{Dirty{CleanBytes: 50, CleanableBytes: 50}, 0.5, false},
		{Dirty{CleanBytes: 49, CleanableBytes: 50}, 0.5, true},
		{Dirty{CleanBytes: 99, CleanableBytes: 1}, 0.5, false},
		{Dirty{CleanBytes: 99, CleanableBytes: 1, Now: true}, 0.5, true},
		{Dirty{CleanBytes: 99, Now: true}, 0, false},
		{Dirty{CleanableBytes: 1}, 0.99, true},
		{Dirty{CleanableBytes: 1}, 1, false},
	}
	for _, tt := range tests {
		if got := tt.d.Wanted(tt.min); got != tt.want {
			t.Errorf("%+v with %v: %v", tt.d, tt.min, got)
		}
	}
}
