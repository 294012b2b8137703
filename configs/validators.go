package configs

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Validator refuses values of the right type.
type Validator interface {
	Check(value any) error
	// String is what is valid, in Kafka's notation: "[0,...]", "[compact, delete]".
	String() string
}

// between is a closed range; an open end is nil. Kafka compares as doubles, which
// matters to nobody here: no bound is near 2^53.
type between struct{ min, max *float64 }

func atLeast(min float64) Validator      { return between{&min, nil} }
func inRange(min, max float64) Validator { return between{&min, &max} }

func (b between) Check(value any) error {
	n := number(value)
	if b.min != nil && n < *b.min {
		return fmt.Errorf("must be at least %s", bound(*b.min))
	}
	if b.max != nil && n > *b.max {
		return fmt.Errorf("must be at most %s", bound(*b.max))
	}
	return nil
}

func (b between) String() string {
	if b.max == nil {
		return fmt.Sprintf("[%s,...]", bound(*b.min))
	}
	return fmt.Sprintf("[%s,...,%s]", bound(*b.min), bound(*b.max))
}

func bound(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func number(value any) float64 {
	switch v := value.(type) {
	case int16:
		return float64(v)
	case int32:
		return float64(v)
	case int64:
		return float64(v)
	case float64:
		return v
	}
	panic(fmt.Sprintf("a range for a value of type %T", value))
}

// rangeOr is a range with one more value outside of it.
type rangeOr struct {
	Validator
	also float64
}

func (r rangeOr) Check(value any) error {
	if number(value) == r.also {
		return nil
	}
	if err := r.Validator.Check(value); err != nil {
		return fmt.Errorf("%w, or %.0f", err, r.also)
	}
	return nil
}

func (r rangeOr) String() string { return fmt.Sprintf("%s or %.0f", r.Validator, r.also) }

// oneOf is a text of a few.
type oneOf []string

func (o oneOf) Check(value any) error {
	if slices.Contains(o, value.(string)) {
		return nil
	}
	return fmt.Errorf("must be one of %s", strings.Join(o, ", "))
}

func (o oneOf) String() string { return "[" + strings.Join(o, ", ") + "]" }

// listOf is a set, written as a list: without empty elements, of the given ones if any
// are. Parse has removed repetitions.
type listOf struct {
	elements oneOf
	notEmpty bool
}

func (l listOf) Check(value any) error {
	list := value.([]string)
	if l.notEmpty && len(list) == 0 {
		return errors.New("must not be empty")
	}
	for _, element := range list {
		switch {
		case element == "":
			return errors.New("must not have empty elements")
		case len(l.elements) > 0 && !slices.Contains(l.elements, element):
			return fmt.Errorf("must be a list of %s", strings.Join(l.elements, ", "))
		}
	}
	return nil
}

func (l listOf) String() string {
	if len(l.elements) == 0 {
		return ""
	}
	return l.elements.String()
}

var throttledPair = regexp.MustCompile(`^([0-9]+:[0-9]+)?$`)

// throttledReplicas is "*" or a list of partition:broker.
type throttledReplicas struct{}

func (throttledReplicas) Check(value any) error {
	list := value.([]string)
	if slices.Equal(list, []string{"*"}) {
		return nil
	}
	for _, element := range list {
		if !throttledPair.MatchString(element) {
			return errors.New("must be * or a list of partition:broker")
		}
	}
	return nil
}

func (throttledReplicas) String() string {
	return "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
}
