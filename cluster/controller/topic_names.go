package controller

import "strings"

// clusterMetadataTopic is the name of Kafka's own metadata log; no topic may have it.
const clusterMetadataTopic = "__cluster_metadata"

// A topic's metrics have its name with every dot replaced by an underscore, so two topics
// that differ in these alone would share metrics. Such names collide.

func hasCollisionChars(name string) bool { return strings.ContainsAny(name, "._") }

func unifyCollisionChars(name string) string { return strings.ReplaceAll(name, ".", "_") }

// collisions finds topics whose names collide. Kept beside the working image, since to
// search all names for each new topic would be slow with many topics.
type collisions map[string][]string // unified name → names of existing topics

func (c collisions) add(name string) {
	if hasCollisionChars(name) {
		unified := unifyCollisionChars(name)
		c[unified] = append(c[unified], name)
	}
}

func (c collisions) remove(name string) {
	unified := unifyCollisionChars(name)
	names := c[unified]
	for i, n := range names {
		if n == name {
			c[unified] = append(names[:i:i], names[i+1:]...)
		}
	}
	if len(c[unified]) == 0 {
		delete(c, unified)
	}
}

// with gives an existing topic that name collides with, "" if there is none.
func (c collisions) with(name string) string {
	if !hasCollisionChars(name) {
		return ""
	}
	if names := c[unifyCollisionChars(name)]; len(names) > 0 {
		return names[0]
	}
	return ""
}
