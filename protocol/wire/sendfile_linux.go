package wire

import (
	"errors"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// sendfileConn returns the descriptor of a plain TCP connection, nil for anything else.
func sendfileConn(conn net.Conn) syscall.RawConn {
	sc, ok := conn.(syscall.Conn)
	if !ok || conn.LocalAddr() == nil || conn.LocalAddr().Network() != "tcp" {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// writeMore writes p and tells the kernel that more follows at once (MSG_MORE), which
// costs the receiver one wake less than a segment of its own.
func writeMore(o *output, p []byte) error { return writeRaw(o, p, unix.MSG_MORE) }

// writeLast writes p, after which nothing follows at once.
func writeLast(o *output, p []byte) error { return writeRaw(o, p, 0) }

// writeRaw notes progress with each piece that the socket takes.
func writeRaw(o *output, p []byte, flags int) error {
	var failed error
	o.progress()
	err := o.raw.Write(func(fd uintptr) bool {
		for len(p) > 0 {
			n, err := unix.SendmsgN(int(fd), p, nil, nil, flags|unix.MSG_NOSIGNAL)
			if n > 0 {
				p = p[n:]
				o.progress()
			}
			if done, again := retry(err); again {
				continue
			} else if !done {
				return false
			}
			if err != nil {
				failed = os.NewSyscallError("sendmsg", err)
				return true
			}
		}
		return true
	})
	return errors.Join(err, failed)
}

// retry sorts an error of a call on a non-blocking socket: again = call once more now,
// not done = wait until the socket is writable.
func retry(err error) (done, again bool) {
	switch {
	case errors.Is(err, unix.EINTR):
		return false, true
	case errors.Is(err, unix.EAGAIN):
		return false, false
	}
	return true, false
}

// sendFile sends n bytes of file from pos on with sendfile(2), at an explicit position,
// so that connections share the file.
func sendFile(o *output, file *os.File, pos int64, n int) error {
	in, err := file.SyscallConn()
	if err != nil {
		return err
	}
	s := &fileSender{o: o, in: in, pos: pos, left: n}
	s.withFile = s.sendFrom
	err = o.raw.Write(s.send)
	return errors.Join(err, s.err)
}

// fileSender is one transfer; it survives the waits for a slow reader.
type fileSender struct {
	o        *output
	in       syscall.RawConn
	withFile func(in uintptr) // made once per transfer
	pos      int64
	left     int

	out  int
	done bool
	err  error
}

// send sends until the socket is full (false), or the transfer is over. The file's
// descriptor is held only for the call; the wait for the socket is outside of it.
func (s *fileSender) send(out uintptr) bool {
	s.out, s.done = int(out), false
	if err := s.in.Control(s.withFile); err != nil { // the file is closed
		s.err = err
		return true
	}
	return s.done
}

func (s *fileSender) sendFrom(in uintptr) { s.done = s.sendOn(s.out, int(in)) }

func (s *fileSender) sendOn(out, in int) bool {
	for s.left > 0 {
		n, err := unix.Sendfile(out, in, &s.pos, min(s.left, pieceSize))
		if n > 0 { // counts also when an error comes with it
			s.left -= n
			s.o.progress()
		}
		done, again := retry(err)
		switch {
		case again:
		case !done:
			return false
		case err != nil:
			s.err = os.NewSyscallError("sendfile", err)
			return true
		case n == 0: // the file ends before the region
			s.err = errRegionShort
			return true
		}
	}
	return true
}
