package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

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

// load reads and checks the configuration.
func (f *sourceFlags) load() (*configs.Broker, []configs.Warning, error) {
	cfg, warnings, err := configs.Load(configs.Sources{Files: f.files, Env: os.Environ(), Set: f.sets})
	if err != nil {
		return nil, warnings, usageError{err}
	}
	return cfg, warnings, nil
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
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logs, err := newLogs(std, level, format)
			if err != nil {
				return err
			}
			cfg, warnings, err := sources.load()
			for _, w := range warnings {
				logs.logger.Warn(string(w)) //nolint:sloglint // the text is the user's to read, and comes once
			}
			if err != nil {
				return err
			}
			return runStart(cmd.Context(), cfg, logs)
		},
	}
	sources.register(cmd)
	cmd.Flags().StringVar(&level, "log-level", "info", "debug, info, warn or error")
	cmd.Flags().StringVar(&format, "log-format", "auto", "text, json, or auto: text on a terminal")
	return cmd
}

// logs is where a running broker speaks: through a logger, and beside it when it is ready,
// whatever the level.
type logs struct {
	out    io.Writer
	json   bool
	logger *slog.Logger
}

func newLogs(std streams, level, format string) (*logs, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, usagef("--log-level %s: want debug, info, warn or error", level)
	}
	options := &slog.HandlerOptions{Level: l, ReplaceAttr: inWords}
	if format == "auto" {
		format = "json"
		if isTerminal(std.err) {
			format = "text"
		}
	}
	switch format {
	case "json":
		return &logs{std.err, true, slog.New(slog.NewJSONHandler(std.err, options))}, nil
	case "text":
		return &logs{std.err, false, slog.New(slog.NewTextHandler(std.err, options))}, nil
	}
	return nil, usagef("--log-format %s: want text, json or auto", format)
}

// inWords has states, addresses and durations written in JSON as in text: a number would
// say nothing to who reads the log.
func inWords(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case time.Time, error:
	case fmt.Stringer: // time.Duration is one
		a.Value = slog.StringValue(v.String())
	}
	return a
}

// ready says that the broker accepts requests, and who it is: a block for people, a line for
// programs.
func (l *logs) ready(cfg *configs.Broker, b *broker.Broker, took time.Duration) {
	image := b.Image()
	facts := []any{
		"listeners", strings.Join(b.Listeners(), ","),
		"node.id", cfg.NodeID,
		"cluster.id", image.ClusterID(),
		"durability", image.Durability().String(),
		"log.dirs", strings.Join(cfg.LogDirs, ","),
		"admin", adminURL(b),
		"version", broker.Version,
		"after", took.Round(time.Millisecond).String(),
	}
	if l.json {
		slog.New(slog.NewJSONHandler(l.out, nil)).Info("klamm ready", facts...)
		return
	}
	fmt.Fprint(l.out, readyBlock(facts))
}

// readyBlock has a line for each fact, which are names and values in turn.
func readyBlock(facts []any) string {
	var block strings.Builder
	block.WriteString("klamm ready\n")
	for i := 0; i < len(facts); i += 2 {
		fmt.Fprintf(&block, "  %-11s %v\n", facts[i], facts[i+1])
	}
	return block.String()
}

func adminURL(b *broker.Broker) string {
	if addr := b.AdminAddr(); addr != nil {
		return "http://" + addr.String()
	}
	return "none"
}

func runStart(ctx context.Context, cfg *configs.Broker, logs *logs) error {
	env := broker.DefaultEnv()
	env.Logger = logs.logger
	limitHeap(env.Memory)
	begin := time.Now()
	b, err := broker.Start(ctx, cfg, env)
	if ctx.Err() != nil && b == nil {
		return nil // told to stop before it was up
	}
	if err != nil {
		return startError(err)
	}
	logs.ready(cfg, b, time.Since(begin))
	var failure error
	select {
	case <-ctx.Done():
		logs.logger.Info("stopping")
	case <-b.Failed():
		failure = b.Err()
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	begin = time.Now()
	stopped := b.Stop(stopCtx)
	logs.logger.Info("stopped", "after", time.Since(begin).Round(time.Millisecond))
	return errors.Join(failure, stopped)
}

// startError tells mistakes of configuration from failures.
func startError(err error) error {
	var foreign *logstore.ForeignDirError
	var lost *broker.LostMetadataError
	var refused configs.Problem
	if errors.As(err, &foreign) || errors.As(err, &lost) || errors.As(err, &refused) {
		return usageError{err}
	}
	if errors.Is(err, vfs.ErrLocked) {
		return fmt.Errorf("%w: is another klamm running on the same directory?", err)
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w; klamm runs as user %d, group %d", err, os.Getuid(), os.Getgid())
	}
	if errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("%w: log.dirs must be where klamm may write", err)
	}
	return err
}
