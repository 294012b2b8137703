package controller

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
)

// Core is what a Controller decides, without its goroutine, its queue and the log: the
// exact tier of the simulation steps it. It is the active controller from NewCore on, until
// nobody asks it any more. Not safe for concurrent use.
type Core struct {
	opts  Options
	state state
}

// NewCore makes the core of a controller that has just been elected, with the image of all
// that is committed. Of the options Log is not used.
func NewCore(now time.Time, o Options, image *metadata.Image) *Core {
	c := &Core{opts: o.withDefaults()}
	c.state.opts = &c.opts
	c.state.activate(now, image)
	return c
}

// Decision is what a request, or the passing of time, comes to.
type Decision struct {
	Records  []metadata.Record // to be committed, in this order
	Response kmsg.Response     // to be sent when they are, and all those before them; nil if nobody asked

	core      *Core
	committed func(metadata.Position)
}

// Committed says that the records, and all those before them, are committed.
func (d *Decision) Committed(at metadata.Position) {
	d.core.state.committed = at
	if d.committed != nil {
		d.committed(at)
	}
}

// Decide decides a request, as if what was decided before were committed already. refuses
// tells whether an address refuses connections.
func (c *Core) Decide(now time.Time, call Call, refuses func(metadata.Endpoint) bool) Decision {
	if call.Received.IsZero() {
		call.Received = now
	}
	if _, ok := call.Request.(*kmsg.BrokerRegistrationRequest); !ok {
		return c.take(c.state.decide(now, call))
	}
	d, probe := c.state.registerBroker(now, call, addressNotProbed)
	if probe != nil {
		known := addressSilent
		if refuses(*probe) {
			known = addressRefuses
		}
		d, _ = c.state.registerBroker(now, call, known)
	}
	return c.take(d)
}

// Tick decides what time alone causes; false if nothing is due any more.
func (c *Core) Tick(now time.Time) (Decision, bool) {
	d, more := c.state.tick(now)
	if !more {
		return Decision{}, false
	}
	return c.take(d), true
}

// Refused fences a broker whose address refuses connections, if that is wise (D9).
func (c *Core) Refused(broker int32, epoch int64, probed time.Time) (Decision, bool) {
	d, ok := c.state.fenceRefusing(broker, epoch, probed)
	if !ok {
		return Decision{}, false
	}
	return c.take(d), true
}

func (c *Core) take(d decision) Decision {
	c.state.take(d.records)
	return Decision{Records: d.records, Response: d.response, core: c, committed: d.committed}
}
