package quota

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Replication measures the bytes of throttled replicas on one side, as a leader or as a
// follower, and tells whether they are above their limit (Kafka's ReplicationQuotaManager).
// It never makes anybody pause: whoever asks leaves a replica out for as long. Safe for
// concurrent use.
type Replication struct {
	limit  func() (bytesPerSecond float64, set bool)
	window window
	clock  clock
	paced  bool

	mu   sync.Mutex
	rate rate
	even time.Time // when everything that was recorded is through, at the pace of the limit
}

// paceCredit is how far a pace may catch up with what it has missed.
const paceCredit = 250 * time.Millisecond

// ReplicationOptions configure a Replication. Zero values are Kafka's defaults.
type ReplicationOptions struct {
	// Limit is what the rate must not exceed, asked each time; nil: there is none.
	Limit   func() (bytesPerSecond float64, set bool)
	Samples int           // replication.quota.window.num, 11
	Window  time.Duration // replication.quota.window.size.seconds, 1 s
	Epoch   time.Time     // no time that comes is before it; zero: now
	// Paced spreads what is let in over each window. Else all of a window's may come in its first
	// moment, as in Kafka.
	Paced bool
}

// NewReplication makes a meter that has measured nothing.
func NewReplication(o ReplicationOptions) *Replication {
	if o.Limit == nil {
		o.Limit = func() (float64, bool) { return 0, false }
	}
	if o.Epoch.IsZero() {
		o.Epoch = time.Now()
	}
	return &Replication{limit: o.Limit, window: newWindow(o.Samples, o.Window), clock: clock{o.Epoch}, paced: o.Paced}
}

// Record counts bytes, whatever the rate is.
func (r *Replication) Record(now time.Time, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rate.record(r.window, float64(bytes), r.clock.at(now))
	if limit, set := r.limit(); r.paced && set && limit > 0 {
		if due := now.Add(-paceCredit); r.even.Before(due) {
			r.even = due
		}
		takes := min(float64(bytes)/limit, 2*r.window.length.Seconds())
		r.even = r.even.Add(time.Duration(takes * float64(time.Second)))
		if most := now.Add(r.window.length); r.even.After(most) {
			r.even = most
		}
	}
}

// Exceeded is how long it takes at least until the rate is down at the limit, and its pace kept,
// if nothing more is recorded; 0 if it is not above it, or there is no limit. After a limit of 0 it is
// as long as all windows: then nothing is measured any more.
func (r *Replication) Exceeded(now time.Time) time.Duration {
	limit, set := r.limit()
	if !set {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	sum, over := r.rate.sinceOldest(r.window, r.clock.at(now))
	if sum/over.Seconds() <= limit {
		return max(0, r.even.Sub(now))
	}
	whole := time.Duration(r.window.samples) * r.window.length
	if limit <= 0 || sum/limit >= whole.Seconds() {
		return max(whole-over, time.Millisecond)
	}
	return max(time.Duration(sum/limit*float64(time.Second))-over, time.Millisecond)
}

// Limit is the rate that is allowed, if there is one.
func (r *Replication) Limit() (bytesPerSecond float64, set bool) { return r.limit() }

// Rate is what was recorded in a second.
func (r *Replication) Rate(now time.Time) (bytesPerSecond float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum, over := r.rate.sinceOldest(r.window, r.clock.at(now))
	return sum / over.Seconds()
}

// sinceOldest is the sum of the samples and the time since the oldest began, of which a whole
// window counts at least (Kafka's SimpleRate).
func (r *rate) sinceOldest(w window, now moment) (sum float64, over time.Duration) {
	sum, over = r.total(w, now)
	return sum, max(over, w.length)
}

// Register makes the byte rate a metric, under the name that Kafka's usual Prometheus
// exporter gives to kafka.server:type=LeaderReplication or FollowerReplication; side is the
// first half of that.
func (r *Replication) Register(reg prometheus.Registerer, side string) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kafka_server_" + side + "replication_byte_rate",
		Help: "Bytes per second of throttled replicas that this broker handles as a " + side + ".",
	}, func() float64 { return r.Rate(time.Now()) }))
}
