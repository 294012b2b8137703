//go:build unix

package wire

import (
	"errors"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func setBuffers(raw syscall.RawConn, o ListenOptions) error {
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = errors.Join(
			setSize(fd, unix.SO_SNDBUF, o.SendBufferBytes),
			setSize(fd, unix.SO_RCVBUF, o.ReceiveBufferBytes))
	})
	return errors.Join(err, failed)
}

func setSize(fd uintptr, option, size int) error {
	if size <= 0 {
		return nil
	}
	return os.NewSyscallError("setsockopt", unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, option, size))
}

// setBacklog listens again on the same socket, which changes its backlog.
func setBacklog(ln net.Listener, backlog int) error {
	tcp, ok := ln.(*net.TCPListener)
	if backlog <= 0 || !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = os.NewSyscallError("listen", unix.Listen(int(fd), backlog)) })
	return errors.Join(err, failed)
}
