package configs

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// isoDuration is what Java's Duration.parse reads: days, hours, minutes and seconds, each
// with a sign of its own, in upper or lower case.
var isoDuration = regexp.MustCompile(`(?i)^([-+]?)P(?:([-+]?[0-9]+)D)?(T(?:([-+]?[0-9]+)H)?(?:([-+]?[0-9]+)M)?(?:([-+]?[0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?$`)

// ParseISODuration reads a duration as ISO 8601 and Kafka's tools write it: PnDTnHnMn.nS.
func ParseISODuration(text string) (time.Duration, error) {
	m := isoDuration.FindStringSubmatch(text)
	if m == nil || strings.EqualFold(m[3], "T") || m[2]+m[4]+m[5]+m[6] == "" {
		return 0, fmt.Errorf("%q is not of the form PnDTnHnMn.nS", text)
	}
	var total time.Duration
	for _, part := range []struct {
		digits string
		unit   time.Duration
	}{{m[2], 24 * time.Hour}, {m[4], time.Hour}, {m[5], time.Minute}, {m[6], time.Second}, {fraction(m[6], m[7]), 1}} {
		var err error
		if total, err = addUnits(total, part.digits, part.unit); err != nil {
			return 0, fmt.Errorf("%q: %w", text, err)
		}
	}
	if m[1] == "-" {
		total = -total
	}
	return total, nil
}

// fraction is the part of a second behind the point, in nanoseconds, with the sign of
// what stands before it.
func fraction(seconds, digits string) string {
	if digits == "" {
		return ""
	}
	sign := ""
	if strings.HasPrefix(seconds, "-") {
		sign = "-"
	}
	return sign + digits + strings.Repeat("0", 9-len(digits))
}

var errTooLong = errors.New("longer than 292 years")

func addUnits(total time.Duration, digits string, unit time.Duration) (time.Duration, error) {
	if digits == "" {
		return total, nil
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > math.MaxInt64/int64(unit) || n < -math.MaxInt64/int64(unit) {
		return 0, errTooLong
	}
	add := time.Duration(n) * unit
	sum := total + add
	if (sum > total) != (add > 0) && add != 0 || sum == math.MinInt64 {
		return 0, errTooLong
	}
	return sum, nil
}

// shareReset is where a share group begins (Kafka's ShareGroupAutoOffsetResetStrategy).
type shareReset struct{}

func (shareReset) Check(value any) error {
	text := value.(string)
	if text == "earliest" || text == "latest" {
		return nil
	}
	period, found := strings.CutPrefix(text, "by_duration:")
	if !found {
		return errors.New("must be earliest, latest or by_duration:PnDTnHnMn.nS")
	}
	switch d, err := ParseISODuration(period); {
	case err != nil:
		return fmt.Errorf("must have an ISO 8601 duration: %w", err)
	case d < 0:
		return errors.New("must not have a negative duration")
	}
	return nil
}

func (shareReset) String() string { return "[latest, earliest, by_duration:PnDTnHnMn.nS]" }
