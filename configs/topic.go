package configs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// Topic is the configuration of one topic as the broker uses it. Times are milliseconds
// and sizes bytes, as in the keys; -1 is no limit where the key has that.
type Topic struct {
	CleanupCompact, CleanupDelete bool

	CompressionType                     string // "producer", or what batches are stored with
	GzipLevel, LZ4Level, ZstdLevel      int32
	MaxMessageBytes                     int32 // of one batch as stored
	MaxDecompressedMessageBytes         int32
	LogAppendTime                       bool // message.timestamp.type
	TimestampBeforeMs, TimestampAfterMs int64

	Durability      Durability
	MinInSyncCount  int32
	UncleanElection bool
	FlushMessages   int64
	FlushMs         int64

	SegmentBytes       int32 // internal.segment.bytes where set
	SegmentMs          int64
	SegmentJitterMs    int64
	SegmentIndexBytes  int32
	IndexIntervalBytes int32
	Preallocate        bool
	FileDeleteDelayMs  int64

	RetentionBytes int64
	RetentionMs    int64

	DeleteRetentionMs      int64
	MinCleanableDirtyRatio float64
	MinCompactionLagMs     int64
	MaxCompactionLagMs     int64

	LeaderThrottledReplicas, FollowerThrottledReplicas ThrottledReplicas

	DeadLetterQueue bool // errors.deadletterqueue.group.enable
}

// Durability is what acks=all waits for.
type Durability int8

// The durabilities; see docs/architecture.md, "What an ack means".
const (
	Fsync      Durability = iota // written and flushed by every in-sync replica
	Replicated                   // written by every in-sync replica
)

func (d Durability) String() string {
	if d == Replicated {
		return "replicated"
	}
	return "fsync"
}

func parseDurability(text string) Durability {
	if text == Replicated.String() {
		return Replicated
	}
	return Fsync
}

// ParseTopic checks a topic's own settings and completes them with those of the broker.
// The errors are INVALID_CONFIG with a text for the client. Kafka: LogConfig.validate.
func ParseTopic(overrides map[string]string, broker *Broker) (Topic, error) {
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		if err := checkOverride(name, overrides[name]); err != nil {
			return Topic{}, err
		}
	}
	v := values{}
	for i := range topicKeys {
		key := &topicKeys[i]
		text, _, set := effective(key, overrides, broker)
		if !set && key.Unset {
			continue
		}
		value, err := key.Parse(text)
		if err != nil { // of the broker's synonym, which may allow more than the topic's key
			return Topic{}, invalid("%s = %s, from the broker's configuration, %w", key.Name, text, err)
		}
		v[key.Name] = value
	}
	if err := checkTogether(v); err != nil {
		return Topic{}, err
	}
	return v.topic(), nil
}

func invalid(format string, args ...any) error {
	return kafkaerr.New(kafkaerr.InvalidConfig, fmt.Errorf(format, args...).Error())
}

func checkOverride(name, text string) error {
	key := TopicKey(name)
	if key == nil {
		return invalid("no topic configuration is called %s%s", name, didYouMean(nearest(name, topicNames())))
	}
	if _, err := key.Parse(text); err != nil {
		return invalid("%s = %s: it %w", name, text, err)
	}
	return nil
}

func topicNames() []string {
	names := make([]string, len(topicKeys))
	for i := range topicKeys {
		names[i] = topicKeys[i].Name
	}
	return names
}

// checkTogether refuses values that contradict each other.
func checkTogether(v values) error {
	least, most := v.long("min.compaction.lag.ms"), v.long("max.compaction.lag.ms")
	if least > most {
		return invalid("min.compaction.lag.ms = %d is more than max.compaction.lag.ms = %d", least, most)
	}
	if v.bool("remote.storage.enable") {
		return invalid("remote.storage.enable: this broker has no tiered storage")
	}
	return nil
}

func (v values) topic() Topic {
	policy := v.list("cleanup.policy")
	t := Topic{
		CleanupCompact: slices.Contains(policy, "compact"), CleanupDelete: slices.Contains(policy, "delete"),

		CompressionType: v.text("compression.type"),
		GzipLevel:       v.int("compression.gzip.level"), LZ4Level: v.int("compression.lz4.level"), ZstdLevel: v.int("compression.zstd.level"),
		MaxMessageBytes:             v.int("max.message.bytes"),
		MaxDecompressedMessageBytes: v.int("max.decompressed.message.bytes"),
		LogAppendTime:               v.text("message.timestamp.type") == "LogAppendTime",
		TimestampBeforeMs:           v.long("message.timestamp.before.max.ms"),
		TimestampAfterMs:            v.long("message.timestamp.after.max.ms"),

		Durability:      parseDurability(v.text("durability")),
		MinInSyncCount:  v.int("min.insync.replicas"),
		UncleanElection: v.bool("unclean.leader.election.enable"),
		FlushMessages:   v.long("flush.messages"),
		FlushMs:         v.long("flush.ms"),

		SegmentBytes:       v.int("segment.bytes"),
		SegmentMs:          v.long("segment.ms"),
		SegmentJitterMs:    v.long("segment.jitter.ms"),
		SegmentIndexBytes:  v.int("segment.index.bytes"),
		IndexIntervalBytes: v.int("index.interval.bytes"),
		Preallocate:        v.bool("preallocate"),
		FileDeleteDelayMs:  v.long("file.delete.delay.ms"),

		RetentionBytes: v.long("retention.bytes"),
		RetentionMs:    v.long("retention.ms"),

		DeleteRetentionMs:      v.long("delete.retention.ms"),
		MinCleanableDirtyRatio: v.double("min.cleanable.dirty.ratio"),
		MinCompactionLagMs:     v.long("min.compaction.lag.ms"),
		MaxCompactionLagMs:     v.long("max.compaction.lag.ms"),

		LeaderThrottledReplicas:   throttled(v.list("leader.replication.throttled.replicas")),
		FollowerThrottledReplicas: throttled(v.list("follower.replication.throttled.replicas")),

		DeadLetterQueue: v.bool("errors.deadletterqueue.group.enable"),
	}
	if v.has("internal.segment.bytes") {
		t.SegmentBytes = v.int("internal.segment.bytes")
	}
	return t
}

