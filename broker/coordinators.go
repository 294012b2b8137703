package broker

import (
	"context"
	"fmt"
	"io"

	"github.com/klamm-mq/klamm/cluster/coordinator"
	"github.com/klamm-mq/klamm/cluster/coordinator/group"
	"github.com/klamm-mq/klamm/cluster/coordinator/replicalog"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// drawIncarnation names this life of the broker, so that what metadata says of an earlier
// one is told from what it says of this one.
func (b *Broker) drawIncarnation() error {
	if _, err := io.ReadFull(b.env.Entropy, b.incarnation[:]); err != nil {
		return fmt.Errorf("draw an incarnation id: %w", err)
	}
	if b.incarnation == uuid.Zero {
		return fmt.Errorf("draw an incarnation id: the source of entropy gives zeros")
	}
	return nil
}

// newGroupRuntime makes what runs the shards of groups. Metadata brings it the partitions.
func (b *Broker) newGroupRuntime() *coordinator.Runtime[*group.Shard] {
	shard := group.ShardOptions{
		Config: b.groupConfig(), Rand: b.env.Entropy, Logger: b.loggers.logger("klamm.group"), Metrics: group.NewMetrics(b.env.Registry),
	}
	return coordinator.New(coordinator.Options[*group.Shard]{
		Name: "group", Topic: metadata.GroupMetadataTopic,
		BrokerID: b.cfg.NodeID, Incarnation: b.incarnation,
		Log:          replicalog.New(b.replicas),
		NewShard:     func(int32) *group.Shard { return group.NewShard(shard) },
		WriteTimeout: b.cfg.Groups.OffsetCommitTimeout,
		AppendLinger: b.cfg.Groups.AppendLinger,
		Codec:        batch.Codec(b.cfg.OffsetsCodec), Codecs: b.env.Codecs,
		Logger: b.loggers.logger("klamm.coordinator"), Registerer: b.env.Registry,
	})
}

// groupService is what handlers ask about groups.
func (b *Broker) groupService() *group.Service {
	return group.NewService(group.ServiceOptions{
		Config: b.groupConfig(), Runtime: b.groups, Image: b.published.get,
		Partitions:  b.cfg.OffsetsTopic.Partitions,
		CreateTopic: func() { b.handlers.CreateInternalTopic(metadata.GroupMetadataTopic) },
	})
}

// closeCoordinators answers what is parked in them. It comes before the server's end, which
// waits for answers, and again if the start did not come so far.
func (b *Broker) closeCoordinators(context.Context) error {
	if b.groups != nil {
		b.groups.Close()
	}
	return nil
}

func (b *Broker) groupConfig() group.Config {
	g := &b.cfg.Groups
	return group.Config{
		MinSessionTimeout: g.MinSessionTimeout, MaxSessionTimeout: g.MaxSessionTimeout,
		MaxSize: int(g.MaxSize), InitialRebalanceDelay: g.InitialRebalanceDelay,
		OffsetMetadataMaxBytes: int(g.OffsetMetadataMaxBytes),
		OffsetsRetention:       g.OffsetsRetention, OffsetsRetentionCheckInterval: g.RetentionCheckInterval,
	}
}
