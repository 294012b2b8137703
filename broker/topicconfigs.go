package broker

import (
	"github.com/klamm-mq/klamm/cluster/controller"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/configs"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/batch"
)

// topicConfigs gives controller and replicas what they need to know of topic keys, each
// in its own types.
type topicConfigs struct{ broker *configs.Broker }

// Validate is controller.TopicConfigs.
func (t topicConfigs) Validate(overrides map[string]string) error {
	_, err := configs.ParseTopic(overrides, t.broker)
	return err
}

// Effective is controller.TopicConfigs.
func (t topicConfigs) Effective(overrides map[string]string) []controller.ConfigEntry {
	entries := configs.EffectiveTopic(overrides, t.broker)
	out := make([]controller.ConfigEntry, 0, len(entries))
	for _, e := range entries {
		out = append(out, controller.ConfigEntry{
			Name: e.Key.Name, Value: e.Value, Source: int8(e.Source), Sensitive: e.Key.Sensitive(),
		})
	}
	return out
}

// Elections is controller.TopicConfigs. What was accepted once stays readable; a broker
// whose own settings have become unreadable for the topic elects by the defaults.
func (t topicConfigs) Elections(overrides map[string]string) controller.ElectionConfig {
	topic, err := configs.ParseTopic(overrides, t.broker)
	if err != nil {
		return controller.ElectionConfig{MinISR: 1}
	}
	return controller.ElectionConfig{MinISR: topic.MinInSyncCount, UncleanElection: topic.UncleanElection}
}

// replica is replica.Options.TopicConfig.
func (t topicConfigs) replica(overrides map[string]string) (replica.TopicConfig, error) {
	topic, err := configs.ParseTopic(overrides, t.broker)
	if err != nil {
		return replica.TopicConfig{}, err
	}
	return replica.TopicConfig{Log: logConfig(&topic), MinInSyncCount: int(topic.MinInSyncCount)}, nil
}

func logConfig(t *configs.Topic) logstore.Config {
	durability := logstore.DurabilityFsync
	if t.Durability == configs.Replicated {
		durability = logstore.DurabilityReplicated
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
		MaxMessageBytes:    t.MaxMessageBytes,
		LogAppendTime:      t.LogAppendTime,
		TimestampBeforeMs:  t.TimestampBeforeMs,
		TimestampAfterMs:   t.TimestampAfterMs,
		Compression:        compression(t),
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
