package broker

import (
	"math"

	"github.com/klamm-mq/klamm/cluster/quota"
	"github.com/klamm-mq/klamm/configs"
)

// newQuotas makes the meters of client quotas; limits come with metadata.
func (b *Broker) newQuotas() *quota.Quotas {
	c := &b.cfg.Quotas
	q := quota.New(quota.Options{
		Samples: int(c.Samples), Window: c.Window,
		ControllerSamples: int(c.ControllerSamples), ControllerWindow: c.ControllerWindow,
	})
	b.env.Registry.MustRegister(quota.NewCollector(q))
	return q
}

// newThrottle makes the meter of throttled replicas on one side; its limit may change. Who asks
// for records keeps to a pace: who sends them, to many that ask, would only have them wait twice.
func (b *Broker) newThrottle(side string, paced bool, limit func(*configs.Broker) (int64, bool)) *quota.Replication {
	r := quota.NewReplication(quota.ReplicationOptions{
		Samples: int(b.cfg.Quotas.ReplicationSamples), Window: b.cfg.Quotas.ReplicationWindow, Paced: paced,
		Limit: func() (bytesPerSecond float64, set bool) {
			n, set := limit(b.dynamic.get())
			return float64(n), set
		},
	})
	r.Register(b.env.Registry, side)
	return r
}

// setConnectionRates takes how fast connections may come from the configuration.
func (b *Broker) setConnectionRates(cfg *configs.Broker) {
	listeners := map[string]float64{}
	for _, l := range cfg.BrokerListeners() {
		_, rate := cfg.ListenerLimits(l.Name)
		listeners[l.Name] = rateLimit(rate)
	}
	b.quotas.Connections.SetLimits(rateLimit(cfg.Network.MaxConnectionCreationRate), listeners)
}

// rateLimit is a limit in a second, where 2147483647 is Kafka's way to say none.
func rateLimit(limit int32) float64 {
	if limit == math.MaxInt32 {
		return math.Inf(1)
	}
	return float64(limit)
}
