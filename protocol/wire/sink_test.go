package wire

import (
	"bytes"
	"net"
)

// sinkConn keeps what is written to it.
type sinkConn struct {
	net.Conn
	bytes.Buffer
	writes int
}

func (s *sinkConn) Write(p []byte) (int, error) {
	s.writes++
	return s.Buffer.Write(p)
}

func (s *sinkConn) Read(p []byte) (int, error) { return s.Buffer.Read(p) }
