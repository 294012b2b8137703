package conform

import (
	"fmt"
	"slices"
	"strings"
)

// OnlyConfigs leaves all configuration keys but these out of later answers; without names
// it ends that. What a topic's whole table looks like is asked once, not for each value.
func (r *R) OnlyConfigs(names ...string) { r.onlyConfigs = names }

// HostConfigs says that the values of these keys, and where they come from, belong to the
// machine or the set-up of the broker: later answers show that they are there, with type,
// documentation and whether they can be changed.
func (r *R) HostConfigs(names ...string) { r.hostConfigs = append(r.hostConfigs, names...) }

// MaybeReadOnly says that whether these keys can be changed belongs to the machinery of the
// broker: later answers do not show it.
func (r *R) MaybeReadOnly(names ...string) { r.maybeReadOnly = append(r.maybeReadOnly, names...) }

// filterConfigs applies OnlyConfigs, HostConfigs and MaybeReadOnly to the lines of an answer.
func (r *R) filterConfigs(lines []Line) []Line {
	if len(r.onlyConfigs) > 0 {
		lines = onlyConfigs(lines, r.onlyConfigs)
	}
	if len(r.hostConfigs) > 0 {
		lines = withoutHost(lines, r.hostConfigs)
	}
	for i, l := range keyed(lines) {
		if slices.Contains(r.maybeReadOnly, l.item) {
			lines[i].Fields = slices.DeleteFunc(lines[i].Fields, func(f Field) bool { return f.Name == "ReadOnly" })
		}
	}
	return lines
}

// onlyConfigs keeps the lines of these keys, and counts anew.
func onlyConfigs(lines []Line, names []string) (kept []Line) {
	left := map[string]int{} // path of the array → keys that are left
	for _, l := range keyed(lines) {
		m := configPath.FindStringSubmatch(l.line.Path)
		if m == nil {
			kept = append(kept, l.line)
			continue
		}
		array, isKey := m[1], m[0] == l.line.Path
		if !slices.Contains(names, l.item) {
			continue
		}
		if isKey {
			left[array]++
		}
		l.line.Path = fmt.Sprintf("%s[%d]%s", array, left[array]-1, l.line.Path[len(m[0]):])
		kept = append(kept, l.line)
	}
	for _, l := range kept {
		recount(l, left)
	}
	return kept
}

// recount corrects the number of keys in the line of a struct that has any.
func recount(l Line, left map[string]int) {
	for i, f := range l.Fields {
		if f.Name == "Configs" && f.Value != "null" {
			l.Fields[i].Value = fmt.Sprintf("#%d", left[strings.TrimPrefix(l.Path+".Configs", ".")])
		}
	}
}

// withoutHost leaves out what of these keys depends on the machine.
func withoutHost(lines []Line, names []string) (kept []Line) {
	for _, l := range keyed(lines) {
		if configPath.MatchString(l.line.Path) && slices.Contains(names, l.item) {
			if strings.Contains(withoutIndices(l.line.Path), "ConfigSynonyms") {
				continue
			}
			l.line.Fields = slices.DeleteFunc(l.line.Fields, func(f Field) bool { return hostFields[f.Name] })
		}
		kept = append(kept, l.line)
	}
	return kept
}

// hostFields are the fields of a key that depend on the set-up of the broker.
var hostFields = map[string]bool{"Value": true, "Source": true, "IsDefault": true, "ConfigSynonyms": true}
