package wire

import "net"

// readableWaiter is a connection that can tell when it has something to read.
type readableWaiter interface {
	// WaitReadable returns nil when Read would not block, an error included that Read
	// then returns.
	WaitReadable() error
}

// newFirstReader picks the best way to wait on a connection without a buffer.
func newFirstReader(conn net.Conn) firstReader {
	if r := rawFirstReader(conn); r != nil {
		return r
	}
	if w, ok := conn.(readableWaiter); ok {
		return &waitingReader{conn: conn, waiter: w}
	}
	return &tinyReader{conn: conn}
}

// waitingReader is for connections that say when they are readable.
type waitingReader struct {
	conn   net.Conn
	waiter readableWaiter
}

func (w *waitingReader) readsAhead() bool { return false }

func (w *waitingReader) read(pool *Buffers, want int) (*buffer, int, error) {
	if err := w.waiter.WaitReadable(); err != nil {
		return nil, 0, err
	}
	buf := pool.get(sizePrefix + want)
	n, err := w.conn.Read(buf.b[sizePrefix : sizePrefix+want])
	if n == 0 && err != nil {
		pool.put(buf)
		return nil, 0, err
	}
	return buf, n, nil
}

// tinyReader is for everything else, TLS above all: it waits with a few bytes of its own.
// What a TLS record holds beyond them costs no further system call.
type tinyReader struct {
	conn net.Conn
	tiny [512]byte
}

func (t *tinyReader) readsAhead() bool { return true }

func (t *tinyReader) read(pool *Buffers, _ int) (*buffer, int, error) {
	n, err := t.conn.Read(t.tiny[:])
	if n == 0 && err != nil {
		return nil, 0, err
	}
	buf := pool.get(sizePrefix + n)
	return buf, copy(buf.b[sizePrefix:], t.tiny[:n]), nil
}
