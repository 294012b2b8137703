package configs

import (
	"fmt"
	"path/filepath"
	"slices"
)

// rule is an order that two keys must keep.
type rule struct {
	less, more string
	strict     bool // they must differ
}

// otherRules are Kafka's rules for keys that this broker does not have
// (GroupCoordinatorConfig, ShareGroupConfig).
func otherRules() []rule {
	var rules []rule
	add := func(less, more string) { rules = append(rules, rule{less: less, more: more}) }
	between := func(prefix, key string) {
		add(prefix+"min."+key, prefix+"max."+key)
		add(prefix+"min."+key, prefix+key)
		add(prefix+key, prefix+"max."+key)
	}
	for _, prefix := range []string{"group.consumer.", "group.share.", "group.streams."} {
		between(prefix, "heartbeat.interval.ms")
		between(prefix, "session.timeout.ms")
		between(prefix, "assignment.interval.ms")
		rules = append(rules, rule{prefix + "heartbeat.interval.ms", prefix + "session.timeout.ms", true})
	}
	between("group.share.", "delivery.count.limit")
	between("group.share.", "partition.max.record.locks")
	between("group.share.", "record.lock.duration.ms")
	add("group.share.max.size", "group.share.max.share.sessions")
	add("group.streams.num.standby.replicas", "group.streams.max.standby.replicas")
	add("group.streams.num.warmup.replicas", "group.streams.max.warmup.replicas")
	add("group.streams.min.task.offset.interval.ms", "group.streams.task.offset.interval.ms")
	return rules
}

// checkOthers refuses values that Kafka would refuse beside others, of keys that are not
// served. Each of them has been read before.
func (s *store) checkOthers(b *Broker) Problems {
	var problems Problems
	refuse := func(name, format string, args ...any) {
		p := s.others[name]
		problems = append(problems, Problem{p.Place, name, Shown(name, p.Value), fmt.Sprintf(format, args...)})
	}
	for _, r := range otherRules() {
		less, more := s.otherNumber(r.less), s.otherNumber(r.more)
		if less < more || less == more && !r.strict {
			continue
		}
		if _, set := s.others[r.less]; set {
			refuse(r.less, "must be %s %s (%.0f)", map[bool]string{false: "at most", true: "less than"}[r.strict], r.more, more)
		} else {
			refuse(r.more, "must be %s %s (%.0f)", map[bool]string{false: "at least", true: "more than"}[r.strict], r.less, less)
		}
	}
	for _, name := range s.otherList("early.start.listeners") {
		if !hasListener(b.Listeners, name) && !b.IsControllerListener(name) { // in capitals alone, as for Kafka
			refuse("early.start.listeners", "%s is not one of the listeners: %s", name, listenerNames(b.Listeners))
		}
	}
	s.checkCordoned(b, refuse)
	if len(s.otherList("group.share.assignors")) > 1 {
		refuse("group.share.assignors", "must be one assignor")
	}
	return problems
}

// authenticationDelay keeps connections open until those whose authentication has failed can
// have been told.
func (c *checker) authenticationDelay() {
	const idleKey, delayKey = "connections.max.idle.ms", "connection.failed.authentication.delay.ms"
	idle, delay := c.b.Network.MaxIdle, c.s.otherNumber(delayKey)
	switch {
	case idle < 0, delay < float64(idle.Milliseconds()):
	case c.b.IsSet(idleKey):
		c.refuse(idleKey, "must be more than %s (%.0f), or negative for never", delayKey, delay)
	default:
		p := c.s.others[delayKey]
		p.Reason = fmt.Sprintf("must be less than %s (%d)", idleKey, idle.Milliseconds())
		c.problems = append(c.problems, p)
	}
}

// checkCordoned knows the directories of cordoned.log.dirs, of which "*" is all.
func (s *store) checkCordoned(b *Broker, refuse func(name, format string, args ...any)) {
	const key = "cordoned.log.dirs"
	list := s.otherList(key)
	if slices.Contains(list, "*") {
		if len(list) > 1 {
			refuse(key, "must not have anything beside *")
		}
		return
	}
	for _, dir := range list {
		if !slices.Contains(b.LogDirs, filepath.Clean(dir)) {
			refuse(key, "%s is not one of log.dirs", dir)
		}
	}
}

// other is the parsed value of a key that is not served, its default where it is not set;
// nil if there is neither.
func (s *store) other(name string) any {
	key := find(unserved, name)
	text := key.Default
	if p, set := s.others[name]; set {
		text = p.Value
	} else if key.Unset {
		return nil
	}
	value, err := key.Parse(text)
	if err != nil {
		return nil // it has been refused
	}
	return value
}

func (s *store) otherNumber(name string) float64 { return number(s.other(name)) }

func (s *store) otherList(name string) []string {
	list, _ := s.other(name).([]string)
	return list
}
