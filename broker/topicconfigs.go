package broker

import (
	"maps"
	"math"
	"sync"

	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/configs"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// replicaTopicConfig is replica.Options.TopicConfig: what a topic overrides, completed
// and typed.
func (b *Broker) replicaTopicConfig(overrides map[string]string) (replica.TopicConfig, error) {
	broker := b.dynamic.get()
	if c, ok := b.lastTopic.get(broker, overrides); ok {
		return c, nil
	}
	topic, err := configs.ParseTopic(overrides, broker)
	if err != nil {
		return replica.TopicConfig{}, err
	}
	c := replica.TopicConfig{
		Log: logConfig(&topic), MinInSyncCount: int(topic.MinInSyncCount),
		LeaderThrottled: b.throttledHere(topic.LeaderThrottledReplicas), FollowerThrottled: b.throttledHere(topic.FollowerThrottledReplicas),
	}
	b.lastTopic.set(broker, overrides, c)
	return c, nil
}

func (b *Broker) throttledHere(t configs.ThrottledReplicas) replica.Throttled {
	return replica.Throttled{All: t.All, Partitions: t.On(b.cfg.NodeID)}
}

// lastTopic is the configuration that was parsed last: thousands of topics that are made, or
// found at a start, mostly have the same.
type lastTopic struct {
	mu        sync.Mutex
	broker    *configs.Broker
	overrides map[string]string
	config    replica.TopicConfig
}

func (l *lastTopic) get(broker *configs.Broker, overrides map[string]string) (replica.TopicConfig, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.config, l.broker == broker && maps.Equal(l.overrides, overrides)
}

func (l *lastTopic) set(broker *configs.Broker, overrides map[string]string, c replica.TopicConfig) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broker, l.overrides, l.config = broker, maps.Clone(overrides), c
}

func logConfig(t *configs.Topic) logstore.Config {
	durability, writeAhead := logstore.DurabilityFsync, int32(0)
	if t.Durability == configs.Replicated {
		durability, writeAhead = logstore.DurabilityReplicated, logstore.DefaultWriteAhead
	}
	return logstore.Config{
		Durability:         durability,
		SegmentBytes:       t.SegmentBytes,
		SegmentMs:          t.SegmentMs,
		SegmentJitterMs:    t.SegmentJitterMs,
		SegmentIndexBytes:  t.SegmentIndexBytes,
		IndexIntervalBytes: t.IndexIntervalBytes,
		Delete:             t.CleanupDelete,
		Compact:            t.CleanupCompact,
		RetentionMs:        t.RetentionMs,
		RetentionBytes:     t.RetentionBytes,
		MinCleanableRatio:  t.MinCleanableDirtyRatio,
		MinCompactionLagMs: t.MinCompactionLagMs,
		MaxCompactionLagMs: t.MaxCompactionLagMs,
		DeleteRetentionMs:  t.DeleteRetentionMs,
		MaxMessageBytes:    max(1, t.MaxMessageBytes), // 0 takes nothing, and no batch is of one byte
		MaxRecordBytes:     t.MaxDecompressedMessageBytes,
		LogAppendTime:      t.LogAppendTime,
		TimestampBeforeMs:  t.TimestampBeforeMs,
		TimestampAfterMs:   t.TimestampAfterMs,
		Compression:        compression(t),
		WriteAheadBytes:    writeAhead,
		HotBytes:           logstore.DefaultHotBytes,
		FlushMessages:      t.FlushMessages,
		FlushMs:            t.FlushMs,
		FileDeleteDelayMs:  t.FileDeleteDelayMs,
	}
}

// compression is the topic's compression.type with the level of that codec.
func compression(t *configs.Topic) batch.Compression {
	switch t.CompressionType {
	case "uncompressed":
		return batch.Compression{Recode: true, Codec: batch.None}
	case "gzip":
		return batch.Compression{Recode: true, Codec: batch.Gzip, Level: int(t.GzipLevel)}
	case "snappy":
		return batch.Compression{Recode: true, Codec: batch.Snappy}
	case "lz4":
		return batch.Compression{Recode: true, Codec: batch.LZ4, Level: int(t.LZ4Level)}
	case "zstd":
		return batch.Compression{Recode: true, Codec: batch.Zstd, Level: int(t.ZstdLevel)}
	}
	return batch.Compression{}
}

// cleaner is what the log cleaner begins with; nil where log.cleaner.enable says that there
// is none.
func (b *Broker) cleaner() *logstore.CleanerSettings {
	if !b.cfg.Cleaner.Enabled {
		b.log.Warn("log.cleaner.enable is false: topics with cleanup.policy=compact keep all records, that of committed offsets among them")
		return nil
	}
	settings := b.cleanerSettings(b.dynamic.get().Cleaner)
	return &settings
}

// dedupeShare is the part of the machine's memory that the log cleaner may take for keys.
const dedupeShare = 8

func (b *Broker) cleanerSettings(c configs.Cleaner) logstore.CleanerSettings {
	dedupe := c.DedupeBytes
	if b.env.Memory > 0 {
		dedupe = min(dedupe, int64(min(b.env.Memory/dedupeShare, math.MaxInt64)))
	}
	return logstore.CleanerSettings{
		Threads: int(c.Threads), DedupeBytes: dedupe, LoadFactor: c.LoadFactor, IOBufferBytes: int(c.IOBufferBytes),
		MaxBytesPerSecond: c.MaxBytesPerSecond, Backoff: c.Backoff,
	}
}
