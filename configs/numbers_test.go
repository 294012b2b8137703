package configs

import (
	"math"
	"testing"
)

func TestNumbersAsJavaReadsThem(t *testing.T) {
	for text, want := range map[string]int64{
		"5": 5, "+5": 5, "-5": -5, "007": 7, "٣": 3, "-٣٠": -30, "９": 9, "1٣": 13,
	} {
		if got, err := parseInt(text, 64); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "+", "--1", "1_000", "0x10", " 5", "5 ", "½", "Ⅴ", "𝟜", "9223372036854775808"} {
		if got, err := parseInt(text, 64); err == nil {
			t.Errorf("%q is taken as %d", text, got)
		}
	}
}

func TestDoublesAsJavaReadsThem(t *testing.T) {
	for text, want := range map[string]float64{
		"0.5": 0.5, ".5": 0.5, "5.": 5, "+1e-3": 1e-3, "0.5f": 0.5, "0.5D": 0.5, "1e0d": 1, "0x1p-1": 0.5, "0x1p-1f": 0.5,
		"Infinity": math.Inf(1), "-Infinity": math.Inf(-1), "1e999": math.Inf(1), "1e-999": 0,
	} {
		if got, err := parseDouble(text); err != nil || got != want {
			t.Errorf("%q: %g, %v, want %g", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-", "NaN", "nan", "inf", "infinity", "Inf", "1_0", "0.5ff", "0.5fd", "f", "0x1f", "0x1", "1e", "0,5", "Infinityf"} {
		if got, err := parseDouble(text); err == nil {
			t.Errorf("%q is taken as %g", text, got)
		}
	}
}
