package wire

import "time"

// mute has the next request of the connection wait, from now on. It is called before the
// answer leaves that tells the client so; a mute that lasts longer stays.
func (c *conn) mute(d time.Duration) {
	until := c.watch.now() + int64(d)
	for last := c.muted.at.Load(); until > last && !c.muted.at.CompareAndSwap(last, until); {
		last = c.muted.at.Load()
	}
}

func (c *conn) isMuted() bool { return c.muted.at.Load() > c.watch.now() }

// awaitUnmuted waits until a request of the connection may be worked on. What was answered
// leaves before. There is a timer only for a client that sends while it is muted; one that
// honours its throttle time is waited for as any other. A mute ends with the connection:
// when the server stops, or after Limits.MaxIdle.
func (c *conn) awaitUnmuted() error {
	for c.muted.at.Load() != 0 {
		left := time.Duration(c.muted.at.Load() - c.watch.now())
		if left <= 0 {
			return nil
		}
		if err := c.flush(); err != nil {
			return err
		}
		c.in.shrinkOver()
		c.watch.frame.clear() // it is not the client who makes the frame wait
		c.watch.idle.set(c.watch.now())
		err := c.sleep(left)
		c.watch.idle.clear()
		c.in.lastRead = time.Now() // what waited here counts as received now
		if err != nil {
			return err
		}
	}
	return nil
}

// awaitUnmutedWith waits with a request that was read already. Its memory is given up, with
// the connection, if others wait for it.
func (c *conn) awaitUnmutedWith(r *Request) error {
	if r.frame.reserved > 0 {
		c.watch.holds.set(c.watch.now())
		defer c.watch.holds.clear()
	}
	return c.awaitUnmuted()
}

func (c *conn) sleep(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.server.accepting.Done():
		return errDraining
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// numMuted counts the connections that are muted now.
func (s *Server) numMuted() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.isMuted() {
			n++
		}
	}
	return n
}
