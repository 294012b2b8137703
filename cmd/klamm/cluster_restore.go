package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/klamm-mq/klamm/broker"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/metalog"
)

func newClusterRestore(std streams) *cobra.Command {
	var sources sourceFlags
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Begin anew with saved metadata when that of the cluster is lost",
		Long: "Begin anew with the metadata of `klamm cluster backup`, on one controller that does not run and has no metadata. It\n" +
			"leads the cluster when it is started; other controllers join when their klamm-metadata is out of the way. Only\n" +
			"when the disks of a majority of the controllers are lost is this the way: otherwise an empty controller is\n" +
			"let in by the others. The log directories of brokers stay as they are. Who leads a partition is decided by\n" +
			"what is in its logs, when enough replicas are there. docs/operations.md has each step, and says what may be lost.",
		Example: "  klamm cluster restore /backup/metadata --dry-run\n" +
			"  klamm cluster restore /backup/metadata --config server.properties",
		Args: oneArg("file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := readBackup(args[0])
			if err != nil {
				return err
			}
			if err := describeBackup(std.out, b, time.Now()); err != nil || dryRun {
				return err
			}
			cfg, _, err := sources.load()
			if err != nil {
				return err
			}
			if err := broker.RestoreMetadata(cmd.Context(), cfg, broker.DefaultEnv(), b); err != nil {
				return restoreError(err)
			}
			_, err = fmt.Fprintf(std.out, "restored in %s: node %d leads the cluster when it is started\n", cfg.MetadataLogDir, cfg.NodeID)
			return err
		},
	}
	sources.register(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what is in the file, and change nothing")
	return cmd
}

func readBackup(path string) (metadata.Backup, error) {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return metadata.Backup{}, err
	}
	b, err := metadata.ReadBackup(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return b, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// describeBackup says what is in a backup.
func describeBackup(out io.Writer, b metadata.Backup, now time.Time) error {
	var brokers []string
	for r := range b.Image.Brokers() {
		brokers = append(brokers, strconv.Itoa(int(r.ID)))
	}
	var features []string
	for _, f := range b.Image.Features() {
		features = append(features, fmt.Sprintf("%s %d", f.Name, f.Level))
	}
	at := b.Image.Position()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "cluster\t%s\n", b.Image.ClusterID())
	fmt.Fprintf(w, "saved\t%s, %s ago, by node %d of release %s\n",
		b.Created.UTC().Format("2006-01-02 15:04:05 MST"), now.Sub(b.Created).Round(time.Second), b.NodeID, b.Release)
	fmt.Fprintf(w, "position\t%d, term %d\n", at.Index, at.Term)
	fmt.Fprintf(w, "features\t%s\n", strings.Join(features, ", "))
	fmt.Fprintf(w, "brokers\t%s\n", strings.Join(brokers, ", "))
	fmt.Fprintf(w, "topics\t%d, with %d partitions\n", b.Image.NumTopics(), b.Image.NumPartitions())
	return w.Flush()
}

// restoreError tells what somebody has to decide from what may work another time.
func restoreError(err error) error {
	var full *metalog.NotEmptyError
	var lives *broker.VoterLivesError
	if errors.As(err, &full) || errors.As(err, &lives) {
		return usageError{err}
	}
	return startError(err)
}
