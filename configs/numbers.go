package configs

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// parseInt is Java's Long.parseLong and its like: decimal digits of most scripts behind an
// optional sign, in so many bits.
func parseInt(text string, bits int) (int64, error) {
	return strconv.ParseInt(strings.Map(latinDigit, text), 10, bits)
}

// latinDigit is '0' to '9' for a decimal digit of any script, and every other character
// as it is. Unicode's ranges of such digits are tens, each from 0 to 9. Digits above
// U+FFFF stay what they are: Java looks at each half of a surrogate pair.
func latinDigit(c rune) rune {
	for _, r := range unicode.Nd.R16 {
		if rune(r.Lo) <= c && c <= rune(r.Hi) {
			return '0' + (c-rune(r.Lo))%10
		}
	}
	return c
}

var errNotDouble = errors.New("not a number")

// parseDouble is Java's Double.parseDouble, but refuses NaN: a number may end in f or d,
// Infinity is written so, and what is too large is infinite.
func parseDouble(text string) (float64, error) {
	unsigned := strings.TrimLeft(text, "+-")
	switch {
	case unsigned == "Infinity":
	case unsigned == "" || strings.ContainsAny(unsigned, "_nN"): // of Go's own
		return 0, errNotDouble
	default:
		text = withoutSuffix(text)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || math.IsNaN(f) {
		return 0, errNotDouble
	}
	return f, nil
}

// withoutSuffix cuts the letter of a type from the end of a number; in a hexadecimal one
// it stands behind the exponent, and is a digit before it.
func withoutSuffix(text string) string {
	cut := strings.TrimRight(text, "fFdD")
	hex := strings.Contains(text, "0x") || strings.Contains(text, "0X")
	if len(text)-len(cut) == 1 && (!hex || strings.ContainsAny(text, "pP")) {
		return cut
	}
	return text
}