// Source is where a value comes from; the numbers are DescribeConfigs' ConfigSource.
type Source int8

// The sources, of which one that is listed later never hides one that is listed before.
const (
	SourceTopic          Source = 1 // set on the topic
	SourceDynamicBroker  Source = 2 // set on this broker while it ran
	SourceDynamicDefault Source = 3 // set on all brokers while they ran
	SourceStatic         Source = 4 // set in the broker's configuration
	SourceDefault        Source = 5
	SourceLogger         Source = 6
	SourceClientMetrics  Source = 7
	SourceGroup          Source = 8
)

func (s Source) String() string {
	switch s {
	case SourceTopic:
		return "topic"
	case SourceDynamicBroker:
		return "dynamic broker"
	case SourceDynamicDefault:
		return "dynamic default"
	case SourceStatic:
		return "broker"
	default:
		return "default"
	}
}

// Entry is one effective value of a topic.
type Entry struct {
	Key *Key
	// Value is the text as it was written, in the topic key's unit, which is what
	// CreateTopics answers; nil if there is none, or it is sensitive.
	Value *string
	// Canonical is the same value parsed and written again, which is what
	// DescribeConfigs answers: "compact,delete" for "compact, delete".
	Canonical *string
	Source    Source // as CreateTopics answers it
	// Synonyms are the places that DescribeConfigs lists.
	Synonyms []SynonymValue
}

// SynonymValue is one place of an Entry.
type SynonymValue struct {
	Name   string
	Value  string
	Source Source
}

// EffectiveTopic lists every topic key (internal ones only where they are set) with the
// value that a topic with these settings has, sorted by name. The settings must have
// passed ParseTopic. Kafka: KafkaConfigSchema.resolveEffectiveTopicConfigs.
func EffectiveTopic(overrides map[string]string, broker *Broker) []Entry {
	entries := make([]Entry, 0, len(topicKeys))
	for i := range topicKeys {
		key := &topicKeys[i]
		if _, set := overrides[key.Name]; key.Internal && !set {
			continue
		}
		entries = append(entries, effectiveEntry(key, overrides, broker))
	}
	return entries
}

func effectiveEntry(key *Key, overrides map[string]string, broker *Broker) Entry {
	e := Entry{Key: key}
	text, source, set := effective(key, overrides, broker)
	e.Source = source
	if !key.Sensitive() && (set || !key.Unset) {
		e.Value, e.Canonical = &text, &text
		if value, err := key.Parse(text); err == nil {
			canonical := format(value)
			e.Canonical = &canonical
		}
	}
	e.Synonyms = synonymsOf(key, broker)
	if source == SourceTopic {
		own := SynonymValue{Name: key.Name, Source: SourceTopic}
		if e.Canonical != nil {
			own.Value = *e.Canonical
		}
		e.Synonyms = slices.Insert(e.Synonyms, 0, own)
	}
	return e
}

// synonymsOf lists what the broker was given, then the defaults. As in Kafka, the list
// begins with the key's first synonym: log.retention.hours alone is not shown
// (ConfigHelper.configSynonyms).
func synonymsOf(key *Key, broker *Broker) []SynonymValue {
	if len(key.Synonyms) == 0 {
		return nil
	}
	names := make([]string, len(key.Synonyms))
	for i, s := range key.Synonyms {
		names[i] = s.Name
	}
	return broker.synonyms(names[0], names)
}

// DescribeSource is where DescribeConfigs says that the value comes from: its first
// synonym. It differs from Source where that list leaves the place out.
func (e *Entry) DescribeSource() Source {
	if len(e.Synonyms) == 0 {
		return SourceDefault
	}
	return e.Synonyms[0].Source
}

// effective is the text that counts for a topic key: the topic's, else the first synonym
// that the broker was given, in the topic's unit, else the default.
func effective(key *Key, overrides map[string]string, broker *Broker) (text string, source Source, set bool) {
	if text, set = overrides[key.Name]; set {
		return text, SourceTopic, true
	}
	for _, source := range brokerSources() {
		for _, synonym := range key.Synonyms {
			if text, set = broker.at(source, synonym.Name); set {
				return synonym.convert(text), source, true
			}
		}
	}
	return key.Default, SourceDefault, false
}

// convert gives the value in the topic key's unit. A negative time means no limit
// whatever its size (KafkaConfig.logRetentionTimeMillis).
func (s Synonym) convert(text string) string {
	if s.Unit == 0 {
		return text
	}
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	switch {
	case err != nil: // Load has refused it
		return text
	case n < 0:
		return "-1"
	case s.Unit == 1:
		return text
	}
	return strconv.FormatInt(n*s.Unit, 10) // keys in minutes and hours are INT: 2^31 hours fit
}

// sortKeys orders a table for find.
func sortKeys(keys []Key) {
	slices.SortFunc(keys, func(a, b Key) int { return cmp.Compare(a.Name, b.Name) })
}
