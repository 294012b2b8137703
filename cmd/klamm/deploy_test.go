package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// plainEnvironment takes away settings that whoever runs the tests has in the environment.
func plainEnvironment(t *testing.T) {
	t.Helper()
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "KAFKA_") || strings.HasPrefix(name, "KLAMM_") {
			t.Setenv(name, "") // so that it comes back
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func runForTest(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(t.Context(), args, streams{strings.NewReader(""), &stdout, &stderr})
	return code, stdout.String(), stderr.String()
}

// Each configuration that deploy/ offers is good, and without a warning.
func TestExamplesAreGood(t *testing.T) {
	plainEnvironment(t)
	files, err := filepath.Glob("../../deploy/*/*.properties")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 3 {
		t.Fatalf("only %q", files)
	}
	for _, file := range append(files, "../../deploy/container.properties") {
		if code, out, errs := runForTest(t, "check-config", file); code != 0 || errs != "" || !strings.Contains(out, "good") {
			t.Errorf("%s: exit code %d: %s%s", file, code, out, errs)
		}
	}
}

// kafkaServerProperties are the keys of config/server.properties of Kafka 4.4.
var kafkaServerProperties = []string{
	"process.roles=broker,controller", "node.id=1", "controller.quorum.bootstrap.servers=localhost:9093",
	"listeners=PLAINTEXT://:9092,CONTROLLER://:9093", "inter.broker.listener.name=PLAINTEXT",
	"advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093", "controller.listener.names=CONTROLLER",
	"listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
	"num.network.threads=3", "num.io.threads=8", "socket.send.buffer.bytes=102400", "socket.receive.buffer.bytes=102400",
	"socket.request.max.bytes=104857600", "log.dirs=/tmp/kraft-combined-logs", "num.partitions=1", "num.recovery.threads.per.data.dir=2",
	"offsets.topic.replication.factor=1", "share.coordinator.state.topic.replication.factor=1",
	"share.coordinator.state.topic.min.isr=1", "transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1",
	"# comments, and keys that are commented out", "#log.flush.interval.messages=10000", "",
	"log.retention.hours=168", "#log.retention.bytes=1073741824", "log.segment.bytes=1073741824", "log.retention.check.interval.ms=300000",
}

// kafkaImageDiffers is where the file in the apache/kafka image differs from it.
var kafkaImageDiffers = map[string]string{
	"controller.quorum.bootstrap.servers=localhost:9093":                          "controller.quorum.voters=1@localhost:9093",
	"advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093": "advertised.listeners=PLAINTEXT://localhost:9092",
}

// A stock server.properties is accepted, with one line for what has no meaning here.
func TestStockConfiguration(t *testing.T) {
	plainEnvironment(t)
	var image []string
	for _, line := range kafkaServerProperties {
		if other, differs := kafkaImageDiffers[line]; differs {
			line = other
		}
		image = append(image, line)
	}
	for name, lines := range map[string][]string{"server": kafkaServerProperties, "image": image} {
		file := filepath.Join(t.TempDir(), name+".properties")
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		const want = "klamm: warning: keys of Kafka that have no meaning here were ignored: num.io.threads, num.network.threads\n"
		if code, out, errs := runForTest(t, "check-config", file); code != 0 || errs != want || !strings.Contains(out, "good") {
			t.Errorf("%s: exit code %d: %s%s", name, code, out, errs)
		}
	}
}

func TestHealth(t *testing.T) {
	plainEnvironment(t)
	answer, code := "ready", http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ready" {
			http.NotFound(w, r)
			return
		}
		w.WriteHeader(code)
		_, _ = w.Write([]byte(answer))
	}))
	addr := strings.TrimPrefix(server.URL, "http://")
	if code, out, errs := runForTest(t, "health", "--set", "admin.listener="+addr); code != 0 || out != "ready\n" || errs != "" {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	answer, code = "not ready: starting", http.StatusServiceUnavailable
	if code, _, errs := runForTest(t, "health", "--set", "admin.listener="+addr); code != exitFailed || !strings.Contains(errs, "says: not ready: starting") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	server.Close()
	if code, _, errs := runForTest(t, "health", "--set", "admin.listener="+addr); code != exitFailed || !strings.Contains(errs, "no answer from "+addr) {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if code, _, errs := runForTest(t, "health", "--set", "admin.listener="); code != exitUsage || !strings.Contains(errs, "nobody to ask") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

func TestLocalAddress(t *testing.T) {
	for listener, want := range map[string]string{
		":9644": "localhost:9644", "0.0.0.0:9644": "localhost:9644", "[::]:9644": "localhost:9644",
		"127.0.0.1:9644": "127.0.0.1:9644", "broker.example:1": "broker.example:1",
	} {
		if got := localAddress(listener); got != want {
			t.Errorf("%s: %s, want %s", listener, got, want)
		}
	}
}
