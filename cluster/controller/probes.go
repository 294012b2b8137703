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
	// maxDials bounds one probe.
	maxDials = 3
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

// refusesTwice dials up to three times. A process that is being killed may still accept when
// its connections are closed already: its sockets are closed one after the other.
func (p *probes) refusesTwice(ctx context.Context, at metadata.Endpoint) bool {
	inARow := 0
	for dials := range maxDials {
		if dials > 0 && !pause(ctx, probePause) {
			return false
		}
		if !p.refuses(ctx, at) {
			inARow = 0
			continue
		}
		if inARow++; inARow == 2 {
			return true
		}
	}
	return false
}

// pause sleeps, false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *probes) refuses(ctx context.Context, at metadata.Endpoint) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return p.dial(ctx, at)
}
