package brokertest

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/klamm-mq/klamm/broker"
	"github.com/klamm-mq/klamm/cluster/metalog"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/wire"
	"github.com/klamm-mq/klamm/protocol/wire/memnet"
)

// Machine is a computer in memory. Make it where it is used: in a bubble, inside it.
type Machine struct {
	Name   string
	Net    *memnet.Network
	FS     vfs.FS
	Logger *slog.Logger
	// Settings, each key=value, are those of every start.
	Settings []string
	// Tap is put around each connection that a broker on this machine dials; nil: nothing is.
	Tap func(address string, c net.Conn) net.Conn

	entropy io.Reader
}

// NewMachine is the machine "broker-1", whose disk is empty and never fails. Fields may
// be replaced before the first start.
func NewMachine(t testing.TB) *Machine {
	return &Machine{
		Name: "broker-1", Net: memnet.New(), FS: vfs.NewMem(), Logger: Logger(t, slog.LevelWarn),
		Settings: []string{"listeners=PLAINTEXT://broker-1:9092", "log.dirs=/data", "admin.listener="},
		entropy:  NewEntropy(1),
	}
}

// NewMachineOn is a further machine on a network.
func NewMachineOn(t testing.TB, network *memnet.Network, name string, entropy uint64) *Machine {
	return &Machine{
		Name: name, Net: network, FS: vfs.NewMem(), Logger: Logger(t, slog.LevelWarn).With("machine", name),
		Settings: []string{"listeners=PLAINTEXT://" + name + ":9092", "log.dirs=/data", "admin.listener="},
		entropy:  NewEntropy(entropy),
	}
}

// Seed makes all that is drawn on this machine, ids included, follow from a number.
func (m *Machine) Seed(seed uint64) { m.entropy = NewEntropy(seed) }

// Addr is the address of the listener that Settings have from the beginning.
func (m *Machine) Addr() string { return net.JoinHostPort(m.Name, "9092") }

// Dial connects from the host "client" to an address on the machine's network. It is
// what kgo.Dialer takes.
func (m *Machine) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return m.Net.Host("client").DialContext(ctx, network, address)
}

// Env is the world for one broker: pools and metrics are new each time.
func (m *Machine) Env() broker.Env {
	registry := prometheus.NewRegistry()
	host := m.Net.Host(m.Name)
	return broker.Env{
		Listen: func(_ context.Context, address string, _ wire.ListenOptions) (net.Listener, error) {
			return host.Listen("tcp", address)
		},
		Dial:     m.dialFrom(host),
		FS:       m.FS,
		Stores:   metalog.FileStores,
		Reserve:  smallReserve,
		Entropy:  m.entropy,
		Hostname: func() (string, error) { return m.Name, nil },
		Logger:   m.Logger,
		Registry: registry,
		Codecs:   batch.NewCodecs(batch.CodecsOptions{Registerer: registry}),
		Buffers:  wire.NewBuffers(0),
	}
}

func (m *Machine) dialFrom(host *memnet.Host) func(ctx context.Context, network, address string) (net.Conn, error) {
	if m.Tap == nil {
		return host.DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := host.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return m.Tap(address, c), nil
	}
}

// smallReserve is enough for plain files; a ballast that has to hold Badger's would be
// most of the memory of a machine.
var smallReserve = metalog.Reserve{KeepFree: 256 << 10, Floor: 64 << 10, Ballast: 64 << 10}

// Start starts a broker on the machine with further settings, and stops it when the
// test ends.
func (m *Machine) Start(t testing.TB, settings ...string) *broker.Broker {
	t.Helper()
	return start(t, Config(t, append(m.Settings, settings...)...), m.Env())
}

// TryStart is Start of a broker that may refuse. Whoever calls it stops what started.
func (m *Machine) TryStart(t testing.TB, settings ...string) (*broker.Broker, error) {
	t.Helper()
	return broker.Start(t.Context(), Config(t, append(m.Settings, settings...)...), m.Env())
}

// NewEntropy is an endless source of bytes that follow from a number.
func NewEntropy(seed uint64) io.Reader {
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	return &entropy{source: rand.NewChaCha8(key)}
}

type entropy struct {
	mu     sync.Mutex
	source *rand.ChaCha8
}

// Read is io.Reader, for several goroutines.
func (e *entropy) Read(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.source.Read(p)
}
