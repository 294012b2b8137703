package wire

import (
	"context"
	"net"
	"testing"
	"time"

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

// A client that leaves while its request waits, as a consumer does in a long fetch, leaves
// nothing behind. One that stays is waited for.
func TestWaitEndsWhenTheClientHasLeft(t *testing.T) {
	waiting, ended := make(chan struct{}), make(chan string, 3)
	r := newSocketRig(t, Options{
		Limits: Limits{GonePatience: 20 * time.Millisecond},
		Handler: HandlerFunc(func(ctx context.Context, r *Request) Outcome {
			if ctx.Err() == nil { // what was sent behind it may still be handled
				waiting <- struct{}{}
				<-ctx.Done()
				ended <- r.Conn.Remote.String()
			}
			return Outcome{Response: respond(r, "")}
		}),
	})
	stays, leaves := r.connect(), r.connect()
	for _, conn := range []net.Conn{stays, leaves} {
		mustWrite(t, conn, fetch(1, "a long one"))
		<-waiting
	}
	mustWrite(t, leaves, fetch(2, "another, which nobody reads"))
	_ = leaves.Close()
	if who := <-ended; who != leaves.LocalAddr().String() {
		t.Errorf("the wait of %s has ended, whose client is still there", who)
	}
	_ = stays.Close()
	<-ended
}
