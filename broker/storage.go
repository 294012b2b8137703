package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/klamm-mq/klamm/cluster/controller"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/metalog"
	"github.com/klamm-mq/klamm/cluster/node"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/configs"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// metadataLogName is the directory of the metadata log within its log directory. It does
// not look like a partition's.
const metadataLogName = "klamm-metadata"

// missingDir is a log directory that could not be opened.
type missingDir struct {
	path string
	err  error
}

// openDirectories opens the log directories and that of the metadata log. One that
// fails is left out if another one works, as after a failure at run time; one that
// belongs to somebody else, or is in use, ends the start.
func (b *Broker) openDirectories(context.Context) error {
	pool := segment.NewFilePool(segment.PoolOptions{
		MaxOpenFiles: b.descriptors.idleFiles, MaxFiles: b.descriptors.files, Registerer: b.env.Registry,
	})
	b.onStop("log directories", b.releaseDirectories)
	var errs []error
	for _, path := range b.partitionDirs() {
		dir, err := b.openDirectory(path, pool)
		var foreign *logstore.ForeignDirError
		switch {
		case err == nil:
			b.directories = append(b.directories, dir)
		case errors.As(err, &foreign), errors.Is(err, vfs.ErrLocked):
			return err
		default:
			replica.TellOffline(b.log, path, err)
			b.missing = append(b.missing, missingDir{path, err})
			errs = append(errs, err)
		}
	}
	if len(b.directories) == 0 && b.cfg.BrokerRole {
		return errors.Join(errs...)
	}
	return b.openMetadataDirectory(pool)
}

// partitionDirs are the directories that hold partitions: a controller has none.
func (b *Broker) partitionDirs() []string {
	if !b.cfg.BrokerRole {
		return nil
	}
	return b.cfg.LogDirs
}

func (b *Broker) openMetadataDirectory(pool *segment.FilePool) error {
	i := slices.IndexFunc(b.directories, func(d *logstore.Dir) bool { return d.Path() == b.cfg.MetadataLogDir })
	if i >= 0 {
		b.metadataDir = b.directories[i]
		return nil
	}
	if slices.Contains(b.partitionDirs(), b.cfg.MetadataLogDir) {
		return fmt.Errorf("log directory %s, which holds the metadata log, is offline", b.cfg.MetadataLogDir)
	}
	dir, err := b.openDirectory(b.cfg.MetadataLogDir, pool)
	b.metadataDir = dir
	return err
}

func (b *Broker) openDirectory(path string, pool *segment.FilePool) (*logstore.Dir, error) {
	return logstore.OpenDir(logstore.DirOptions{
		FS: b.env.FS, Path: path, NodeID: b.cfg.NodeID, ClusterID: b.cfg.ClusterID,
		Rand: b.env.Entropy, Logger: b.loggers.logger("klamm.logstore"), Codecs: b.env.Codecs, Pool: pool,
		ProducerIDExpiration: b.cfg.ProducerIDExpiration,
		OnOffline:            func(d *logstore.Dir, err error) { b.directoryFailed(d, err) },
		OnLogFailed:          func(l *logstore.Log, err error) { b.logFailed(l, err) },
		Registerer:           b.env.Registry,
	})
}

// releaseDirectories gives up what replica.Manager has not closed: all of them if the
// start did not come so far.
func (b *Broker) releaseDirectories(context.Context) error {
	for _, d := range b.directories {
		d.Abandon()
	}
	if b.metadataDir != nil {
		b.metadataDir.Abandon()
	}
	return nil
}

func (b *Broker) directoryFailed(d *logstore.Dir, err error) {
	if d == b.metadataDir {
		b.fail(fmt.Errorf("log directory %s, which holds the metadata log, failed: %w", d.Path(), err))
	}
	if b.replicas != nil {
		b.replicas.DirectoryFailed(d, err)
	} else { // of a controller alone, or before the logs are opened
		replica.TellOffline(b.log, d.Path(), err)
	}
	b.failures.directory(d.DirectoryID())
}

func (b *Broker) logFailed(l *logstore.Log, err error) {
	if b.replicas != nil {
		b.replicas.LogFailed(l, err)
	}
	b.failures.replica(replica.TopicIDPartition{TopicID: l.ID().TopicID, Partition: l.ID().Partition})
}

