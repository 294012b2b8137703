package configs

import (
	"testing"
	"time"
)

func TestISODuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"PT0S": 0, "PT15M": 15 * time.Minute, "P2D": 48 * time.Hour, "P1DT2H3M4.5S": 26*time.Hour + 3*time.Minute + 4500*time.Millisecond,
		"-PT6H+3M": -6*time.Hour - 3*time.Minute, "pt1h": time.Hour, "PT-0.5S": -500 * time.Millisecond, "PT1.S": time.Second,
		"P-1D": -24 * time.Hour, "PT0,000000001S": 1,
	} {
		if got, err := ParseISODuration(text); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "P", "PT", "1h", "P1W", "P1Y", "PT1D", "P1H", "P1DT", "PT1.0000000001S", "PT.5S", "P106752D", "PT9223372036854775808S", " PT1S"} {
		if got, err := ParseISODuration(text); err == nil {
			t.Errorf("%q is taken as %v", text, got)
		}
	}
}

func TestShareReset(t *testing.T) {
	key := GroupKey("share.auto.offset.reset")
	for text, good := range map[string]bool{
		"earliest": true, "latest": true, "by_duration:PT1H": true, "by_duration:-PT1H": false, "by_duration:": false,
		"none": false, "": false, "EARLIEST": false,
	} {
		if _, err := key.Parse(text); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}
