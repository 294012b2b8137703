package quota

import (
	"cmp"
	"math"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
)

// Options are the windows of a broker's meters. Zero values are Kafka's defaults.
type Options struct {
	Samples           int           // quota.window.num, 11
	Window            time.Duration // quota.window.size.seconds, 1 s
	ControllerSamples int           // controller.quota.window.num, 11
	ControllerWindow  time.Duration // controller.quota.window.size.seconds, 1 s
	Epoch             time.Time     // no time that comes is before it; zero: now
}

// Quotas are all meters of one broker. They follow metadata: it is a metalog.Publisher,
// whose limits count before requests can see them.
type Quotas struct {
	Produce   *Manager // bytes of requests
	Fetch     *Manager // bytes of answers
	Request   *Manager // percent of a second of one thread
	Mutations *Manager // partitions made and deleted
	// Connections are those that begin.
	Connections *Connections
}

// New makes meters without a quota.
func New(o Options) *Quotas {
	clients, controller := newWindow(o.Samples, o.Window), newWindow(o.ControllerSamples, o.ControllerWindow)
	if o.Epoch.IsZero() {
		o.Epoch = time.Now()
	}
	c := clock{o.Epoch}
	return &Quotas{
		Produce:     newManager(ProducerByteRate, clients, 0, c),
		Fetch:       newManager(ConsumerByteRate, clients, 0, c),
		Request:     newManager(RequestPercentage, clients, clients.length, c),
		Mutations:   newManager(ControllerMutationRate, controller, 0, c),
		Connections: newConnections(clients, c),
	}
}

// newWindow is one whose samples together are a time at all.
func newWindow(samples int, length time.Duration) window {
	w := window{cmp.Or(samples, 11), cmp.Or(length, time.Second)}
	w.length = min(w.length, math.MaxInt64/time.Duration(w.samples))
	return w
}

// Name is metalog.Publisher.
func (*Quotas) Name() string { return "client quotas" }

// OnMetadataUpdate is metalog.Publisher.
func (q *Quotas) OnMetadataUpdate(delta *metadata.Delta, _ *metadata.Image) {
	for change := range delta.Quotas() {
		if change.Entity.IP.Kind != metadata.QuotaNotGiven {
			q.Connections.set(change.Entity.IP, change.New)
			continue
		}
		for _, m := range q.managers() {
			m.set(change.Entity, change.New)
		}
	}
}

func (q *Quotas) managers() [4]*Manager {
	return [...]*Manager{q.Produce, q.Fetch, q.Request, q.Mutations}
}
