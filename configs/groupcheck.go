package configs

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// CheckGroup refuses settings of a group: unknown names, bad values, and values beyond the
// bounds that the broker's group.* keys set. The errors are INVALID_CONFIG
// (GroupConfig.validate).
func CheckGroup(overrides map[string]string, broker *Broker) error {
	v := values{}
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		key, text := GroupKey(name), overrides[name]
		if key == nil {
			return invalid("no group configuration is called %s", name)
		}
		value, err := key.Parse(text)
		if err != nil {
			return invalid("%s = %s: it %w", name, text, err)
		}
		if tags := splitList(text); key.Type == List && len(distinct(tags)) != len(tags) {
			return invalid("%s = %s: it names something twice", name, text)
		}
		v[name] = value
	}
	if err := checkGroupBounds(v, broker); err != nil {
		return err
	}
	return checkGroupTogether(v, broker)
}

// groupBound is the pair of broker keys that bound a group key; "" is no bound.
type groupBound struct{ name, least, most string }

func groupBounds() []groupBound {
	between := func(kind, what, under string) groupBound {
		return groupBound{kind + "." + what, "group." + kind + ".min." + under, "group." + kind + ".max." + under}
	}
	bounds := []groupBound{
		between("share", "record.lock.duration.ms", "record.lock.duration.ms"),
		between("share", "delivery.count.limit", "delivery.count.limit"),
		between("share", "partition.max.record.locks", "partition.max.record.locks"),
		{"streams.num.standby.replicas", "", "group.streams.max.standby.replicas"},
		{"streams.task.offset.interval.ms", "group.streams.min.task.offset.interval.ms", ""},
		{"streams.num.warmup.replicas", "", "group.streams.max.warmup.replicas"},
	}
	for _, kind := range []string{"consumer", "share", "streams"} {
		for _, what := range []string{"heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"} {
			bounds = append(bounds, between(kind, what, what))
		}
	}
	return bounds
}

func checkGroupBounds(v values, broker *Broker) error {
	for _, b := range groupBounds() {
		if !v.has(b.name) {
			continue
		}
		n := v.int(b.name)
		if least, ok := broker.boundOf(b.least); ok && n < least {
			return invalid("%s = %d is less than %s = %d", b.name, n, b.least, least)
		}
		if most, ok := broker.boundOf(b.most); ok && n > most {
			return invalid("%s = %d is more than %s = %d", b.name, n, b.most, most)
		}
	}
	return nil
}

// internalBounds are those of Kafka's internal broker keys, which have no row in a table.
func internalBounds() map[string]int32 {
	return map[string]int32{"group.streams.min.task.offset.interval.ms": 15000, "group.streams.max.warmup.replicas": 20}
}

// boundOf is the number of a broker key.
func (b *Broker) boundOf(name string) (int32, bool) {
	if n, ok := internalBounds()[name]; ok {
		return n, true
	}
	key := describedKey(name)
	if key == nil {
		return 0, false
	}
	text := b.value(key)
	if text == nil {
		return 0, false
	}
	n, err := parseInt(*text, 32)
	return int32(n), err == nil
}

func checkGroupTogether(v values, broker *Broker) error {
	for _, kind := range []string{"consumer", "share", "streams"} {
		session, heartbeat := kind+".session.timeout.ms", kind+".heartbeat.interval.ms"
		if !v.has(session) && !v.has(heartbeat) {
			continue
		}
		if broker.groupInt(v, session) <= broker.groupInt(v, heartbeat) {
			return invalid("%s must be greater than %s", session, heartbeat)
		}
	}
	if name := optional[string](v, "streams.assignor.name"); v.has("streams.assignor.name") {
		known := broker.value(describedKey("group.streams.assignors"))
		if known == nil || !slices.Contains(splitList(*known), name) {
			return invalid("streams.assignor.name: there is no assignor called %s", name)
		}
	}
	if strings.HasPrefix(optional[string](v, "errors.deadletterqueue.topic.name"), "__") {
		return invalid("errors.deadletterqueue.topic.name: it must not begin with __")
	}
	return nil
}

// groupInt is the group's value, else the broker's.
func (b *Broker) groupInt(v values, name string) int32 {
	if v.has(name) {
		return v.int(name)
	}
	n, _ := b.boundOf("group." + name)
	return n
}

// ClientMetricsKeys are the keys of a subscription to clients' metrics (KIP-714), sorted by
// name.
func ClientMetricsKeys() []Key {
	return []Key{
		{Name: "interval.ms", Type: Int, Default: "300000", Importance: Medium, Doc: "Time between two pushes of metrics, 100 ms to an hour."},
		{Name: "match", Type: List, Default: "", Valid: listOf{}, Importance: Medium, Doc: "Which clients push, as attribute=pattern; empty: all."},
		{Name: "metrics", Type: List, Default: "", Valid: listOf{}, Importance: Medium, Doc: "Prefixes of the metrics that clients push; * for all."},
	}
}

// matchable are the attributes of a client that a subscription can ask for.
const matchable = "client_instance_id client_id client_software_name client_software_version client_source_address client_source_port"

// CheckClientMetrics refuses settings of a subscription (ClientMetricsConfigs.validate). An
// unknown key and an interval out of range are INVALID_REQUEST, a value that cannot be
// read is INVALID_CONFIG.
func CheckClientMetrics(overrides map[string]string) error {
	keys := ClientMetricsKeys()
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		if find(keys, name) == nil {
			return kafkaerr.New(kafkaerr.InvalidRequest, "no configuration of client metrics is called "+name)
		}
	}
	v := values{}
	for name, text := range overrides {
		value, err := find(keys, name).Parse(text)
		if err != nil {
			return invalid("%s = %s: it %w", name, text, err)
		}
		v[name] = value
	}
	if v.has("interval.ms") && (v.int("interval.ms") < 100 || v.int("interval.ms") > 3_600_000) {
		return kafkaerr.New(kafkaerr.InvalidRequest, "interval.ms must be between 100 and 3600000")
	}
	for _, pattern := range optional[[]string](v, "match") {
		if !validMatch(pattern) {
			return invalid("match: %s is no attribute=pattern", pattern)
		}
	}
	return nil
}

func validMatch(pattern string) bool {
	parts := strings.Split(strings.TrimRight(pattern, "="), "=")
	if len(parts) != 2 || !listed(matchable, strings.TrimSpace(parts[0])) {
		return false
	}
	_, err := regexp.Compile(strings.TrimSpace(parts[1]))
	return err == nil
}
