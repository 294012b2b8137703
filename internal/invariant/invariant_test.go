package invariant

import "testing"

func TestCheckPanicsWithItsMessageOnlyWhenBroken(t *testing.T) {
	Check(true, "never shown %d", 1)

	defer func() {
		if got, want := recover(), "invariant violated: end 3 below start 7"; got != want {
			t.Errorf("panic = %v, want %q", got, want)
		}
	}()
	Check(3 >= 7, "end %d below start %d", 3, 7)
}

func TestSometimesFollowsTheBuildTag(t *testing.T) {
	if got := Sometimes(100); got != Enabled {
		t.Errorf("Sometimes(100) = %v, want %v", got, Enabled)
	}
	if Sometimes(0) {
		t.Error("Sometimes(0) = true")
	}
}
