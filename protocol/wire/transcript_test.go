package wire

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/klamm-mq/klamm/protocol/wire/memnet"
)

// TestTranscripts runs the stories in testdata: what clients send, what handlers are
// given in which order, and what clients get. Each file is one bubble. Its commands:
//
//	connect [as=name] [from=host]     the first client is "a"
//	send [as=name]                    one line per request or piece, sent in one write:
//	                                    produce|fetch|metadata|api-versions CORRELATION [body]
//	                                    hex BYTES | zeros COUNT
//	complete CORRELATION [none|close] [mute=DURATION]  one that is pending
//	unblock CORRELATION                a request whose body is "block"
//	advance DURATION                   time goes by
//	half-close, close, crash           the client's end; the client's host
//	shutdown DURATION                  of the server, with that patience
//
// A Produce is pending until completed, unless its body is "now", and so is another
// request whose body is "wait". "none" has no answer, "close" closes and "block" waits in
// the handler; "mute DURATION" mutes the connection, pending or not; all others are echoed. Each command prints what happened until everything was at rest.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			s := &story{t: t, clients: map[string]*client{}, pending: map[int32]*Pending{}, blocked: map[int32]chan struct{}{}}
			datadriven.RunTest(t, path, s.command)
		})
	})
}

type story struct {
	t       *testing.T
	rig     *rig
	clients map[string]*client
	order   []string // of the clients

	mu      sync.Mutex
	started []string
	pending map[int32]*Pending
	blocked map[int32]chan struct{}
	asked   map[int32]*Request
}

func (s *story) command(t *testing.T, d *datadriven.TestData) string {
	s.t = t
	name := "a"
	d.MaybeScanArgs(t, "as", &name)
	switch d.Cmd {
	case "server":
		s.rig = newRig(t, Options{Handler: HandlerFunc(s.handle), Limits: limitsOf(t, d)})
	case "connect":
		host := "client"
		d.MaybeScanArgs(t, "from", &host)
		s.clients[name] = s.rig.dialFrom(host, "broker-1:9092")
		s.order = append(s.order, name)
	case "send":
		s.clients[name].send(piecesOf(t, d.Input)...)
	case "complete":
		s.complete(d)
	case "unblock":
		close(s.blocked[correlationOf(t, d)])
	case "advance":
		time.Sleep(durationOf(t, d))
	case "half-close":
		_ = s.clients[name].conn.(*memnet.Conn).CloseWrite()
	case "close":
		_ = s.clients[name].conn.Close()
	case "crash":
		s.rig.net.Crash(s.clients[name].conn.LocalAddr().(memnet.Addr).Host)
	case "shutdown":
		s.shutdown(durationOf(t, d))
	default:
		t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	}
	return s.happened()
}

func limitsOf(t *testing.T, d *datadriven.TestData) Limits {
	var l Limits
	duration := func(key string, field *time.Duration) {
		var text string
		if d.MaybeScanArgs(t, key, &text) {
			*field, _ = time.ParseDuration(text)
		}
	}
	d.MaybeScanArgs(t, "max-request-bytes", &l.MaxRequestBytes)
	d.MaybeScanArgs(t, "max-pending", &l.MaxPending)
	d.MaybeScanArgs(t, "queued-requests", &l.QueuedRequests)
	d.MaybeScanArgs(t, "queued-request-bytes", &l.QueuedRequestBytes)
	d.MaybeScanArgs(t, "max-connections", &l.MaxConnections)
	d.MaybeScanArgs(t, "max-connections-per-ip", &l.MaxConnectionsPerIP)
	duration("max-idle", &l.MaxIdle)
	duration("frame-silence", &l.FrameSilence)
	duration("write-stall", &l.WriteStall)
	return l
}