// openMetadata opens the metadata log. Its publishers are the configuration, the replicas,
// which read it, the coordinators, which load from those, the quotas, and, last, the image
// that requests see.
func (b *Broker) openMetadata(context.Context) error {
	clusterID, err := b.knownClusterID()
	if err != nil {
		return err
	}
	b.storedID = clusterID
	first, err := b.bootstrapRecords(clusterID)
	if err != nil {
		return err
	}
	if err := b.makeDoor(); err != nil {
		return err
	}
	publishers, err := b.makePublishers()
	if err != nil {
		return err
	}
	options := metalog.Options{
		NodeID: b.cfg.NodeID, DirectoryID: b.metadataDir.DirectoryID(), ClusterID: clusterID,
		Dir: filepath.Join(b.metadataDir.Path(), metadataLogName), FS: b.env.FS, Stores: b.env.Stores, Reserve: b.env.Reserve,
		Joined: b.cfg.ControllerRole && b.metadataDir.Joined(), IDs: b.env.Entropy,
		BootstrapSelf: b.foundsAtOnce(), MayBootstrap: b.mayBootstrap, Bootstrap: first,
		PublishWhenTold: !b.foundsAlone(), Publishers: publishers, Voters: b.voters(),
		Fatal: b.fail, Logger: b.loggers.logger("klamm.metalog"), Registerer: b.env.Registry,
	}
	if !b.foundsAlone() {
		options.Timing = metalog.TimingForQuorum().WithTimeouts(b.cfg.Quorum.FetchTimeout, b.cfg.Quorum.ElectionTimeout)
	}
	if b.door != nil {
		options.Stream, options.Address, options.Refuses = b.door, b.door.Addr().String(), b.addressRefuses
	}
	if b.metalog, err = metalog.Open(options); err != nil {
		return err
	}
	b.onStop("metadata log", func(context.Context) error { return b.metalog.Close() })
	return nil
}

// makePublishers makes what follows metadata, in its order: a controller has no partitions.
func (b *Broker) makePublishers() ([]metalog.Publisher, error) {
	b.quotas, b.registration = b.newQuotas(), node.NewControllerRegistration(b.cfg.NodeID)
	if err := b.drawIncarnation(); err != nil {
		return nil, err
	}
	publishers := []metalog.Publisher{b.dynamic}
	if b.cfg.BrokerRole {
		b.makePartitions()
		b.departures = node.NewDepartures(b.cfg.NodeID)
		publishers = append(publishers, b.replicas, b.groups, b.departures)
	}
	publishers = append(publishers, b.quotas, b.registration)
	if b.cfg.ControllerRole {
		publishers = append(publishers, controller.NewCensus(b.env.Registry))
	}
	return append(publishers, &b.published), nil
}

func (b *Broker) makePartitions() {
	b.makeSuspects()
	b.replicas = b.newReplicas()
	b.dynamic.onChange(func(cfg *configs.Broker) {
		for _, d := range b.directories {
			d.SetProducerIDExpiration(cfg.ProducerIDExpiration)
		}
		b.replicas.SetCleaner(b.cleanerSettings(cfg.Cleaner))
	})
	b.undo = append(b.undo, ending{"replicas", func(context.Context) error { return b.replicas.Close(b.lastEpoch()) }, replicasPatience})
	b.groups = b.newGroupRuntime()
	b.onStop("coordinators", b.closeCoordinators)
}

// missingPaths are the log directories that could not be opened.
func (b *Broker) missingPaths() (paths []string) {
	for _, m := range b.missing {
		paths = append(paths, m.path)
	}
	return paths
}

// LostMetadataError refuses to begin a new cluster where partitions of an older one are:
// the metadata log that knows their topics is missing, or its disk is not mounted.
type LostMetadataError struct {
	Metadata  string // where the metadata log should be
	Partition string // a directory that was found
}

func (e *LostMetadataError) Error() string {
	return fmt.Sprintf("%s is missing or empty, but there are partitions, such as %s: a new cluster would not know their topics; "+
		"bring the metadata log back (is its disk mounted? is log.dirs right?), or move the partitions away to begin a new cluster", e.Metadata, e.Partition)
}

// mayBootstrap is asked when there is no metadata log.
func (b *Broker) mayBootstrap() error {
	if !b.foundsAlone() && b.storedID != "" && b.storedID != b.cfg.ClusterID {
		return fmt.Errorf("%s is missing or empty, but this node belongs to cluster %s: it waits for the controllers of that one",
			filepath.Join(b.metadataDir.Path(), metadataLogName), b.storedID)
	}
	for _, d := range append(slices.Clone(b.directories), b.metadataDir) {
		name, err := d.FirstPartition()
		if err != nil {
			return err
		}
		if name != "" {
			return &LostMetadataError{
				Metadata:  filepath.Join(b.metadataDir.Path(), metadataLogName),
				Partition: filepath.Join(d.Path(), name),
			}
		}
	}
	return nil
}

