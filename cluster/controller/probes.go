package controller

import (
	"context"
	"sync"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
)

const (
	// probeTimeout bounds one dial; an address that neither accepts nor refuses within it
	// counts as not refusing.
	probeTimeout = 500 * time.Millisecond
	// probePause separates the two refusals that it takes: a process that restarts its
	// listener refuses for a moment.
	probePause = 50 * time.Millisecond
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
		r.refused = p.refusesTwice(ctx, at)
		select {
		case p.done <- r:
		case <-ctx.Done():
		}
	})
	return true
}

func (p *probes) refusesTwice(ctx context.Context, at metadata.Endpoint) bool {
	if !p.refuses(ctx, at) {
		return false
	}
	pause := time.NewTimer(probePause)
	defer pause.Stop()
	select {
	case <-pause.C:
		return p.refuses(ctx, at)
	case <-ctx.Done():
		return false
	}
}

func (p *probes) refuses(ctx context.Context, at metadata.Endpoint) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return p.dial(ctx, at)
}