// piecesOf encodes the lines of a send command.
func piecesOf(t *testing.T, input string) (pieces [][]byte) {
	for line := range strings.Lines(input) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch kind {
		case "hex":
			p, err := hex.DecodeString(strings.ReplaceAll(rest, " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			pieces = append(pieces, p)
		case "zeros":
			n, err := strconv.Atoi(rest)
			if err != nil {
				t.Fatal(err)
			}
			pieces = append(pieces, make([]byte, n))
		default:
			pieces = append(pieces, requestOf(t, kind, rest))
		}
	}
	return pieces
}

func requestOf(t *testing.T, kind, rest string) []byte {
	text, body, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s %s: %v", kind, rest, err)
	}
	switch id := int32(n); kind {
	case "produce":
		return produce(id, body)
	case "fetch":
		return fetch(id, body)
	case "metadata":
		return metadata(id, body)
	case "api-versions":
		return request(18, 99, id, "\x00"+body)
	}
	t.Fatalf("unknown request %s", kind)
	return nil
}

// handle is the handler of the server.
func (s *story) handle(ctx context.Context, r *Request) Outcome {
	body := string(r.Body)
	block, pending := make(chan struct{}), NewPending()
	s.mu.Lock()
	s.started = append(s.started, strconv.Itoa(int(r.CorrelationID)))
	s.blocked[r.CorrelationID], s.pending[r.CorrelationID] = block, pending
	s.mu.Unlock()
	switch {
	case body == "none":
		return Outcome{NoResponse: true}
	case body == "close":
		return Outcome{Close: errors.New("not to be had")}
	case body == "block":
		select {
		case <-block:
		case <-ctx.Done():
			return Outcome{Close: ctx.Err()}
		}
	case r.Key == 0 && body != "now" || body == "wait":
		r.Retain()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.asked == nil {
			s.asked = map[int32]*Request{}
		}
		s.asked[r.CorrelationID] = r
		return Outcome{Pending: pending, Mute: muteOf(body)}
	}
	return Outcome{Response: respond(r, body), Mute: muteOf(body)}
}

// muteOf reads "mute DURATION".
func muteOf(body string) (d time.Duration) {
	if text, mute := strings.CutPrefix(body, "mute "); mute {
		d, _ = time.ParseDuration(text)
	}
	return d
}

func (s *story) complete(d *datadriven.TestData) {
	id := correlationOf(s.t, d)
	r := s.asked[id]
	defer r.Release()
	var out Outcome
	switch {
	case d.HasArg("none"):
		out.NoResponse = true
	case d.HasArg("close"):
		out.Close = errors.New("not to be had")
	default:
		out.Response = respond(r, string(r.Body))
	}
	if text := ""; d.MaybeScanArgs(s.t, "mute", &text) {
		out.Mute, _ = time.ParseDuration(text)
	}
	s.pending[id].Complete(out)
}

func (s *story) shutdown(patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	go func() {
		defer cancel()
		_ = s.rig.server.Shutdown(ctx)
	}()
}

func correlationOf(t *testing.T, d *datadriven.TestData) int32 {
	n, err := strconv.Atoi(d.CmdArgs[0].Key)
	if err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	return int32(n)
}

func durationOf(t *testing.T, d *datadriven.TestData) time.Duration {
	duration, err := time.ParseDuration(d.CmdArgs[0].Key)
	if err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	return duration
}

// happened reports what is new since the last command.
func (s *story) happened() string {
	synctest.Wait()
	var b strings.Builder
	s.mu.Lock()
	if len(s.started) > 0 {
		fmt.Fprintf(&b, "started: %s\n", strings.Join(s.started, " "))
		s.started = nil
	}
	s.mu.Unlock()
	for _, name := range slices.Clone(s.order) {
		s.heard(&b, name)
	}
	if s.rig != nil {
		for _, line := range s.rig.log.take() {
			fmt.Fprintf(&b, "log: %s\n", line)
		}
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

func (s *story) heard(b *strings.Builder, name string) {
	answers, end := s.clients[name].take()
	if len(answers) > 0 {
		fmt.Fprintf(b, "%s gets:", name)
		for _, a := range answers {
			fmt.Fprintf(b, " %s", a)
		}
		b.WriteString("\n")
	}
	if end != nil {
		fmt.Fprintf(b, "%s ends: %v\n", name, end)
		s.order = slices.DeleteFunc(s.order, func(n string) bool { return n == name })
	}
}
