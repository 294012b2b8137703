package wire

import "time"

// Limits are the named bounds of a server. A zero field takes its default; the names in
// quotes are Kafka's configuration keys.
type Limits struct {
	// MaxRequestBytes is the largest frame, "socket.request.max.bytes".
	MaxRequestBytes int32
	// QueuedRequestBytes bounds the memory of all frames in flight above 16 KiB,
	// "queued.max.request.bytes". Kafka's -1 (no bound) takes the default: there is
	// always one. A frame above half of it counts as half, so two of MaxRequestBytes may
	// exceed it.
	QueuedRequestBytes int64
	// QueuedRequests bounds the requests that are being worked on at once, not counting
	// those that wait for something (Request.Park, Pending): "queued.max.requests".
	QueuedRequests int
	// MaxPending bounds the requests of one connection that have no answer yet.
	MaxPending int

	// MaxConnections bounds the connections of all listeners together, 0 for no bound:
	// "max.connections". At the bound a listener waits before it accepts the next one;
	// the inter-broker listener does not wait, and the connection that is idle for
	// longest on another listener is closed instead.
	MaxConnections int
	// MaxConnectionsPerIP bounds the connections from one address, 0 for no bound, -1
	// for none allowed: "max.connections.per.ip". One above it is closed at once.
	MaxConnectionsPerIP int
	// PerIP holds the addresses with a bound of their own,
	// "max.connections.per.ip.overrides" after names were resolved.
	PerIP map[string]int
	// PerListener bounds the connections of single listeners, by name; 0, or none, for no
	// bound: "listener.name.<name>.max.connections".
	PerListener map[string]int

	// MaxIdle is how long a connection may have nothing in flight before it is closed,
	// "connections.max.idle.ms"; negative for ever.
	MaxIdle time.Duration
	// FrameSilence is how long a client may send nothing in the middle of a frame.
	FrameSilence time.Duration
	// WriteStall is how long a client may take to accept at most 256 KiB of an answer.
	WriteStall time.Duration
	// MemoryPatience is how long the rest of a frame waits for memory while its
	// beginning holds some. When others have waited for memory so long, frames that are
	// not complete after it are given up, however they trickle in.
	MemoryPatience time.Duration
	// GonePatience is how long a request is worked on or waits before it is looked
	// whether its client is still there: a connection is not read from meanwhile, so
	// nothing else would tell. Linux only.
	GonePatience time.Duration
	// Linger is how long a connection that the server ends stays half open, so that
	// its last answers are not lost to a reset by unread requests.
	Linger time.Duration
}

// Defaults of Limits, where Kafka has one Kafka's.
const (
	DefaultMaxRequestBytes    = 100 << 20
	DefaultQueuedRequestBytes = 64 << 20
	DefaultQueuedRequests     = 500
	DefaultMaxPending         = 128
	DefaultMaxIdle            = 10 * time.Minute
	DefaultFrameSilence       = time.Minute
	DefaultWriteStall         = time.Minute
	DefaultMemoryPatience     = 10 * time.Second
	DefaultGonePatience       = 10 * time.Second
	DefaultLinger             = 500 * time.Millisecond
)

// withDefaults fills the zero fields.
func (l Limits) withDefaults() Limits {
	setDefault(&l.MaxRequestBytes, DefaultMaxRequestBytes)
	if l.QueuedRequestBytes <= 0 {
		l.QueuedRequestBytes = DefaultQueuedRequestBytes
	}
	setDefault(&l.QueuedRequests, DefaultQueuedRequests)
	setDefault(&l.MaxPending, DefaultMaxPending)
	setDefault(&l.MaxIdle, DefaultMaxIdle)
	setDefault(&l.FrameSilence, DefaultFrameSilence)
	setDefault(&l.WriteStall, DefaultWriteStall)
	setDefault(&l.MemoryPatience, DefaultMemoryPatience)
	setDefault(&l.GonePatience, DefaultGonePatience)
	setDefault(&l.Linger, DefaultLinger)
	return l
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
