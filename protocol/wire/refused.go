package wire

import (
	"errors"
	"net"
	"slices"
	"time"
)

// maxRefused bounds the connections that are refused and not closed yet; those beyond it
// are closed at once.
const maxRefused = 1000

// refusedConn is a connection that is not served, and closed later.
type refusedConn struct {
	net.Conn
	closeAt time.Time
}

// refuseConn closes a connection that is not admitted: now, or later if its address opens
// them too fast.
func (s *Server) refuseConn(nc net.Conn, why error) {
	var fast *tooFast
	if !errors.As(why, &fast) || !s.keepRefused(refusedConn{nc, time.Now().Add(fast.closeAfter)}) {
		_ = nc.Close()
	}
}

func (s *Server) keepRefused(r refusedConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.refused) >= maxRefused {
		return false
	}
	s.refused = append(s.refused, r)
	return true
}

// closeRefused closes those whose time has come; the zero time is everybody's.
func (s *Server) closeRefused(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = slices.DeleteFunc(s.refused, func(r refusedConn) bool {
		due := now.IsZero() || !r.closeAt.After(now)
		if due {
			_ = r.Close()
		}
		return due
	})
}
