package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/klamm-mq/klamm/broker"
	"github.com/klamm-mq/klamm/configs"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/logstore/vfs"
)

// stopTimeout bounds what a SIGTERM waits for.
const stopTimeout = 10 * time.Second

// sourceFlags say where configuration comes from.
type sourceFlags struct {
	files []string
	sets  []string
}

func (f *sourceFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(&f.files, "config", "c", nil, "configuration file: .properties, .yaml or .toml; may be repeated, later ones win")
	cmd.Flags().StringArrayVar(&f.sets, "set", nil, "one setting key=value; wins over files and environment; may be repeated")
}

// load reads and checks the configuration, and prints warnings.
func (f *sourceFlags) load(std streams) (*configs.Broker, error) {
	cfg, warnings, err := configs.Load(configs.Sources{Files: f.files, Env: os.Environ(), Set: f.sets})
	if err != nil {
		return nil, usageError{err}
	}
	for _, w := range warnings {
		fmt.Fprintln(std.err, "klamm: warning:", w)
	}
	return cfg, nil
}

func newStart(std streams) *cobra.Command {
	var sources sourceFlags
	var level, format string
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Run a broker",
		Long: "Run a broker until SIGTERM or SIGINT.\n\n" +
			"Without configuration it listens on 127.0.0.1:9092, keeps its data in ./klamm-data and is a\n" +
			"cluster of one. Settings have Kafka's names, from files, from the environment (KAFKA_LOG_DIRS or\n" +
			"KLAMM_LOG_DIRS for log.dirs) and from --set, in rising order of precedence.",
		Example: "  klamm start\n" +
			"  klamm start --config server.properties\n" +
			"  klamm start --set listeners=PLAINTEXT://:9092 --set log.dirs=/var/lib/klamm",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := newLogger(std, level, format)
			if err != nil {
				return err
			}
			cfg, err := sources.load(std)
			if err != nil {
				return err
			}
			return runStart(cmd.Context(), std, cfg, logger)
		},
	}
	sources.register(cmd)
	cmd.Flags().StringVar(&level, "log-level", "info", "debug, info, warn or error")
	cmd.Flags().StringVar(&format, "log-format", "auto", "text, json, or auto: text on a terminal")
	return cmd
}

func newLogger(std streams, level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, usagef("--log-level %s: want debug, info, warn or error", level)
	}
	options := &slog.HandlerOptions{Level: l}
	file, isFile := std.err.(*os.File)
	if format == "auto" && isFile && !term.IsTerminal(int(file.Fd())) {
		format = "json"
	}
	switch format {
	case "json":
		return slog.New(slog.NewJSONHandler(std.err, options)), nil
	case "text", "auto":
		return slog.New(slog.NewTextHandler(std.err, options)), nil
	}
	return nil, usagef("--log-format %s: want text, json or auto", format)
}

func runStart(ctx context.Context, std streams, cfg *configs.Broker, logger *slog.Logger) error {
	env := broker.DefaultEnv()
	env.Logger = logger
	begin := time.Now()
	b, err := broker.Start(ctx, cfg, env)
	if ctx.Err() != nil {
		return nil // told to stop before it was up
	}
	if err != nil {
		return startError(err)
	}
	printReady(std, cfg, b, time.Since(begin))
	var failure error
	select {
	case <-ctx.Done():
		logger.Info("stopping")
	case <-b.Failed():
		failure = b.Err()
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return errors.Join(failure, b.Stop(stopCtx))
}

// startError tells mistakes of configuration from failures.
func startError(err error) error {
	var foreign *logstore.ForeignDirError
	if errors.As(err, &foreign) {
		return usageError{err}
	}
	if errors.Is(err, vfs.ErrLocked) {
		return fmt.Errorf("%w: is another klamm running on the same directory?", err)
	}
	return err
}

// printReady prints the line that says that the broker accepts requests.
func printReady(std streams, cfg *configs.Broker, b *broker.Broker, took time.Duration) {
	admin := "none"
	if addr := b.AdminAddr(); addr != nil {
		admin = "http://" + addr.String()
	}
	image := b.Image()
	fmt.Fprintf(std.err, "klamm ready: listeners=%s node.id=%d cluster.id=%s durability=%s log.dirs=%s admin=%s version=%s (Kafka %s) after %s\n",
		strings.Join(b.Listeners(), ","), cfg.NodeID, image.ClusterID(), image.Durability(), strings.Join(cfg.LogDirs, ","),
		admin, broker.Version, broker.KafkaVersion, took.Round(time.Millisecond))
}
