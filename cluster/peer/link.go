package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// exchange is a request that was sent, and its answer.
type exchange struct {
	number   int32 // correlation id
	link     *link // on which it was sent
	tagged   bool  // the answer's header ends in tagged fields
	deadline time.Time

	done chan struct{} // closed when the rest is valid
	resp kmsg.Response
	err  error
}

// link is one connection. It ends with the first error.
type link struct {
	conn  net.Conn
	addr  string
	ended func() // called for each exchange that has ended
	in    frames // of who reads

	mu    sync.Mutex
	queue []*exchange // in the order in which they were sent; bounded by the client's slots
	err   error       // why the connection has ended
}

func newLink(conn net.Conn, addr string, ended func()) *link {
	return &link{conn: conn, addr: addr, ended: ended}
}

func (l *link) usable() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err == nil
}

// send lines an exchange up and writes its frame. One call at a time. An error means that
// the exchange was not lined up; one that was ends by itself.
func (l *link) send(e *exchange, frame []byte, deadline time.Time) error {
	e.deadline = deadline
	if err := l.push(e); err != nil {
		return notSent(err)
	}
	_ = l.conn.SetWriteDeadline(deadline)
	if _, err := l.conn.Write(frame); err != nil {
		l.fail(l.cause("send", err))
	}
	return nil
}

func (l *link) push(e *exchange) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	l.queue = append(l.queue, e)
	if len(l.queue) == 1 {
		_ = l.conn.SetReadDeadline(e.deadline)
	}
	return nil
}

// pop takes the oldest exchange off; nil if nothing was asked.
func (l *link) pop() *exchange {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		return nil
	}
	e := l.queue[0]
	l.queue = l.queue[1:]
	next := time.Time{} // silence is fine while nothing is asked
	if len(l.queue) > 0 {
		next = l.queue[0].deadline
	}
	_ = l.conn.SetReadDeadline(next)
	return e
}

// fail ends the connection and all exchanges on it. The first reason counts.
func (l *link) fail(err error) {
	l.mu.Lock()
	if l.err == nil {
		l.err = err
	}
	err = l.err
	open := l.queue
	l.queue = nil
	l.mu.Unlock()
	_ = l.conn.Close()
	for _, e := range open {
		l.end(e, err)
	}
}

func (l *link) end(e *exchange, err error) {
	if e.err = err; err != nil {
		e.resp = nil
	}
	close(e.done)
	l.ended()
}

// await takes the answer to the only exchange, or ends the connection with ctx.
func (l *link) await(ctx context.Context) {
	defer context.AfterFunc(ctx, func() { l.fail(context.Cause(ctx)) })()
	if err := l.readOne(); err != nil {
		l.fail(l.cause("read", err))
	}
}

// read takes answers until the connection ends, and tells why it did.
func (l *link) read() error {
	for {
		if err := l.readOne(); err != nil {
			l.fail(l.cause("read", err))
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.err
		}
	}
}

func (l *link) readOne() error {
	frame, err := l.in.read(l.conn)
	if err != nil {
		return err
	}
	e := l.pop()
	if e == nil {
		return fmt.Errorf("%w: nothing was asked", ErrMalformed)
	}
	if err = e.decode(frame); err != nil {
		l.fail(l.cause("read", err)) // before the caller knows: its next request goes elsewhere
	}
	l.end(e, err)
	return err
}

// decode reads the answer, which aliases the frame.
func (e *exchange) decode(frame []byte) error {
	if number := int32(binary.BigEndian.Uint32(frame)); number != e.number {
		return fmt.Errorf("%w: correlation id %d, want %d", ErrMalformed, number, e.number)
	}
	body := frame[4:]
	if e.tagged {
		var err error
		if body, err = skipTags(body); err != nil {
			return err
		}
	}
	if err := e.resp.ReadFrom(body); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

// skipTags skips the tagged fields of a header (KIP-482).
func skipTags(b []byte) ([]byte, error) {
	count, b, err := uvarint(b)
	for ; err == nil && count > 0; count-- {
		var size uint64
		if _, b, err = uvarint(b); err != nil {
			break
		}
		if size, b, err = uvarint(b); err == nil && size > uint64(len(b)) {
			err = fmt.Errorf("%w: tagged field of %d bytes", ErrMalformed, size)
		}
		if err == nil {
			b = b[size:]
		}
	}
	return b, err
}

func uvarint(b []byte) (uint64, []byte, error) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, fmt.Errorf("%w: header", ErrMalformed)
	}
	return v, b[n:], nil
}

// cause gives an error of the connection its meaning.
func (l *link) cause(doing string, err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("%s %s: %w", doing, l.addr, ErrTimeout)
	}
	return fmt.Errorf("%s %s: %w", doing, l.addr, err)
}
