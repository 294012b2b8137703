package conform

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxAnswer is the largest answer that is read, in bytes.
const maxAnswer = 256 << 20

// Conn is one connection to a broker, as frames.
type Conn struct {
	c           net.Conn
	correlation int32
}

// errSilent is the end of a wait for an answer.
var errSilent = errors.New("no answer")

// errClosed is a connection that the broker ended.
var errClosed = errors.New("closed")

func dial(addr string) (*Conn, error) {
	c, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	return &Conn{c: c}, nil
}

// write sends bytes as they are.
func (c *Conn) write(b []byte) error {
	_ = c.c.SetWriteDeadline(time.Now().Add(30 * time.Second))
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

// receive reads one frame and returns what follows its size.
func (c *Conn) receive(wait time.Duration) ([]byte, error) {
	_ = c.c.SetReadDeadline(time.Now().Add(wait))
	var size [4]byte
	if _, err := io.ReadFull(c.c, size[:]); err != nil {
		return nil, readError(err)
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxAnswer {
		return nil, fmt.Errorf("an answer of %d bytes", n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(c.c, b); err != nil {
		return nil, fmt.Errorf("cut short: %w", readError(err))
	}
	return b, nil
}

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
	b := make([]byte, 4)
	for _, p := range parts {
		b = append(b, p...)
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// decode reads the answer to req from the bytes of a frame. A complaint is not nil if
// the bytes are not exactly one answer of that version.
func decode(req kmsg.Request, correlation int32, b []byte) (resp kmsg.Response, complaint error) {
	if len(b) < 4 {
		return nil, fmt.Errorf("a frame of %d bytes", len(b))
	}
	if got := int32(binary.BigEndian.Uint32(b)); got != correlation {
		return nil, fmt.Errorf("answer to request %d, want %d", got, correlation)
	}
	b = b[4:]
	apiVersions := req.Key() == int16(kmsg.ApiVersions)
	if req.IsFlexible() && !apiVersions {
		if len(b) == 0 || b[0] != 0 {
			return nil, errors.New("tagged fields in the header")
		}
		b = b[1:]
	}
	resp = req.ResponseKind()
	err := resp.ReadFrom(b)
	if err != nil && apiVersions { // an unknown version is answered in version 0 (KIP-511)
		resp.SetVersion(0)
		err = resp.ReadFrom(b)
	}
	if err != nil {
		return nil, fmt.Errorf("undecodable: %w", err)
	}
	if n := len(resp.AppendTo(nil)); n != len(b) {
		return resp, fmt.Errorf("%d bytes for an answer of %d", len(b), n)
	}
	return resp, nil
}