// lastEpoch is the broker epoch for the clean shutdown marker.
func (b *Broker) lastEpoch() int64 {
	if b.node == nil {
		return -1
	}
	return b.node.BrokerEpoch()
}

// knownClusterID is the id that the directories or the configuration name, "" if this is
// a new node. logstore has compared each with the configuration already.
func (b *Broker) knownClusterID() (string, error) {
	known := b.cfg.ClusterID
	for _, d := range append(slices.Clone(b.directories), b.metadataDir) {
		switch id := d.ClusterID(); {
		case id == "":
		case known == "":
			known = id
		case known != id:
			return "", fmt.Errorf("log directories belong to different clusters: %s says %s, another one %s", d.Path(), id, known)
		}
	}
	return known, nil
}

func (b *Broker) bootstrapRecords(clusterID string) ([]metadata.Record, error) {
	if clusterID == "" {
		id, err := uuid.New(b.env.Entropy)
		if err != nil {
			return nil, err
		}
		clusterID = id.String()
	}
	durability := metadata.DurabilityFsync
	if b.cfg.Durability == configs.Replicated {
		durability = metadata.DurabilityReplicated
	}
	topics, err := configs.ParseTopic(nil, b.cfg)
	if err != nil {
		return nil, err
	}
	// Eligible leader replicas rest on a number that every controller knows and that no
	// file changes: as in Kafka, it is fixed for the cluster when that is founded.
	minInSync := strconv.Itoa(int(topics.MinInSyncCount))
	return []metadata.Record{
		metadata.BootstrapRecord{
			ClusterID: clusterID, Durability: durability, ForOne: b.foundsAlone() || b.votersVary(),
			Features: []metadata.FeatureLevel{{Name: metadata.FeatureMetadata, Level: metadata.MaxMetadataLevel}},
		},
		metadata.ConfigRecord{Resource: allBrokers(), Key: minInSyncKey, Value: &minInSync},
	}, nil
}

func (b *Broker) newReplicas() *replica.Manager {
	logs := b.cfg.Logs
	keeper := logstore.KeeperOptions{
		LogStartInterval:      logs.LogStartCheckpointInterval,
		HighWatermarkInterval: logs.HighWatermarkInterval,
		RetentionInterval:     logs.RetentionCheckInterval,
		RecoveryPointInterval: logs.RecoveryPointInterval,
	}
	return replica.NewManager(replica.Options{
		BrokerID: b.cfg.NodeID, Incarnation: b.incarnation, Dirs: b.directories, DirsMissing: b.missingPaths(),
		TopicConfig:       b.replicaTopicConfig,
		AlterPartition:    &b.membership,
		OnReplicaRepaired: b.failures.repaired,
		Following:         b.following(),
		LeaderThrottle:    b.newThrottle("leader", false, (*configs.Broker).LeaderBytesPerSecond),
		FollowerThrottle:  b.newThrottle("follower", true, (*configs.Broker).FollowerBytesPerSecond),
		ReplicaLagMax:     b.cfg.Replication.LagTimeMax,
		RecoveryThreads:   func() int { return int(b.dynamic.get().Logs.RecoveryThreads) },
		Progress:          b.recoveryProgress,
		Keeper:            keeper,
		Cleaner:           b.cleaner(),
		AssignDirectory:   b.assignments.assign,
		MoveThreads: func() int {
			return int(cmp.Or(b.cfg.Logs.MoveThreads, int32(len(b.cfg.LogDirs))))
		},
		MoveBytesPerSecond: func() int64 { return b.dynamic.get().MoveBytesPerSecond() },
		OnAllDirsOffline: func(err error) {
			b.fail(fmt.Errorf("all log directories are offline: %w", err))
		},
		Logger: b.loggers.logger("klamm.replica"), Registerer: b.env.Registry,
	})
}

// recoveryProgress tells /ready how far opening logs has come.
func (b *Broker) recoveryProgress(done, total int) {
	doing := fmt.Sprintf("opening logs, %d of %d", done, total)
	b.progress.Store(&doing)
}
