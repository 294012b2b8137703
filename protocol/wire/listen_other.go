//go:build !unix

package wire

import (
	"net"
	"syscall"
)

func setBuffers(syscall.RawConn, ListenOptions) error { return nil }

func setBacklog(net.Listener, int) error { return nil }
