package conform

import (
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

// filterConfigs applies OnlyConfigs and HostConfigs to the lines of an answer.
func (r *R) filterConfigs(lines []Line) []Line {
	if len(r.onlyConfigs) == 0 && len(r.hostConfigs) == 0 {
		return lines
	}
	items := keyed(lines)
	var kept []Line
	for _, l := range items {
		inside := configPath.MatchString(l.line.Path)
		if inside && len(r.onlyConfigs) > 0 && !slices.Contains(r.onlyConfigs, l.item) {
			continue
		}
		if inside && slices.Contains(r.hostConfigs, l.item) {
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
