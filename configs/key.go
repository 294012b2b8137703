package configs

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Type is Kafka's ConfigDef.Type; the numbers are DescribeConfigs' ConfigType.
type Type int8

// The types, with the Go type of a parsed value.
const (
	Boolean  Type = 1 // bool
	String   Type = 2 // string
	Int      Type = 3 // int32
	Short    Type = 4 // int16
	Long     Type = 5 // int64
	Double   Type = 6 // float64
	List     Type = 7 // []string
	Class    Type = 8 // string, the name of a Java class
	Password Type = 9 // string, never shown
)

func (t Type) String() string {
	return [...]string{"?", "BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD"}[t]
}

// noun says what a value of the type is, for error messages.
func (t Type) noun() string {
	return [...]string{
		"?", "true or false", "a text", "a 32-bit integer", "a 16-bit integer", "a 64-bit integer", "a number",
		"a list separated by commas", "a class", "a password",
	}[t]
}

// Importance is Kafka's advice on who should look at a key.
type Importance string

// The importances, as Kafka's documentation has them.
const (
	High   Importance = "HIGH"
	Medium Importance = "MEDIUM"
	Low    Importance = "LOW"
)

// Key is one configuration key.
type Key struct {
	Name       string
	Type       Type
	Default    string // text, meaningless with Unset
	Unset      bool   // there is no default: null until somebody sets it
	Valid      Validator
	Importance Importance
	Internal   bool // shown only where it was set
	Ours       bool // Kafka has no such key
	// Synonyms of a topic key are the broker keys that give its value where the topic
	// does not, the first that is set.
	Synonyms []Synonym
	Doc      string
}

// Synonym is a broker key that stands for a topic key, in a unit of its own.
type Synonym struct {
	Name string
	Unit int64 // of a time, in milliseconds: 3600000 for hours; 0: the value is taken as it is
}

// Sensitive values are never shown.
func (k *Key) Sensitive() bool { return k.Type == Password }

// Parse reads a value; its error says what is wrong, without name and value.
func (k *Key) Parse(text string) (any, error) {
	value, err := parse(k.Type, text)
	if _, set := k.Valid.(listOf); set && err == nil {
		value = distinct(value.([]string))
	}
	if err == nil && k.Valid != nil {
		err = k.Valid.Check(value)
	}
	return value, err
}

// parse trims as Java does and is as strict: no hexadecimal, no underscores, no units.
func parse(t Type, text string) (any, error) {
	text = strings.TrimFunc(text, func(r rune) bool { return r <= ' ' })
	switch t {
	case Boolean:
		switch {
		case strings.EqualFold(text, "true"):
			return true, nil
		case strings.EqualFold(text, "false"):
			return false, nil
		}
	case Int:
		if n, err := parseInt(text, 32); err == nil {
			return int32(n), nil
		}
	case Short:
		if n, err := parseInt(text, 16); err == nil {
			return int16(n), nil
		}
	case Long:
		if n, err := parseInt(text, 64); err == nil {
			return n, nil
		}
	case Double:
		if f, err := parseDouble(text); err == nil {
			return f, nil
		}
	case List:
		return splitList(text), nil
	default:
		return text, nil
	}
	return nil, fmt.Errorf("must be %s", t.noun())
}

// splitList keeps empty elements between commas, which validators then refuse.
func splitList(text string) []string {
	if text == "" {
		return []string{}
	}
	parts := strings.Split(text, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

// distinct keeps each element once, where it is named first: Kafka removes repetitions
// from lists that are sets (ConfigDef.parseValue).
func distinct(list []string) []string {
	kept := make([]string, 0, len(list))
	for _, element := range list {
		if !slices.Contains(kept, element) {
			kept = append(kept, element)
		}
	}
	return kept
}

// format writes a parsed value as Kafka does (ConfigDef.convertToString).
func format(value any) string {
	switch v := value.(type) {
	case float64:
		return formatDouble(v)
	case []string:
		return strings.Join(v, ",")
	}
	return fmt.Sprint(value)
}

// formatDouble is Java's Double.toString: 0.5, 1.0, 1.0E-5.
func formatDouble(f float64) string {
	switch abs := math.Abs(f); {
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case f == 0, 1e-3 <= abs && abs < 1e7:
		return withFraction(strconv.FormatFloat(f, 'f', -1, 64))
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	n, _ := strconv.Atoi(exponent) // strconv has just written it
	return withFraction(mantissa) + "E" + strconv.Itoa(n)
}

func withFraction(number string) string {
	if strings.Contains(number, ".") {
		return number
	}
	return number + ".0"
}
