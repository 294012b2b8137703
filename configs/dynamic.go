package configs

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// Dynamic is what clients set on brokers while they run: on all of them, and on one, which
// wins. It lives in metadata (KIP-226).
type Dynamic struct {
	All, Own map[string]string
}

// dynamicKeys are the broker keys that may be changed while brokers run, on one or on all
// of them. They take effect at once, except for num.recovery.threads.per.data.dir, which
// is read at a start. Kafka has more, which it describes as changeable: those of things
// that do not exist here, and listeners with their certificates.
const dynamicKeys = `
	compression.gzip.level compression.lz4.level compression.type compression.zstd.level
	log.cleaner.delete.retention.ms log.cleaner.max.compaction.lag.ms log.cleaner.min.cleanable.ratio
	log.cleaner.min.compaction.lag.ms log.cleanup.policy log.flush.interval.messages log.flush.interval.ms
	log.index.interval.bytes log.index.size.max.bytes log.local.retention.bytes log.local.retention.ms
	log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms log.message.timestamp.type
	log.preallocate log.remote.copy.lag.bytes log.remote.copy.lag.ms log.retention.bytes log.retention.ms
	log.roll.jitter.ms log.roll.ms log.segment.bytes log.segment.delete.delay.ms
	max.connection.creation.rate max.connections max.connections.per.ip max.connections.per.ip.overrides
	max.decompressed.message.bytes message.max.bytes min.insync.replicas num.recovery.threads.per.data.dir
	producer.id.expiration.ms unclean.leader.election.enable
`

// IsDynamic tells whether a broker key may be changed while brokers run.
func IsDynamic(name string) bool {
	return listed(dynamicKeys, name) || listed(cleanerDynamicKeys, name) || find(throttleKeys(), name) != nil || listenerLimit(name) != nil
}

// throttleKeys exist only while brokers run: kafka-reassign-partitions sets them. No table
// has a default of theirs, so none is told, nor what they are for: neither does Kafka.
func throttleKeys() []Key {
	key := func(name string) Key {
		return Key{Name: name, Type: Long, Unset: true, Valid: atLeast(0), Importance: Medium}
	}
	return []Key{key(followerRateKey), key(leaderRateKey), key(moveRateKey)}
}

const (
	followerRateKey = "follower.replication.throttled.rate"
	leaderRateKey   = "leader.replication.throttled.rate"
	moveRateKey     = "replica.alter.log.dirs.io.max.bytes.per.second"
)

// MoveBytesPerSecond is how fast replicas may move between directories, in bytes a second;
// 0 if no limit is set. One of 0 is as good as none that could be met.
func (b *Broker) MoveBytesPerSecond() int64 {
	if n, set := b.rate(moveRateKey); set {
		return max(n, 1)
	}
	return 0
}

// LeaderBytesPerSecond is how much of throttled replicas this broker may send to followers,
// if that is set.
func (b *Broker) LeaderBytesPerSecond() (n int64, set bool) { return b.rate(leaderRateKey) }

// FollowerBytesPerSecond is how much of throttled replicas this broker may fetch from their
// leaders, if that is set.
func (b *Broker) FollowerBytesPerSecond() (n int64, set bool) { return b.rate(followerRateKey) }

// rate is a throttle: what is set on this broker goes before what is set on all.
func (b *Broker) rate(key string) (n int64, set bool) {
	for _, layer := range []map[string]string{b.dynamic.Own, b.dynamic.All} {
		text, ok := layer[key]
		if !ok {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil {
			return n, true
		}
	}
	return 0, false
}

// dynamicKey finds what the value of a dynamic key is checked by.
func dynamicKey(name string) *Key {
	if key := find(throttleKeys(), name); key != nil {
		return key
	}
	if key := listenerLimit(name); key != nil {
		return key
	}
	return BrokerKey(name)
}

// isKafkaKey tells names that Kafka or this broker gives a meaning from those that plug-ins
// may have.
func isKafkaKey(name string) bool {
	return find(listedKeys, name) != nil || BrokerKey(name) != nil || listed(pointless, name) || listed(later, name)
}

// With is the configuration of a broker with what was set while it ran. What the text of
// one key alone makes unusable is left out, as it may come from another release; the
// Problems are of values that contradict each other, and then there is no configuration.
func (b *Broker) With(d Dynamic) (*Broker, Problems) {
	base := b.base()
	usable := Dynamic{All: usableDynamic(d.All), Own: usableDynamic(d.Own)}
	s := newStore()
	s.others = base.store.others
	for name, place := range base.store.places {
		text, _ := base.store.text(name)
		if err := s.set(name, text, place); err != nil {
			return nil, Problems{s.problem(name, err.Error())}
		}
	}
	for _, layer := range []layer{
		{usable.All, func(string) string { return "dynamic, of all brokers" }},
		{usable.Own, func(string) string { return "dynamic, of this broker" }},
	} {
		for name, text := range layer.settings {
			if BrokerKey(name) == nil {
				continue
			}
			if err := s.set(name, text, layer.place(name)); err != nil {
				return nil, Problems{s.problem(name, err.Error())}
			}
		}
	}
	parsed, problems := s.parse()
	if len(problems) > 0 {
		return nil, problems
	}
	next, problems := newBroker(s, parsed)
	if len(problems) > 0 {
		return nil, problems
	}
	next.static, next.dynamic = base, usable
	return next, nil
}

func (b *Broker) base() *Broker {
	if b.static != nil {
		return b.static
	}
	return b
}

func usableDynamic(set map[string]string) map[string]string {
	usable := maps.Clone(set)
	maps.DeleteFunc(usable, func(name, text string) bool { return checkDynamicKey(name, text) != nil })
	return usable
}

// CheckDynamic refuses changes to what is set on one broker (own) or on all of them; nil
// removes a key. Of what is set already, unusable keys do not stand in the way. The errors
// are INVALID_REQUEST, as in Kafka (DynamicBrokerConfig.validate).
func (b *Broker) CheckDynamic(set map[string]string, changes map[string]*string, own bool) error {
	set = usableDynamic(set)
	if set == nil {
		set = map[string]string{}
	}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		if changes[name] == nil {
			delete(set, name)
			continue
		}
		set[name] = *changes[name]
		if err := checkDynamicKey(name, set[name]); err != nil {
			return err
		}
	}
	d := Dynamic{All: set, Own: b.dynamic.Own}
	if own {
		d = Dynamic{All: b.dynamic.All, Own: set}
	}
	next, problems := b.With(d)
	if len(problems) > 0 {
		return kafkaerr.New(kafkaerr.InvalidRequest, problems[0].Reason)
	}
	return checkStep(b, next)
}

