package broker

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/klamm-mq/klamm/cluster/metalog"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/wire"
)

// Env is the world that a broker lives in. DefaultEnv is the real one; a test replaces
// what it wants to control. Nothing in it may be shared between brokers except FS,
// whose directories are locked, and Logger.
type Env struct {
	// Listen opens a listener on host:port.
	Listen func(ctx context.Context, address string, o wire.ListenOptions) (net.Listener, error)
	// Dial connects to another node's host:port.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// LookupHost gives the addresses that a name stands for; nil: each name is one address.
	LookupHost func(ctx context.Context, host string) (addresses []string, err error)

	FS vfs.FS
	// Stores says where Raft keeps its log: Badger, which uses the operating system's
	// files whatever FS is, or plain files on FS.
	Stores metalog.Stores
	// Reserve is the room that the metadata log keeps free for itself; zero: its default.
	Reserve metalog.Reserve
	// Entropy gives ids that must be unique in the world.
	Entropy io.Reader
	// OpenFiles is how many descriptors the process may have, 0 for any number.
	OpenFiles uint64
	// Memory is how many bytes the process may use, 0 if nobody knows.
	Memory uint64
	// Hostname is what a wildcard listener is registered under.
	Hostname func() (string, error)

	Logger   *slog.Logger
	Registry *prometheus.Registry
	Codecs   *batch.Codecs // pools of compressors
	Buffers  *wire.Buffers // pools of requests and answers
}

// DefaultEnv is the machine that the process runs on, with a logger that says nothing.
func DefaultEnv() Env {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	var dialer net.Dialer
	memory := memoryLimit(readSystemFile)
	return Env{
		Listen:     wire.Listen,
		Dial:       dialer.DialContext,
		LookupHost: net.DefaultResolver.LookupHost,
		FS:         vfs.OS(),
		Stores:     metalog.BadgerStores,
		Entropy:    crand.Reader,
		OpenFiles:  openFileLimit(),
		Memory:     memory,
		Hostname:   hostname,
		Logger:     slog.New(slog.DiscardHandler),
		Registry:   registry,
		Codecs:     batch.NewCodecs(batch.CodecsOptions{Registerer: registry}),
		Buffers:    wire.NewBuffers(bufferMemory(memory)),
	}
}

// readSystemFile is the content of a file by which Linux tells about itself.
func readSystemFile(name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		return "" // not on this system
	}
	return string(text)
}

// newRand makes a generator that is seeded from the environment's entropy.
func (e *Env) newRand() (*rand.Rand, error) {
	var seed [16]byte
	if _, err := io.ReadFull(e.Entropy, seed[:]); err != nil {
		return nil, err
	}
	return rand.New(rand.NewPCG(binary.LittleEndian.Uint64(seed[:8]), binary.LittleEndian.Uint64(seed[8:]))), nil
}
