package configs

import (
	"slices"
	"strings"
)

// ChangeList gives the text of a list key after values, separated by commas, were appended
// to it or taken from it; where nothing is set (nil) the default is what they are appended
// to. What is in the list already is not appended again (KIP-339).
func (k *Key) ChangeList(set *string, values string, add bool) string {
	text := k.Default
	if set != nil {
		text = *set
	}
	parts := slices.DeleteFunc(splitJava(text), func(part string) bool { return part == "" })
	for _, part := range splitJava(values) {
		i := slices.Index(parts, part)
		switch {
		case add && i < 0:
			parts = append(parts, part)
		case !add && i >= 0:
			parts = slices.Delete(parts, i, i+1)
		}
	}
	return strings.Join(parts, ",")
}

// splitJava is Java's String.split: empty parts at the end are dropped, but of nothing an
// empty part is made.
func splitJava(text string) []string {
	if text == "" {
		return []string{""}
	}
	parts := strings.Split(text, ",")
	for len(parts) > 0 && parts[len(parts)-1] == "" {
		parts = parts[:len(parts)-1]
	}
	return parts
}
