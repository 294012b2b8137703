package configs

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

func TestParseTopicDefaults(t *testing.T) {
	want := Topic{
		CleanupDelete: true, CompressionType: "producer", GzipLevel: -1, LZ4Level: 9, ZstdLevel: 3,
		MaxMessageBytes: 1048588, MaxDecompressedMessageBytes: 2147483639,
		TimestampBeforeMs: math.MaxInt64, TimestampAfterMs: 3600000,
		Durability: Fsync, MinInSyncCount: 1, FlushMessages: math.MaxInt64, FlushMs: math.MaxInt64,
		SegmentBytes: 1073741824, SegmentMs: 604800000, SegmentIndexBytes: 10485760, IndexIntervalBytes: 4096, FileDeleteDelayMs: 60000,
		RetentionBytes: -1, RetentionMs: 604800000,
		DeleteRetentionMs: 86400000, MinCleanableDirtyRatio: 0.5, MaxCompactionLagMs: math.MaxInt64,
	}
	for name, broker := range map[string]*Broker{"no broker": nil, "default broker": Default()} {
		got, err := ParseTopic(nil, broker)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestParseTopicFillsTheFields(t *testing.T) {
	tests := []struct {
		key, value string
		field      func(*Topic) any
		want       any
	}{
		{"cleanup.policy", "compact, delete", func(c *Topic) any { return []bool{c.CleanupCompact, c.CleanupDelete} }, []bool{true, true}},
		{"cleanup.policy", "compact", func(c *Topic) any { return []bool{c.CleanupCompact, c.CleanupDelete} }, []bool{true, false}},
		{"cleanup.policy", "", func(c *Topic) any { return []bool{c.CleanupCompact, c.CleanupDelete} }, []bool{false, false}},
		{"compression.type", "zstd", func(c *Topic) any { return c.CompressionType }, "zstd"},
		{"compression.gzip.level", "9", func(c *Topic) any { return c.GzipLevel }, int32(9)},
		{"compression.lz4.level", "17", func(c *Topic) any { return c.LZ4Level }, int32(17)},
		{"compression.zstd.level", "-131072", func(c *Topic) any { return c.ZstdLevel }, int32(-131072)},
		{"delete.retention.ms", "0", func(c *Topic) any { return c.DeleteRetentionMs }, int64(0)},
		{"durability", "replicated", func(c *Topic) any { return c.Durability }, Replicated},
		{"errors.deadletterqueue.group.enable", "TRUE", func(c *Topic) any { return c.DeadLetterQueue }, true},
		{"file.delete.delay.ms", "1", func(c *Topic) any { return c.FileDeleteDelayMs }, int64(1)},
		{"flush.messages", "1", func(c *Topic) any { return c.FlushMessages }, int64(1)},
		{"flush.ms", "0", func(c *Topic) any { return c.FlushMs }, int64(0)},
		{"follower.replication.throttled.replicas", "1:2,3:4", func(c *Topic) any { return c.FollowerThrottledReplicas }, ThrottledReplicas{Replicas: []ThrottledReplica{{1, 2}, {3, 4}}}},
		{"leader.replication.throttled.replicas", "*", func(c *Topic) any { return c.LeaderThrottledReplicas }, ThrottledReplicas{All: true}},
		{"index.interval.bytes", "0", func(c *Topic) any { return c.IndexIntervalBytes }, int32(0)},
		{"internal.segment.bytes", "100", func(c *Topic) any { return c.SegmentBytes }, int32(100)},
		{"max.compaction.lag.ms", "1", func(c *Topic) any { return c.MaxCompactionLagMs }, int64(1)},
		{"max.decompressed.message.bytes", "1000", func(c *Topic) any { return c.MaxDecompressedMessageBytes }, int32(1000)},
		{"max.message.bytes", " +5 ", func(c *Topic) any { return c.MaxMessageBytes }, int32(5)},
		{"message.timestamp.after.max.ms", "7", func(c *Topic) any { return c.TimestampAfterMs }, int64(7)},
		{"message.timestamp.before.max.ms", "8", func(c *Topic) any { return c.TimestampBeforeMs }, int64(8)},
		{"message.timestamp.type", "LogAppendTime", func(c *Topic) any { return c.LogAppendTime }, true},
		{"min.cleanable.dirty.ratio", "1", func(c *Topic) any { return c.MinCleanableDirtyRatio }, 1.0},
		{"min.compaction.lag.ms", "9", func(c *Topic) any { return c.MinCompactionLagMs }, int64(9)},
		{"min.insync.replicas", "2", func(c *Topic) any { return c.MinInSyncCount }, int32(2)},
		{"preallocate", "true", func(c *Topic) any { return c.Preallocate }, true},
		{"retention.bytes", "-5", func(c *Topic) any { return c.RetentionBytes }, int64(-5)},
		{"retention.ms", "-1", func(c *Topic) any { return c.RetentionMs }, int64(-1)},
		{"segment.bytes", "1048576", func(c *Topic) any { return c.SegmentBytes }, int32(1048576)},
		{"segment.index.bytes", "4", func(c *Topic) any { return c.SegmentIndexBytes }, int32(4)},
		{"segment.jitter.ms", "3", func(c *Topic) any { return c.SegmentJitterMs }, int64(3)},
		{"segment.ms", "1", func(c *Topic) any { return c.SegmentMs }, int64(1)},
		{"unclean.leader.election.enable", "true", func(c *Topic) any { return c.UncleanElection }, true},
	}
	for _, test := range tests {
		got, err := ParseTopic(map[string]string{test.key: test.value}, nil)
		if err != nil {
			t.Errorf("%s = %s: %v", test.key, test.value, err)
			continue
		}
		if diff := cmp.Diff(test.want, test.field(&got)); diff != "" {
			t.Errorf("%s = %s (-want +got):\n%s", test.key, test.value, diff)
		}
	}
}

func TestParseTopicRefuses(t *testing.T) {
	tests := []struct {
		overrides string // key=value|key=value
		want      string
	}{
		{"retention=1", "no topic configuration is called retention"},
		{"retension.ms=1", "did you mean retention.ms?"},
		{"retention.ms=x", "retention.ms = x: it must be a 64-bit integer"},
		{"retention.ms=-2", "must be at least -1"},
		{"retention.ms=9223372036854775808", "must be a 64-bit integer"},
		{"max.message.bytes=2147483648", "must be a 32-bit integer"},
		{"max.message.bytes=0x10", "must be a 32-bit integer"},
		{"max.message.bytes=1_000", "must be a 32-bit integer"},
		{"max.message.bytes=", "must be a 32-bit integer"},
		{"segment.bytes=1048575", "must be at least 1048576"},
		{"min.cleanable.dirty.ratio=1.1", "must be at most 1"},
		{"min.cleanable.dirty.ratio=NaN", "must be a number"},
		{"cleanup.policy=compact,", "must not have empty elements"},
		{"cleanup.policy=COMPACT", "must be a list of compact, delete"},
		{"compression.type=GZIP", "must be one of uncompressed"},
		{"compression.gzip.level=10", "must be at most 9, or -1"},
		{"compression.lz4.level=18", "must be at most 17"},
		{"durability=none", "must be one of fsync, replicated"},
		{"leader.replication.throttled.replicas=1:2,*", "must be * or a list of partition:broker"},
		{"unclean.leader.election.enable=1", "must be true or false"},
		{"min.compaction.lag.ms=10|max.compaction.lag.ms=9", "min.compaction.lag.ms = 10 is more than max.compaction.lag.ms = 9"},
		{"remote.storage.enable=true", "no tiered storage"},
	}
	for _, test := range tests {
		_, err := ParseTopic(pairs(test.overrides), nil)
		switch {
		case err == nil:
			t.Errorf("%s was accepted", test.overrides)
		case !strings.Contains(err.Error(), test.want):
			t.Errorf("%s: %q, want %q", test.overrides, err, test.want)
		case !errors.Is(err, kafkaerr.InvalidConfig):
			t.Errorf("%s: not INVALID_CONFIG", test.overrides)
		}
	}
}

// A topic's own lag is compared with the broker's.
func TestParseTopicComparesWithTheBroker(t *testing.T) {
	b, _, err := Load(Sources{Set: []string{"log.cleaner.max.compaction.lag.ms=5"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseTopic(map[string]string{"min.compaction.lag.ms": "6"}, b); !errors.Is(err, kafkaerr.InvalidConfig) {
		t.Errorf("error %v", err)
	}
}

// TestEffectiveTopic plays testdata/effective: lines "broker key=value" and "topic
// key=value", then "show NAME…" or all keys that are not the default.
func TestEffectiveTopic(t *testing.T) {
	datadriven.RunTest(t, "testdata/effective", func(t *testing.T, d *datadriven.TestData) string {
		var s Sources
		overrides := map[string]string{}
		for line := range strings.Lines(d.Input) {
			where, setting, _ := strings.Cut(strings.TrimSpace(line), " ")
			key, value, _ := strings.Cut(setting, "=")
			if where == "broker" {
				s.Set = append(s.Set, setting)
			} else {
				overrides[key] = value
			}
		}
		b, _, err := Load(s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseTopic(overrides, b); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		for _, e := range EffectiveTopic(overrides, b) {
			if d.Cmd == "all" || e.Source != SourceDefault || e.DescribeSource() != SourceDefault {
				fmt.Fprintln(&out, describe(e))
			}
		}
		return out.String()
	})
}

// describe is "key = CreateTopics' value (source) | DescribeConfigs' value (source) synonyms".
func describe(e Entry) string {
	var synonyms []string
	for _, s := range e.Synonyms {
		synonyms = append(synonyms, fmt.Sprintf("%s=%s (%s)", s.Name, s.Value, s.Source))
	}
	return fmt.Sprintf("%s = %q (%s) | %q (%s) %s", e.Key.Name, text(e.Value), e.Source, text(e.Canonical), e.DescribeSource(), strings.Join(synonyms, ", "))
}

func text(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

func pairs(text string) map[string]string {
	m := map[string]string{}
	for _, pair := range strings.Split(text, "|") {
		key, value, _ := strings.Cut(pair, "=")
		m[key] = value
	}
	return m
}
