package broker

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/configs"
)

// A limit of 0 refuses every batch, while to package batch it is no limit.
func TestMaxMessageBytesOfZeroIsALimit(t *testing.T) {
	b := &Broker{cfg: configs.Default(), dynamic: newDynamicConfig(configs.Default(), slog.New(slog.DiscardHandler))}
	for value, want := range map[string]int32{"0": 1, "1": 1, "200": 200} {
		c, err := b.replicaTopicConfig(map[string]string{"max.message.bytes": value})
		if err != nil || c.Log.MaxMessageBytes != want {
			t.Errorf("%s: limit %d, want %d (%v)", value, c.Log.MaxMessageBytes, want, err)
		}
	}
}

func TestDecompressedLimitReachesTheLog(t *testing.T) {
	b := &Broker{cfg: configs.Default(), dynamic: newDynamicConfig(configs.Default(), slog.New(slog.DiscardHandler))}
	c, err := b.replicaTopicConfig(map[string]string{"max.decompressed.message.bytes": "1000"})
	if err != nil || c.Log.MaxRecordBytes != 1000 {
		t.Errorf("limit %d, want 1000 (%v)", c.Log.MaxRecordBytes, err)
	}
}

// Whoever wants a topic compacted finds in the log that it is not, once.
func TestCompactionThatDoesNotExistIsWarnedOf(t *testing.T) {
	var log bytes.Buffer
	d := newDynamicConfig(configs.Default(), slog.New(slog.NewTextHandler(&log, nil)))
	image := metadata.Empty()
	for _, step := range []struct {
		topic, policy, want string
	}{
		{"a", "delete", ""},
		{"a", "delete, compact", "topics=1 first=a"},
		{"a", "compact", ""}, // that is known
		{metadata.GroupMetadataTopic, "compact", ""},
		{"b", "compact", "topics=1 first=b"},
	} {
		log.Reset()
		delta := metadata.NewDelta(image)
		err := delta.Replay(metadata.ConfigRecord{
			Resource: metadata.Resource{Type: metadata.TopicResource, Name: step.topic}, Key: "cleanup.policy", Value: &step.policy,
		})
		if err != nil {
			t.Fatal(err)
		}
		image = delta.Image(metadata.Position{Index: 1})
		d.OnMetadataUpdate(delta, image)
		if got := log.String(); (got != "") != (step.want != "") || !strings.Contains(got, step.want) {
			t.Errorf("%s %s: %q, want %q", step.topic, step.policy, got, step.want)
		}
	}
}
