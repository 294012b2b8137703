package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/klamm-mq/klamm/broker"
	"github.com/klamm-mq/klamm/cluster/metadata"
)

// backupTimeout bounds how long a node may take to hand its metadata over.
const backupTimeout = time.Minute

// backupSource says where a backup is taken from.
type backupSource struct {
	admin       string
	unconfirmed bool
	stopped     bool
	sources     sourceFlags
}

func newClusterBackup(std streams) *cobra.Command {
	var from backupSource
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Save the metadata of a cluster in a file",
		Long: "Save the metadata of a cluster: brokers, topics, partitions and where they are, configurations, quotas. Records are\n" +
			"not part of it. Any node gives it, on its admin.listener, which other machines do not reach by default: run this\n" +
			"on a node, with its configuration. The active controller confirms that the node has everything; with\n" +
			"--unconfirmed a node gives what it has. With --stopped it is read from the disk of a node that does not run.\n" +
			"A file that is there is replaced, and only when the new one is whole.",
		Example: "  klamm cluster backup /backup/metadata\n" +
			"  klamm cluster backup /backup/metadata --config server.properties\n" +
			"  klamm cluster backup /backup/metadata --stopped --config server.properties",
		Args: oneArg("file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := from.take(cmd.Context())
			if err != nil {
				return err
			}
			b, err := metadata.ReadBackup(bytes.NewReader(data))
			if err != nil {
				return err
			}
			if err := writeWhole(args[0], data); err != nil {
				return fmt.Errorf("write %s: %w", args[0], err)
			}
			_, err = fmt.Fprintf(std.out, "saved cluster %s at position %d: %d brokers, %d topics, %d partitions\n",
				b.Image.ClusterID(), b.Image.Position().Index, b.Image.NumBrokers(), b.Image.NumTopics(), b.Image.NumPartitions())
			return err
		},
	}
	from.register(cmd)
	return cmd
}

func (s *backupSource) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.admin, "admin", "", "the node's admin.listener, as host:port (that of the configuration)")
	cmd.Flags().BoolVar(&s.unconfirmed, "unconfirmed", false, "take what the node has, although no active controller says that it is the newest")
	cmd.Flags().BoolVar(&s.stopped, "stopped", false, "read from the disk of a node that does not run")
	s.sources.register(cmd)
	cmd.MarkFlagsMutuallyExclusive("stopped", "admin")
	cmd.MarkFlagsMutuallyExclusive("stopped", "unconfirmed")
}

// take gives the bytes of a backup, checked by nobody yet.
func (s *backupSource) take(ctx context.Context) ([]byte, error) {
	if s.admin != "" {
		return s.fetch(ctx, s.admin)
	}
	cfg, _, err := s.sources.load()
	switch {
	case err != nil:
		return nil, err
	case !s.stopped && cfg.AdminListener == "":
		return nil, usageError{cfg.Problem("admin.listener", "is empty: the node gives its metadata there")}
	case !s.stopped:
		return s.fetch(ctx, cfg.AdminListener)
	}
	b, err := broker.BackupStopped(cfg, broker.DefaultEnv())
	if err != nil {
		return nil, startError(err)
	}
	var data bytes.Buffer
	err = metadata.WriteBackup(&data, b)
	return data.Bytes(), err
}

func (s *backupSource) fetch(ctx context.Context, admin string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, backupTimeout)
	defer cancel()
	url := "http://" + admin + "/metadata/backup"
	if s.unconfirmed {
		url += "?unconfirmed"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, usagef("%s: want host:port of an admin.listener", admin)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the node for its metadata: %w", err)
	}
	data, err := io.ReadAll(resp.Body)
	err = errors.Join(err, resp.Body.Close())
	switch {
	case err != nil:
		return nil, fmt.Errorf("ask the node for its metadata: %w", err)
	case resp.StatusCode == http.StatusServiceUnavailable:
		return nil, fmt.Errorf("the node at %s: %s", admin, strings.TrimSpace(string(data)))
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s answers %s: is this the admin.listener of a node?", url, resp.Status)
	}
	return data, nil
}

// writeWhole makes a file that nobody else may read appear whole, durably, or not at all.
func writeWhole(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.unfinished")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDirectory(filepath.Dir(path))
}

func syncDirectory(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
