package controller

import (
	"context"
	"sync"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/peer"
)

// probes dials addresses of brokers that may be dead, one probe at a time per broker and
// purpose.
type probes struct {
	dial    func(context.Context, metadata.Endpoint) bool
	running map[probe]bool
	done    chan probeResult
	wg      sync.WaitGroup
}

// probe names what is probed, and for what: a newcomer's registration, or fencing.
type probe struct {
	broker   int32
	newcomer bool
}

type probeResult struct {
	probe
	epoch   int64     // of the broker that was probed, for fencing
	began   time.Time // of the probe
	request *request  // the newcomer's
	refused bool
}

func newProbes(dial func(context.Context, metadata.Endpoint) bool) *probes {
	return &probes{dial: dial, running: map[probe]bool{}, done: make(chan probeResult)}
}

// start probes an address in the background, false if such a probe is on its way.
func (p *probes) start(ctx context.Context, r probeResult, at metadata.Endpoint) bool {
	if p.running[r.probe] {
		return false
	}
	p.running[r.probe] = true
	p.wg.Go(func() {
		r.refused = peer.RefusesTwice(ctx, func(ctx context.Context) bool { return p.dial(ctx, at) })
		select {
		case p.done <- r:
		case <-ctx.Done():
		}
	})
	return true
}
