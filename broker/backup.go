package broker

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/metalog"
	"github.com/klamm-mq/klamm/configs"
	"github.com/klamm-mq/klamm/logstore"
)

// backupPatience bounds how long a backup waits for the active controller.
const backupPatience = 10 * time.Second

// backup is the metadata as it is now (console.Options.Backup): the active controller is
// asked how far it has come, and this node's image waited for. Unconfirmed it is what this
// node has; there may be more that it has not heard of.
func (b *Broker) backup(ctx context.Context, unconfirmed bool) (func(io.Writer) error, error) {
	if err := b.Ready(); err != nil {
		return nil, err
	}
	image := b.metalog.Image()
	if !unconfirmed {
		ctx, cancel := context.WithTimeout(ctx, backupPatience)
		defer cancel()
		if err := b.node.AwaitNewest(ctx); err != nil {
			return nil, fmt.Errorf("no active controller confirms that what this node has is the newest metadata: %w", err)
		}
		image = b.published.get()
	}
	return func(w io.Writer) error { return metadata.WriteBackup(w, b.backupOf(image)) }, nil
}

func (b *Broker) backupOf(image *metadata.Image) metadata.Backup {
	return metadata.Backup{Created: time.Now(), NodeID: b.cfg.NodeID, Release: Version, Image: image}
}

// BackupStopped is the metadata on the disk of a broker that does not run. The error wraps
// vfs.ErrLocked if it does.
func BackupStopped(cfg *configs.Broker, env Env) (_ metadata.Backup, err error) {
	b := newBroker(cfg, env)
	if _, err := env.FS.Stat(b.metadataPath()); err != nil {
		return metadata.Backup{}, fmt.Errorf("look for the metadata log: %w", err)
	}
	dir, err := b.openStoppedDirectory(cfg.ClusterID)
	if err != nil {
		return metadata.Backup{}, err
	}
	defer dir.Abandon()
	s, err := metalog.ReadStopped(metalog.Options{Dir: b.metadataPath(), FS: env.FS, Stores: env.Stores, Logger: env.Logger})
	if err != nil {
		return metadata.Backup{}, err
	}
	return b.backupOf(s.Image), nil
}

func (b *Broker) metadataPath() string { return filepath.Join(b.cfg.MetadataLogDir, metadataLogName) }

// openStoppedDirectory opens the directory of the metadata log: nobody else has it open, and
// it is this node's, of this cluster. What is in it stays as it is.
func (b *Broker) openStoppedDirectory(clusterID string) (*logstore.Dir, error) {
	return logstore.OpenDir(logstore.DirOptions{
		FS: b.env.FS, Path: b.cfg.MetadataLogDir, NodeID: b.cfg.NodeID, ClusterID: clusterID, Rand: b.env.Entropy,
		Logger: b.env.Logger, Codecs: b.env.Codecs,
	})
}

// RestoreMetadata makes a backup the beginning of the metadata log of a node that is a
// controller, does not run, and has no metadata. It leads the cluster by itself when it is
// started next; docs/operations.md says what to do with the others.
//
// The error is a configs.Problem, wraps vfs.ErrLocked, a *logstore.ForeignDirError if the
// disk belongs to another node or cluster, a *metalog.NotEmptyError, or a *VoterLivesError.
func RestoreMetadata(ctx context.Context, cfg *configs.Broker, env Env, backup metadata.Backup) (err error) {
	b := newBroker(cfg, env)
	if err := Check(cfg); err != nil {
		return err
	}
	if err := b.mayRestore(ctx, backup.Image.ClusterID()); err != nil {
		return err
	}
	first, err := backup.Restored(time.Now(), env.Entropy)
	if err != nil {
		return err
	}
	dir, err := b.openStoppedDirectory(backup.Image.ClusterID())
	if err != nil {
		return err
	}
	defer dir.Abandon()
	return metalog.Restore(b.restoreOptions(), first)
}

// restoreOptions say where the log will be, and how others will reach this node as a voter.
func (b *Broker) restoreOptions() metalog.Options {
	options := metalog.Options{
		NodeID: b.cfg.NodeID, IDs: b.env.Entropy, Dir: b.metadataPath(), FS: b.env.FS, Stores: b.env.Stores, Logger: b.env.Logger,
	}
	if door := b.restoreDoor(); door != nil {
		options.Stream, options.Address = door, door.Addr().String()
	}
	return options
}

// restoreDoor is how this node reaches other voters, and they it, as far as the configuration
// tells: a node whose address the log itself names corrects it when it leads. nil: there are
// no others.
func (b *Broker) restoreDoor() *metalog.Door {
	q := &b.cfg.Quorum
	if len(b.cfg.ControllerListeners) == 0 || len(q.Voters)+len(q.BootstrapServers) == 0 {
		return nil
	}
	var at configs.Listener
	for _, l := range append(slices.Clone(b.cfg.Listeners), b.cfg.Advertised...) { // the last one counts
		if l.Name == b.cfg.ControllerListeners[0] {
			at = l
		}
	}
	address := net.JoinHostPort(cmp.Or(at.Host, "localhost"), strconv.Itoa(at.Port))
	if i := slices.IndexFunc(q.Voters, func(v configs.Voter) bool { return v.ID == b.cfg.NodeID }); i >= 0 {
		address = q.Voters[i].Address()
	}
	return metalog.NewDoor(metalog.DoorOptions{NodeID: b.cfg.NodeID, Address: address, Dial: b.dial, Logger: b.env.Logger})
}

// VoterLivesError refuses to restore metadata while another voter has some of the same
// cluster. If a majority of them lives nothing is lost, and the restore would make two
// clusters of one.
type VoterLivesError struct {
	NodeID  int32
	Address string
}

func (e *VoterLivesError) Error() string {
	return fmt.Sprintf("voter %d at %s runs and has metadata of this cluster: if a majority of the voters lives, start this node as it is "+
		"instead, and it is let in; if not, stop that one and take the backup from its disk", e.NodeID, e.Address)
}

func (b *Broker) mayRestore(ctx context.Context, clusterID string) error {
	if !b.cfg.ControllerRole {
		return b.cfg.Problem("process.roles", "must include controller: metadata is restored on one, and brokers get it from there")
	}
	door := b.restoreDoor()
	for _, address := range b.controllers() {
		state, err := door.Probe(ctx, address)
		if err == nil && !state.Empty && state.NodeID != b.cfg.NodeID && state.ClusterID == clusterID {
			return &VoterLivesError{state.NodeID, address}
		}
	}
	return nil
}