// CheckDynamicKeys refuses changes that no broker takes, whatever else its configuration is.
func CheckDynamicKeys(changes map[string]*string) error {
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		if value := changes[name]; value != nil {
			if err := checkDynamicKey(name, *value); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkDynamicKey(name, text string) error {
	refuse := func(format string, args ...any) error {
		return kafkaerr.New(kafkaerr.InvalidRequest, fmt.Sprintf(format, args...))
	}
	base := withoutListener(name)
	switch key := dynamicKey(name); {
	case !IsDynamic(name) && isKafkaKey(base):
		return refuse("%s cannot be changed while the broker runs", name)
	case key == nil: // of a plug-in, perhaps: kept, and without effect
		return nil
	default:
		value, err := key.Parse(text)
		if err == nil {
			err = checkChange(name, text, value)
		}
		if err != nil {
			return refuse("%s = %s: it %v", name, Shown(name, text), err)
		}
		return nil
	}
}

// checkStep refuses what only the way from one configuration to the next makes wrong.
func checkStep(from, to *Broker) error {
	was, is := from.Logs.RecoveryThreads, to.Logs.RecoveryThreads
	if is < was/2 || int64(is) > int64(was)*2 {
		return kafkaerr.New(kafkaerr.InvalidRequest, fmt.Sprintf(
			"num.recovery.threads.per.data.dir must be between the half and the double of %d", was))
	}
	if err := checkCleanerThreads(from, to); err != nil {
		return err
	}
	return checkTopicDefaults(to)
}

// topicDefault is the text of a topic key where the topic sets nothing.
func topicDefault(b *Broker, name string) string {
	text, _, _ := effective(TopicKey(name), nil, b)
	return text
}

// IgnoredDynamic names those of set that have no effect, sorted: for the log.
func IgnoredDynamic(set map[string]string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if !IsDynamic(name) {
			names = append(names, name)
		}
	}
	return names
}

// brokerSources are the places of a broker's value, the one that wins first.
func brokerSources() [3]Source {
	return [...]Source{SourceDynamicBroker, SourceDynamicDefault, SourceStatic}
}

// at is what was set for a key in one place.
func (b *Broker) at(source Source, name string) (text string, ok bool) {
	if b == nil {
		return "", false
	}
	switch source {
	case SourceDynamicBroker:
		text, ok = b.dynamic.Own[name]
	case SourceDynamicDefault:
		text, ok = b.dynamic.All[name]
	case SourceStatic:
		base := b.base()
		if _, ok = base.store.places[name]; ok {
			return base.store.text(name)
		}
		setting, set := base.store.others[name]
		text, ok = setting.Value, set
	case SourceDefault:
		if key := describedKey(name); key != nil && !key.Unset {
			return key.Default, true
		}
	default: // no place of a broker's value
	}
	return text, ok
}

// describedKey finds a key that DescribeConfigs may meet.
func describedKey(name string) *Key {
	if key := find(listedKeys, name); key != nil {
		return key
	}
	return dynamicKey(name)
}

// synonyms lists every place where one of names has a value, by place and then by name,
// from the first that is of the name first.
func (b *Broker) synonyms(first string, names []string) (list []SynonymValue) {
	for _, source := range []Source{SourceDynamicBroker, SourceDynamicDefault, SourceStatic, SourceDefault} {
		for _, name := range names {
			if text, ok := b.at(source, name); ok {
				list = append(list, SynonymValue{name, text, source})
			}
		}
	}
	for len(list) > 0 && list[0].Name != first {
		list = list[1:]
	}
	return list
}

// brokerSynonyms are the broker keys that give a broker key's value, itself among them
// (DynamicBrokerConfig.brokerConfigSynonyms).
func brokerSynonyms(name string) []string {
	for _, family := range [][]string{
		{"log.roll.ms", "log.roll.hours"},
		{"log.roll.jitter.ms", "log.roll.jitter.hours"},
		{"log.retention.ms", "log.retention.minutes", "log.retention.hours"},
	} {
		if slices.Contains(family, name) {
			return family
		}
	}
	if name == "log.flush.interval.ms" {
		return []string{name, "log.flush.scheduler.interval.ms"}
	}
	if base := withoutListener(name); base != name && strings.HasPrefix(name, listenerPrefix) {
		return []string{name, base}
	}
	return []string{name}
}
