package conform

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// maxAnswer is the largest answer that is read, in bytes. Fetches of scenarios ask
	// for far less; a broker that sends more has lost its framing.
	maxAnswer = 128 << 20

	dialWait  = 30 * time.Second // a JVM may be collecting its garbage
	writeWait = 30 * time.Second
)

// Conn is one connection to a broker, as frames.
type Conn struct {
	c           net.Conn
	in          *bufio.Reader
	correlation int32
}

// errSilent is the end of a wait for an answer.
var errSilent = errors.New("no answer")

// errClosed is a connection that the broker ended, politely or by a reset.
var errClosed = errors.New("closed")

// Dialer opens connections, as net.Dialer.DialContext does.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

func dial(ctx context.Context, d Dialer, addr string) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialWait)
	defer cancel()
	c, err := d(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	return &Conn{c: c, in: bufio.NewReader(c)}, nil
}

// write sends bytes as they are.
func (c *Conn) write(b []byte) error {
	_ = c.c.SetWriteDeadline(time.Now().Add(writeWait))
	if _, err := c.c.Write(b); err != nil {
		return errClosed
	}
	return nil
}

// send sends a request in a frame of its own and returns its correlation id.
func (c *Conn) send(req kmsg.Request, clientID *string) (int32, error) {
	c.correlation++
	return c.correlation, c.write(Frame(Header(req.Key(), req.GetVersion(), c.correlation, clientID, req.IsFlexible()), req.AppendTo(nil)))
}

// receive reads one frame and returns what follows its size. It ends early with ctx, as
// if no answer had come.
func (c *Conn) receive(ctx context.Context, wait time.Duration) ([]byte, error) {
	defer c.deadline(ctx, wait)()
	var size [4]byte
	if _, err := io.ReadFull(c.in, size[:]); err != nil {
		return nil, readError(err)
	}
	n := int64(binary.BigEndian.Uint32(size[:]))
	if n > maxAnswer {
		return nil, fmt.Errorf("an answer of %d bytes", n)
	}
	var b bytes.Buffer // grows with what comes: the size may be nonsense
	if _, err := io.CopyN(&b, c.in, n); err != nil {
		return nil, fmt.Errorf("cut short: %v", readError(err)) //nolint:errorlint // which is another outcome than none at all
	}
	return b.Bytes(), nil
}

// waits reports whether there is something to read within d.
func (c *Conn) waits(ctx context.Context, d time.Duration) bool {
	defer c.deadline(ctx, d)()
	_, err := c.in.Peek(1)
	return err == nil
}

// deadline bounds the reads that follow, by time and by ctx, until release is called.
func (c *Conn) deadline(ctx context.Context, wait time.Duration) (release func() bool) {
	_ = c.c.SetReadDeadline(time.Now().Add(wait))
	return context.AfterFunc(ctx, func() { _ = c.c.SetReadDeadline(time.Unix(1, 0)) })
}

func (c *Conn) close() { _ = c.c.Close() }

func readError(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return errSilent
	}
	return errClosed
}

// Header is a request header: version 2 if flexible, else 1.
func Header(key, version int16, correlation int32, clientID *string, flexible bool) []byte {
	b := kbin.AppendInt16(nil, key)
	b = kbin.AppendInt16(b, version)
	b = kbin.AppendInt32(b, correlation)
	b = kbin.AppendNullableString(b, clientID)
	if flexible {
		b = append(b, 0) // no tagged fields
	}
	return b
}

// Frame puts parts one after the other behind their size.
func Frame(parts ...[]byte) []byte {
	body := bytes.Join(parts, nil)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}
