package connect

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/compat-tests/harness"
	"github.com/klamm-mq/klamm/compat-tests/java"
)

const (
	cluster  = "connect-cluster" // the workers' group
	patience = 2 * time.Minute
)

// worker is one process of the cluster.
type worker struct {
	*java.Process
	t    testing.TB
	rest string // its address
}

// startWorker starts a worker with Connect's defaults, but for what makes it notice and
// commit sooner. A cluster of one broker needs the replication factors.
func startWorker(t testing.TB, name, bootstrap string) *worker {
	t.Helper()
	w := &worker{t: t, rest: fmt.Sprintf("http://127.0.0.1:%d", harness.FreePort(t))}
	const text = "org.apache.kafka.connect.storage.StringConverter"
	settings := []string{
		"bootstrap.servers=" + bootstrap, "group.id=" + cluster, "client.id=" + name, "listeners=" + w.rest,
		"key.converter=" + text, "value.converter=" + text,
		"config.storage.topic=connect-configs", "config.storage.replication.factor=1",
		"offset.storage.topic=connect-offsets", "offset.storage.replication.factor=1", "offset.storage.partitions=5",
		"status.storage.topic=connect-status", "status.storage.replication.factor=1",
		"offset.flush.interval.ms=500", "scheduled.rebalance.max.delay.ms=0", "plugin.discovery=service_load",
	}
	file := filepath.Join(t.TempDir(), "worker.properties")
	if err := os.WriteFile(file, []byte(strings.Join(settings, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.Process = java.RunConnect(t, name, "org.apache.kafka.connect.cli.ConnectDistributed", file)
	return w
}

// request asks the worker until it answers with success: it refuses while it is starting
// and while the cluster rebalances.
func (w *worker) request(method, path string, body any, answer any) {
	w.t.Helper()
	await(w.t, method+" "+path, func(ctx context.Context) error {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, method, w.rest+path, bytes.NewReader(text))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		said, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		if resp.StatusCode/100 != 2 {
			return fmt.Errorf("%s: %s", resp.Status, said)
		}
		if answer == nil {
			return nil
		}
		return json.Unmarshal(said, answer)
	})
}

// connector creates one, or changes its configuration.
func (w *worker) connector(name string, config map[string]string) {
	w.t.Helper()
	w.request(http.MethodPut, "/connectors/"+name+"/config", config, nil)
}

// running waits until a connector and its only task run on the worker.
func (w *worker) running(name string) {
	w.t.Helper()
	type state struct {
		State  string `json:"state"`
		Worker string `json:"worker_id"`
	}
	await(w.t, name+" runs", func(context.Context) error {
		var status struct {
			Connector state   `json:"connector"`
			Tasks     []state `json:"tasks"`
		}
		w.request(http.MethodGet, "/connectors/"+name+"/status", nil, &status)
		want := state{"RUNNING", strings.TrimPrefix(w.rest, "http://")}
		if status.Connector != want || len(status.Tasks) != 1 || status.Tasks[0] != want {
			return fmt.Errorf("%s: %+v, want %+v", name, status, want)
		}
		return nil
	})
}

// await looks until there is no error.
func await(t testing.TB, what string, look func(context.Context) error) {
	t.Helper()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		err := look(ctx)
		if err == nil {
			t.Logf("%s, after %s", what, time.Since(begin).Round(time.Millisecond))
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("not within %s: %s: %v", patience, what, err)
		}
	}
}
