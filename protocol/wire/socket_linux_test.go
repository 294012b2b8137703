package wire

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// checkBuffers expects an accepted socket to have inherited the sizes; Linux doubles them.
func checkBuffers(t *testing.T, conn *net.TCPConn, send, receive int) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	option := func(level, name int) (v int) {
		_ = raw.Control(func(fd uintptr) { v, err = unix.GetsockoptInt(int(fd), level, name) })
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if got := option(unix.SOL_SOCKET, unix.SO_SNDBUF); got != 2*send {
		t.Errorf("send buffer %d", got)
	}
	if got := option(unix.SOL_SOCKET, unix.SO_RCVBUF); got != 2*receive {
		t.Errorf("receive buffer %d", got)
	}
	if option(unix.SOL_SOCKET, unix.SO_KEEPALIVE) == 0 || option(unix.IPPROTO_TCP, unix.TCP_NODELAY) == 0 {
		t.Error("keep-alive or no-delay is off")
	}
	if got := option(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE); got != 7200 {
		t.Errorf("keep-alive after %d s, not the system's time", got)
	}
}
