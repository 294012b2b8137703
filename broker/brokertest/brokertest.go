package brokertest

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/broker"
	"github.com/klamm-mq/klamm/configs"
)

// stopTimeout bounds the stop at the end of a test.
const stopTimeout = 30 * time.Second

// Config is a configuration of these settings, each key=value; Kafka's defaults for all
// others.
func Config(t testing.TB, settings ...string) *configs.Broker {
	t.Helper()
	cfg, _, err := configs.Load(configs.Sources{Set: settings})
	if err != nil {
		t.Fatalf("configuration of the broker: %v", err)
	}
	return cfg
}

// Start starts a broker that listens on a free port of the loopback interface and keeps
// its data in a directory of the test. Settings, each key=value, add to that or replace
// it. What the broker logs from warnings on goes to the test's output.
func Start(t testing.TB, settings ...string) *broker.Broker {
	t.Helper()
	env := broker.DefaultEnv()
	env.Logger = Logger(t, slog.LevelWarn)
	settings = append([]string{
		"listeners=PLAINTEXT://127.0.0.1:0", "admin.listener=", "log.dirs=" + filepath.Join(t.TempDir(), "data"),
	}, settings...)
	return start(t, Config(t, settings...), env)
}

func start(t testing.TB, cfg *configs.Broker, env broker.Env) *broker.Broker {
	t.Helper()
	b, err := broker.Start(t.Context(), cfg, env)
	if err != nil {
		t.Fatalf("start the broker: %v", err)
	}
	t.Cleanup(func() { Stop(t, b) })
	return b
}

// Stop stops a broker and fails the test if it does not stop well. Once more does no
// harm.
func Stop(t testing.TB, b *broker.Broker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), stopTimeout)
	defer cancel()
	if err := b.Stop(ctx); err != nil {
		t.Errorf("stop the broker: %v", err)
	}
}

// Logger writes what is logged from a level on to the test's output.
func Logger(t testing.TB, from slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: from}))
}
