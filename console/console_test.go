package console

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, http.NoBody))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(body)
}

func TestPages(t *testing.T) {
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "klamm_test_total", Help: "A counter."})
	registry.MustRegister(counter)
	counter.Inc()
	waiting := errors.New("opening logs, 3 of 7")
	reason := waiting
	h := Handler(Options{Metrics: registry, Ready: func() error { return reason }, Logger: slog.New(slog.DiscardHandler)})

	if code, body := get(t, h, "/live"); code != 200 || body != "live\n" {
		t.Errorf("/live: %d %q", code, body)
	}
	if code, body := get(t, h, "/ready"); code != 503 || !strings.Contains(body, waiting.Error()) {
		t.Errorf("/ready while waiting: %d %q", code, body)
	}
	reason = nil
	if code, body := get(t, h, "/ready"); code != 200 || body != "ready\n" {
		t.Errorf("/ready: %d %q", code, body)
	}
	if code, body := get(t, h, "/metrics"); code != 200 || !strings.Contains(body, "klamm_test_total 1") {
		t.Errorf("/metrics: %d %q", code, body)
	}
	if code, body := get(t, h, "/"); code != 200 || body != "/live /ready /metrics /metadata/backup\n" {
		t.Errorf("/: %d %q", code, body)
	}
	if code, _ := get(t, h, "/else"); code != 404 {
		t.Errorf("/else: %d", code)
	}
}

func TestBackup(t *testing.T) {
	refusal, broken := errors.New("no active controller"), errors.New("broken")
	begun, goOn := make(chan struct{}), make(chan struct{})
	h := Handler(Options{Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Backup: func(_ context.Context, unconfirmed bool) (func(io.Writer) error, error) {
		if !unconfirmed {
			return nil, refusal
		}
		return func(w io.Writer) error {
			begun <- struct{}{}
			<-goOn
			_, err := io.WriteString(w, "metadata")
			return errors.Join(err, broken)
		}, nil
	}})
	if code, body := get(t, h, "/metadata/backup"); code != 503 || body != "no active controller\n" {
		t.Errorf("refused: %d %q", code, body)
	}
	done := make(chan any, 1)
	write := func() {
		defer func() { done <- recover() }()
		get(t, h, "/metadata/backup?unconfirmed")
	}
	go write()
	<-begun
	if code, body := get(t, h, "/metadata/backup?unconfirmed"); code != 503 || !strings.Contains(body, "another backup") {
		t.Errorf("a second one: %d %q", code, body)
	}
	close(goOn)
	if err, _ := (<-done).(error); !errors.Is(err, http.ErrAbortHandler) {
		t.Errorf("one that breaks off ends with %v", err)
	}
	broken = nil
	go write()
	<-begun
	if p := <-done; p != nil {
		t.Errorf("one that is whole ends with %v", p)
	}
}
