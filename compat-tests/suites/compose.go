package suites

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/klamm-mq/klamm/compat-tests/java"
)

// service is a broker as docker compose has it.
type service interface {
	Start() error
	Stop() error
	Log() string
}

// compose is what sarama's tests find of their docker-compose.yml: five brokers behind
// toxiproxy, and a program "docker" that stops them, starts them, and runs Kafka's tools
// beside them (package docker).
type compose struct {
	t       testing.TB
	proxies *toxiproxy.ApiServer
	at      string // where the stand-in of docker asks
	bin     string // the directory with it, and with Kafka's scripts

	mu       sync.Mutex
	services map[string]service // kafka-1, …
	stopped  map[string]bool
}

// toxiproxyAt is written into the tests.
const toxiproxyAt = "127.0.0.1:8474"

// proxied is the address of a node behind its proxy, as the tests have it written in.
func proxied(node int) string { return fmt.Sprintf("localhost:%d", 29090+node) }

// newCompose opens the ports of the proxies, which lead nowhere yet.
func newCompose(t testing.TB, targets []string) *compose {
	t.Helper()
	c := &compose{t: t, services: map[string]service{}, stopped: map[string]bool{}}
	c.proxies = toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	for i, target := range targets {
		name, addr := fmt.Sprintf("kafka%d", i+1), strings.Replace(proxied(i+1), "localhost", "127.0.0.1", 1)
		if err := c.proxies.Collection.Add(toxiproxy.NewProxy(c.proxies, name, addr, target), true); err != nil {
			t.Fatalf("proxy at %s: %v", addr, err)
		}
	}
	t.Cleanup(func() { _ = c.proxies.Collection.Clear() }) // the process ends as well
	c.serve(toxiproxyAt, c.proxies.Routes())
	c.at = c.serve("127.0.0.1:0", http.HandlerFunc(c.command))
	return c
}

// serve answers HTTP until the test ends.
func (c *compose) serve(addr string, h http.Handler) string {
	c.t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		c.t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	var done sync.WaitGroup
	done.Go(func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			c.t.Error(err)
		}
	})
	c.t.Cleanup(func() {
		_ = s.Close() // whoever asks has ended
		done.Wait()
	})
	return l.Addr().String()
}

// command is "docker compose VERB SERVICE", as the path /VERB/SERVICE.
func (c *compose) command(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	verb, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	out, err := c.do(verb, name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = io.WriteString(w, out) // the tests show what is missing
}

func (c *compose) do(verb, name string) (string, error) {
	if verb == "up" {
		return "", c.up()
	}
	s := c.services[name]
	switch {
	case s == nil:
		return "", fmt.Errorf("%s: no such service: %q", verb, name)
	case verb == "logs":
		return s.Log(), nil
	case verb == "stop" && !c.stopped[name]:
		c.stopped[name] = true
		return "", s.Stop()
	case verb == "start" && c.stopped[name]:
		c.stopped[name] = false
		return "", s.Start()
	}
	return "", nil // it is as it should be
}

// up starts what a process of tests that has ended too soon has left stopped.
func (c *compose) up() error {
	for name, stopped := range c.stopped {
		if _, err := c.do("start", name); stopped && err != nil {
			return err
		}
	}
	for _, p := range c.proxies.Collection.Proxies() {
		if err := p.Start(); err != nil && !errors.Is(err, toxiproxy.ErrProxyAlreadyStarted) {
			return err
		}
		p.Toxics.ResetToxics(context.Background())
	}
	return nil
}

// scripts are those of Kafka's that the tests call, and their classes.
func scripts() map[string]string {
	return map[string]string{
		"kafka-console-producer.sh":    "org.apache.kafka.tools.ConsoleProducer",
		"kafka-console-consumer.sh":    "org.apache.kafka.tools.consumer.ConsoleConsumer",
		"kafka-verifiable-consumer.sh": "org.apache.kafka.tools.VerifiableConsumer",
	}
}

// programs writes the scripts and builds the stand-in of docker.
func (c *compose) programs() error {
	c.bin = c.t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(c.bin, "docker"), "./docker")
	build.Dir = here()
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the stand-in of docker: %w\n%s", err, out)
	}
	for name, class := range scripts() {
		cmd, err := java.Quick(class)
		if err != nil {
			return err
		}
		text := fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\"\n", strings.Join(cmd.Args, "' '"))
		if err := os.WriteFile(filepath.Join(c.bin, name), []byte(text), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// env is for the tests: the stand-in comes before docker, and finds what it needs.
// Broker is the address that is called kafka-1:9091 in the services' own network.
func (c *compose) env(broker string) []string {
	return []string{
		"PATH=" + c.bin + string(os.PathListSeparator) + os.Getenv("PATH"),
		"COMPOSE_AT=" + c.at, "COMPOSE_BIN=" + c.bin, "COMPOSE_BROKER=" + broker,
	}
}
