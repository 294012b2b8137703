package broker

import (
	"log/slog"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/configs"
)

// dynamicConfig is the configuration of this broker as it is now: what it was started with,
// under what metadata sets on all brokers and on this one. It is the first publisher of
// metadata, so that whoever comes after it reads the configuration of the same image.
type dynamicConfig struct {
	static  *configs.Broker
	own     metadata.Resource
	log     *slog.Logger
	current atomic.Pointer[configs.Broker]

	mu      sync.Mutex
	changed []func(*configs.Broker)
}

// allBrokers is the resource that holds what is set on every broker.
func allBrokers() metadata.Resource { return metadata.Resource{Type: metadata.BrokerResource} }

func newDynamicConfig(cfg *configs.Broker, log *slog.Logger) *dynamicConfig {
	d := &dynamicConfig{static: cfg, log: log, own: metadata.Resource{Type: metadata.BrokerResource, Name: strconv.Itoa(int(cfg.NodeID))}}
	d.current.Store(cfg)
	return d
}

func (d *dynamicConfig) get() *configs.Broker { return d.current.Load() }

// onChange calls fn with the configuration now and after each change, one call at a time.
func (d *dynamicConfig) onChange(fn func(*configs.Broker)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed = append(d.changed, fn)
	fn(d.get())
}

// Name is metalog.Publisher.
func (*dynamicConfig) Name() string { return "dynamic configuration" }

// OnMetadataUpdate is metalog.Publisher.
func (d *dynamicConfig) OnMetadataUpdate(delta *metadata.Delta, next *metadata.Image) {
	concerned := false
	for change := range delta.Configs() {
		concerned = concerned || change.Resource == allBrokers() || change.Resource == d.own
	}
	if !concerned {
		return
	}
	set := configs.Dynamic{All: next.Config(allBrokers()), Own: next.Config(d.own)}
	cfg, problems := d.get().With(set)
	if len(problems) > 0 {
		d.log.Error("what was set on brokers does not fit this one's configuration, and is not used", "err", problems)
		return
	}
	d.announce(set)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.current.Store(cfg)
	for _, fn := range d.changed {
		fn(cfg)
	}
}

const minInSyncKey = "min.insync.replicas"

func (d *dynamicConfig) announce(set configs.Dynamic) {
	was, _ := configs.ParseTopic(nil, d.static)
	if now := set.All[minInSyncKey]; d.static.IsSet(minInSyncKey) && now != strconv.Itoa(int(was.MinInSyncCount)) {
		d.log.Warn("min.insync.replicas of the configuration is not used: the cluster has its own, which kafka-configs can change for all brokers",
			"configured", was.MinInSyncCount, "used", now)
	}
	all := maps.Clone(set.All)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, set.Own)
	d.log.Info("the configuration that is set while brokers run has changed", "keys", len(all))
	if names := configs.IgnoredDynamic(all); len(names) > 0 {
		d.log.Warn("keys that are set on brokers have no effect here", "keys", names)
	}
}
