//go:build !linux

package wire

import (
	"net"
	"os"
	"syscall"
)

// sendfileConn: regions are copied through the stage here.
func sendfileConn(net.Conn) syscall.RawConn { return nil }

func writeMore(o *output, p []byte) error { return o.write(p) }

func writeLast(o *output, p []byte) error { return o.write(p) }

func sendFile(*output, *os.File, int64, int) error { panic("no sendfile here") }
