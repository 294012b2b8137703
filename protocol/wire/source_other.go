//go:build !unix

package wire

import "net"

// rawFirstReader: no descriptors to wait on here.
func rawFirstReader(net.Conn) firstReader { return nil }
