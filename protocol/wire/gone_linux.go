package wire

import (
	"crypto/tls"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// States of a TCP socket as the kernel numbers them (include/net/tcp_states.h).
const (
	tcpClose     = 7
	tcpCloseWait = 8
)

// peerGone reports whether the other end has closed or reset the connection, without
// reading from it: what it sent before may still be there.
func peerGone(conn net.Conn) bool {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	gone := false
	_ = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		gone = err == nil && (info.State == tcpCloseWait || info.State == tcpClose)
	})
	return gone
}
