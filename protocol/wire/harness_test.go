package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/klamm-mq/klamm/protocol/wire/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a server on a network in memory. It belongs to one bubble, or to none.
type rig struct {
	t      testing.TB
	net    *memnet.Network
	server *Server
	log    *logLines
	served sync.WaitGroup
}

// newRig starts a server that listens on "broker-1:9092". It is stopped at the end of
// the test, which fails if that takes long.
func newRig(t testing.TB, o Options) *rig {
	t.Helper()
	r := &rig{t: t, net: memnet.New(), log: new(logLines)}
	o.Logger = slog.New(r.log)
	r.server = NewServer(o)
	r.listen("broker-1:9092", ListenerInfo{Name: "PLAINTEXT"})
	t.Cleanup(r.stop)
	return r
}

func (r *rig) listen(address string, info ListenerInfo) {
	r.t.Helper()
	ln, err := r.net.Listen(address)
	if err != nil {
		r.t.Fatal(err)
	}
	r.serve(ln, info)
}

func (r *rig) serve(ln net.Listener, info ListenerInfo) {
	r.served.Go(func() {
		if err := r.server.Serve(ln, info); !errors.Is(err, ErrServerClosed) {
			r.t.Errorf("serve: %v", err)
		}
	})
}

func (r *rig) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := r.server.Shutdown(ctx); err != nil {
		r.t.Errorf("shutdown: %v", err)
	}
	r.served.Wait()
}

// dial connects a client from a host of its own.
func (r *rig) dial() *client { return r.dialFrom("client", "broker-1:9092") }

func (r *rig) dialFrom(host, address string) *client {
	r.t.Helper()
	conn, err := r.net.Host(host).Dial("tcp", address)
	if err != nil {
		r.t.Fatal(err)
	}
	return newClient(r.t, conn)
}

// client reads everything that comes, in the background.
type client struct {
	t    testing.TB
	conn net.Conn
	done chan struct{} // closed at the end of the stream

	mu      sync.Mutex
	answers []answer
	err     error
}

// answer is one frame without its size.
type answer struct {
	correlation int32
	body        string // what follows the correlation id
}

func (a answer) String() string {
	if len(a.body) > 60 {
		return fmt.Sprintf("%d:(%d bytes)", a.correlation, len(a.body))
	}
	return fmt.Sprintf("%d:%s", a.correlation, strings.ReplaceAll(a.body, "\x00", `\0`))
}

func newClient(t testing.TB, conn net.Conn) *client {
	c := &client{t: t, conn: conn, done: make(chan struct{})}
	go c.readAll()
	t.Cleanup(func() {
		_ = conn.Close()
		<-c.done
	})
	return c
}

func (c *client) readAll() {
	defer close(c.done)
	for {
		a, err := readAnswer(c.conn)
		c.mu.Lock()
		if err != nil {
			c.err = err
			c.mu.Unlock()
			return
		}
		c.answers = append(c.answers, a)
		c.mu.Unlock()
	}
}

func readAnswer(r io.Reader) (answer, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return answer{}, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:])-4)
	if _, err := io.ReadFull(r, body); err != nil {
		return answer{}, err
	}
	return answer{int32(binary.BigEndian.Uint32(head[4:])), string(body)}, nil
}

// take returns the answers that came since the last take, once everything is at rest.
func (c *client) take() (answers []answer, end error) {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	answers, c.answers = c.answers, nil
	return answers, c.err
}

// expect is take with an opinion: the bodies, "EOF" last if the stream has ended.
func (c *client) expect(want ...string) {
	c.t.Helper()
	answers, end := c.take()
	var got []string
	for _, a := range answers {
		got = append(got, a.String())
	}
	if end != nil {
		got = append(got, end.Error())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		c.t.Errorf("client got %q, want %q", got, want)
	}
}

func (c *client) send(frames ...[]byte) {
	c.t.Helper()
	var all []byte
	for _, f := range frames {
		all = append(all, f...)
	}
	if _, err := c.conn.Write(all); err != nil {
		c.t.Fatalf("send: %v", err)
	}
}

// request encodes a request with header version 1 and the client id "test".
func request(key, version int16, correlation int32, body string) []byte {
	p := binary.BigEndian.AppendUint32(nil, 0)
	p = binary.BigEndian.AppendUint16(p, uint16(key))
	p = binary.BigEndian.AppendUint16(p, uint16(version))
	p = binary.BigEndian.AppendUint32(p, uint32(correlation))
	p = append(p, 0, 4, 't', 'e', 's', 't')
	return sized(append(p, body...))
}

// sized writes the size of a frame into its first four bytes.
func sized(p []byte) []byte {
	binary.BigEndian.PutUint32(p, uint32(len(p)-4))
	return p
}

// The requests of most tests: versions without tagged fields.
func metadata(correlation int32, body string) []byte { return request(3, 1, correlation, body) }
func produce(correlation int32, body string) []byte  { return request(0, 3, correlation, body) }
func fetch(correlation int32, body string) []byte    { return request(1, 4, correlation, body) }

// echo answers with the body.
var echo = HandlerFunc(func(_ context.Context, r *Request) Outcome {
	return Outcome{Response: respond(r, string(r.Body))}
})

func respond(r *Request, body string) *Response {
	resp := r.NewResponse()
	resp.Append(func(dst []byte) []byte { return append(dst, body...) })
	return resp
}

// logLines keeps what a server logs, one line per record.
type logLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *logLines) Enabled(context.Context, slog.Level) bool { return true }
func (l *logLines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logLines) WithGroup(string) slog.Handler            { return l }

func (l *logLines) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	return nil
}

// take returns the lines since the last take.
func (l *logLines) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	slices.Sort(lines) // connections end in any order
	return lines
}

// frameMemory is what frames hold of the server's budget.
func (r *rig) frameMemory() int64 { return r.server.budget.used.Load() }

// eventually is for tests on real sockets: it polls a condition that must come true.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("%s never came true", what)
		}
	}
}
