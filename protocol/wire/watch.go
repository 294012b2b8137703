package wire

import (
	"io"
	"sync/atomic"
	"time"
)

// watch is what a connection waits for and since when. The connection stores stamps, the
// server's sweeper reads them: no timer and no deadline is set per request.
type watch struct {
	epoch time.Time
	idle  stamp // nothing of a frame is there; since the last request ended
	frame stamp // a frame is cut short; since its last byte
	holds stamp // a frame is cut short, or its client muted, and it holds memory of the budget; since then
	write stamp // the client has not taken what is being written; since the last progress
}

// stamp is a time in nanoseconds since the server's start, 0 for none.
type stamp struct{ at atomic.Int64 }

func (s *stamp) set(now int64) { s.at.Store(now) }
func (s *stamp) clear()        { s.at.Store(0) }

// passed reports whether more than d have gone by since the stamp.
func (s *stamp) passed(now int64, d time.Duration) bool {
	at := s.at.Load()
	return at != 0 && d > 0 && now-at > int64(d)
}

// now is never 0, which stands for no stamp.
func (w *watch) now() int64 { return int64(time.Since(w.epoch)) + 1 }

const (
	minSweep   = 10 * time.Millisecond
	maxSweep   = time.Second
	trimPeriod = 30 * time.Second
	// slotPatience is how long a request may hold one of Limits.QueuedRequests. A
	// handler that waits longer without Request.Park is taken to wait for others, which
	// may need the slot to go on.
	slotPatience = time.Second
)

// sweep enforces what takes time, until the server has stopped.
func (s *Server) sweep() {
	ticker := time.NewTicker(s.limits.sweepPeriod())
	defer ticker.Stop()
	trimmed := time.Now()
	var conns []*conn
	for {
		select {
		case now := <-ticker.C:
			conns = s.sweepOnce(conns)
			if now.Sub(trimmed) >= trimPeriod {
				trimmed = now
				s.buffers.Trim()
			}
		case <-s.ctx.Done():
			return
		}
	}
}

// sweepPeriod is a quarter of the shortest limit.
func (l Limits) sweepPeriod() time.Duration {
	shortest := min(l.FrameSilence, l.WriteStall, l.GonePatience, slotPatience)
	if l.MaxIdle > 0 {
		shortest = min(shortest, l.MaxIdle)
	}
	return min(max(shortest/4, minSweep), maxSweep)
}

// sweepOnce looks at every connection; scratch is reused for the list of them.
func (s *Server) sweepOnce(scratch []*conn) []*conn {
	now := int64(time.Since(s.epoch)) + 1
	// Asked once for all connections: as soon as one gives way somebody gets through, and
	// the budget would not look starved to the next one, although a frame may need the
	// memory of both.
	starved := map[*budget]bool{s.budget: s.budget.starved(), s.brokerBudget: s.brokerBudget.starved()}
	s.closeRefused(time.Now())
	scratch = s.appendConns(scratch[:0])
	for _, c := range scratch {
		c.checkLimits(now, s.limits, starved[c.in.budget])
	}
	clear(scratch)
	return scratch
}

// checkLimits ends a connection that has waited too long for its client.
func (c *conn) checkLimits(now int64, l Limits, starved bool) {
	switch {
	case c.watch.write.passed(now, l.WriteStall):
		c.fail(errStalled)
	case c.watch.frame.passed(now, l.FrameSilence):
		c.fail(errHalfFrame)
	case c.watch.holds.passed(now, l.MemoryPatience) && starved:
		c.fail(errSlowFrame)
	case c.watch.idle.passed(now, l.MaxIdle) && c.lane.pending() == 0:
		c.fail(errIdle)
	case c.since.passed(now, l.GonePatience) && peerGone(c.net):
		c.fail(io.EOF)
	case c.since.passed(now, slotPatience):
		if r := c.current.Load(); r != nil {
			r.park()
		}
	}
}

// evictIdlest closes the connection that is idle for longest, not counting those of the
// inter-broker listener.
func (s *Server) evictIdlest() {
	var idlest *conn
	oldest := int64(0)
	for _, c := range s.appendConns(nil) {
		at := c.watch.idle.at.Load()
		if c.info.Listener.InterBroker || at == 0 {
			continue
		}
		if idlest == nil || at < oldest {
			idlest, oldest = c, at
		}
	}
	if idlest != nil {
		idlest.fail(errEvicted)
	}
}
