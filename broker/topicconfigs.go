package broker

import (
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/configs"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// replicaTopicConfig is replica.Options.TopicConfig: what a topic overrides, completed
// and typed.
func (b *Broker) replicaTopicConfig(overrides map[string]string) (replica.TopicConfig, error) {
	topic, err := configs.ParseTopic(overrides, b.dynamic.get())
	if err != nil {
		return replica.TopicConfig{}, err
	}
	return replica.TopicConfig{Log: logConfig(&topic), MinInSyncCount: int(topic.MinInSyncCount)}, nil
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
