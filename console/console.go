package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options say what to show.
type Options struct {
	Metrics prometheus.Gatherer
	// Ready returns nil when the broker accepts requests, else what it waits for.
	Ready func() error
	// Notices are faults that a ready broker serves with, one a line; nil: none are known.
	Notices func() []string
	// Backup gives what writes a backup of the metadata, confirmed by the active controller
	// unless unconfirmed is set. Its error says why there is none.
	Backup func(ctx context.Context, unconfirmed bool) (write func(io.Writer) error, err error)
	Logger *slog.Logger
}

// Limits of an HTTP request: nothing here is large or slow.
const (
	readTimeout    = 5 * time.Second
	writeTimeout   = 30 * time.Second
	maxHeaderBytes = 16 << 10
	maxScrapes     = 4 // collected at one time; more get 503
	maxBackups     = 1 // written at one time; more get 503
)

// Server answers HTTP requests until Shutdown.
type Server struct {
	http http.Server
	done chan struct{}
}

// Handler is the pages.
func Handler(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "live") })
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if err := o.Ready(); err != nil {
			http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
		if o.Notices == nil {
			return
		}
		for _, notice := range o.Notices() {
			fmt.Fprintln(w, notice)
		}
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "/live /ready /metrics /metadata/backup")
	})
	mux.Handle("GET /metadata/backup", backups(o))
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes}))
	return mux
}

// backups writes backups of the metadata. One that fails on the way breaks the connection off,
// and lacks its checksum.
func backups(o Options) http.HandlerFunc {
	turn := make(chan struct{}, maxBackups)
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		default:
			http.Error(w, "another backup is being written", http.StatusServiceUnavailable)
			return
		}
		write, err := o.Backup(r.Context(), r.URL.Query().Has("unconfirmed"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		if err := write(w); err != nil {
			o.Logger.Warn("backup of metadata failed", "err", err)
			panic(http.ErrAbortHandler)
		}
	}
}

// Start serves on l until Shutdown.
func Start(l net.Listener, o Options) *Server {
	s := &Server{
		http: http.Server{
			Handler:     Handler(o),
			ReadTimeout: readTimeout, WriteTimeout: writeTimeout, MaxHeaderBytes: maxHeaderBytes,
			ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
		},
		done: make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			o.Logger.Error("admin listener stopped", "err", err)
		}
	}()
	return s
}

// Shutdown lets requests under way finish until ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	<-s.done
	return err
}
