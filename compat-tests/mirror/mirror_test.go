package mirror

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/klamm-mq/klamm/compat-tests/harness"
	"github.com/klamm-mq/klamm/compat-tests/java"
)

// startMirror starts MirrorMaker with its defaults, but for what makes it look more often,
// and for clusters of one broker.
func startMirror(t *testing.T, file string) *java.Process {
	t.Helper()
	return java.RunConnect(t, "MirrorMaker", "org.apache.kafka.connect.mirror.MirrorMaker", file)
}

func configure(t *testing.T, klamm, kafka *side) string {
	t.Helper()
	settings := []string{
		"clusters=klamm,kafka",
		"klamm.bootstrap.servers=" + klamm.addr, "kafka.bootstrap.servers=" + kafka.addr,
		"klamm->kafka.enabled=true", "klamm->kafka.topics=" + klamm.topic,
		"kafka->klamm.enabled=true", "kafka->klamm.topics=" + kafka.topic,
		"sync.group.offsets.enabled=true", "sync.group.offsets.interval.seconds=1", "emit.checkpoints.interval.seconds=1",
		"refresh.topics.interval.seconds=1", "refresh.groups.interval.seconds=1", "sync.topic.configs.interval.seconds=1",
		"emit.heartbeats.interval.seconds=1", "offset.lag.max=0", "offset.flush.interval.ms=500",
		// A worker that was stopped before it could leave its group is not waited for for five minutes.
		"scheduled.rebalance.max.delay.ms=1000",
	}
	for _, topic := range []string{"", "checkpoints.topic.", "heartbeats.topic.", "offset-syncs.topic.", "offset.storage.", "status.storage.", "config.storage."} {
		settings = append(settings, topic+"replication.factor=1")
	}
	file := filepath.Join(t.TempDir(), "mm2.properties")
	if err := os.WriteFile(file, []byte(strings.Join(settings, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// each looks at both directions.
func each(klamm, kafka *side, look func(ctx context.Context, from, to *side) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, way := range [][2]*side{{klamm, kafka}, {kafka, klamm}} {
			if err := look(ctx, way[0], way[1]); err != nil {
				return fmt.Errorf("%s to %s: %w", way[0].name, way[1].name, err)
			}
		}
		return nil
	}
}

// Both sides have what the other has, also after MirrorMaker was away.
func TestMirrorMaker(t *testing.T) {
	hurry := append(harness.Cleaning(), "group.initial.rebalance.delay.ms=0")
	klamm := newSide(t, "klamm", harness.Start(t, hurry...).Addr, "orders")
	kafka := newSide(t, "kafka", java.StartBroker(t, harness.FreePort(t), harness.FreePort(t), hurry...).Addr, "payments")
	sides := []*side{klamm, kafka}
	for _, s := range sides {
		s.write()
		s.commit()
	}
	file := configure(t, klamm, kafka)
	mirror := startMirror(t, file)
	await(t, "the topics are copied", each(klamm, kafka, func(ctx context.Context, from, to *side) error { return from.mirrored(ctx, to) }))
	await(t, "partitions and settings are copied", each(klamm, kafka, func(ctx context.Context, from, to *side) error {
		return from.configured(ctx, to, partitions, map[string]string{"retention.ms": retention})
	}))
	await(t, "the group's offsets are", each(klamm, kafka, func(ctx context.Context, from, to *side) error { return from.translated(ctx, to) }))

	mirror.Stop()
	for _, s := range sides {
		s.write()
		s.commit()
		if _, err := s.admin.CreatePartitions(t.Context(), 1, s.topic); err != nil {
			t.Fatal(err)
		}
		change := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr(retainLater)}}
		if _, err := s.admin.AlterTopicConfigs(t.Context(), change, s.topic); err != nil {
			t.Fatal(err)
		}
	}
	startMirror(t, file)
	await(t, "what was written while it was away is copied, and nothing twice", each(klamm, kafka, func(ctx context.Context, from, to *side) error {
		return from.mirrored(ctx, to)
	}))
	await(t, "so are a new partition and a changed setting", each(klamm, kafka, func(ctx context.Context, from, to *side) error {
		return from.configured(ctx, to, partitions+1, map[string]string{"retention.ms": retainLater})
	}))
	await(t, "and the group's offsets", each(klamm, kafka, func(ctx context.Context, from, to *side) error { return from.translated(ctx, to) }))
}
