//go:build unix

package wire

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// rawReader waits on a socket's descriptor. The runtime calls back when the socket is
// readable, and only then is a buffer taken.
type rawReader struct {
	raw  syscall.RawConn
	pool *Buffers
	want int
	fn   func(fd uintptr) bool // made once, so that a read allocates nothing

	buf *buffer
	n   int
	err error
}

// rawFirstReader returns nil if conn has no descriptor of its own.
func rawFirstReader(conn net.Conn) firstReader {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	r := &rawReader{raw: raw}
	r.fn = r.tryRead
	return r
}

func (r *rawReader) readsAhead() bool { return false }

func (r *rawReader) read(pool *Buffers, want int) (*buffer, int, error) {
	r.pool, r.want, r.buf, r.n, r.err = pool, want, nil, 0, nil
	if err := r.raw.Read(r.fn); err != nil {
		return nil, 0, err
	}
	if r.err != nil {
		return nil, 0, r.err
	}
	buf := r.buf
	r.buf = nil
	return buf, r.n, nil
}

// tryRead reads once; false asks the runtime to wait until the socket is readable.
func (r *rawReader) tryRead(fd uintptr) bool {
	buf := r.pool.get(sizePrefix + r.want)
	for {
		n, err := syscall.Read(int(fd), buf.b[sizePrefix:sizePrefix+r.want])
		switch {
		case n > 0:
			r.buf, r.n = buf, n
			return true
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			r.pool.put(buf)
			return false
		case err == nil:
			err = io.EOF
		default:
			err = os.NewSyscallError("read", err)
		}
		r.pool.put(buf)
		r.err = err
		return true
	}
}
