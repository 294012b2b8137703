package conform

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	answerWait = 8 * time.Second  // for an answer that must come
	readyWait  = 20 * time.Second // for a topic that was created, and the like
	pollEvery  = 15 * time.Millisecond
)

// R is one run of a scenario against one broker. Methods that take a label add a step to
// the transcript; the others do not.
type R struct {
	target   *Target
	symbols  *symbols
	conns    map[string]*Conn
	ids      map[string][16]byte
	created  []string // real names of topics, to be deleted
	groups   []string
	ignored  map[string]bool
	clientID *string
	t        Transcript

	onlyConfigs, hostConfigs []string
}

// failure ends a run that cannot go on.
type failure struct{ error }

func newRun(s *Scenario, target *Target) *R {
	unique := make([]byte, 5)
	_, _ = rand.Read(unique)
	prefix := "conform-" + hex.EncodeToString(unique) + "-"
	id := "conform"
	return &R{
		target: target, symbols: newSymbols(time.Now(), prefix, target),
		conns: map[string]*Conn{}, ids: map[string][16]byte{}, ignored: map[string]bool{}, clientID: &id,
		t: Transcript{Scenario: s.Name, Key: s.Key},
	}
}

// Fail ends the run: what the scenario needs could not be had.
func (r *R) Fail(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// T is a time for records: delta milliseconds after a moment one hour before the start
// of the run. Answers show it as "T+delta", the broker's own clock as "now".
func (r *R) T(delta int64) int64 { return r.symbols.base + delta }

// Name is a name that no one else uses; answers show it as "$name". A name that begins
// with "=" is what follows, as it is.
func (r *R) Name(name string) string {
	if literal, ok := strings.CutPrefix(name, "="); ok {
		return literal
	}
	return r.symbols.prefix + name
}

// TopicID is the id of a topic that CreateTopic made, or else one that no topic has.
// Answers show it as "id:name".
func (r *R) TopicID(name string) [16]byte {
	if name == "" {
		return [16]byte{}
	}
	if id, ok := r.ids[name]; ok {
		return id
	}
	var id [16]byte
	_, _ = rand.Read(id[:])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	r.learnID(name, id)
	return id
}

func (r *R) learnID(name string, id [16]byte) {
	r.ids[name] = id
	if r.symbols.uuids[id] == "" {
		r.symbols.uuids[id] = r.symbols.nameID(name)
	}
}

// ClientID sets the client id of the requests that follow, nil for null.
func (r *R) ClientID(id *string) { r.clientID = id }

// Node is the id of the i-th node of the cluster, from 0.
func (r *R) Node(i int) int32 { return r.target.nodes[min(i, len(r.target.nodes)-1)] }

// ClusterID is the cluster's id.
func (r *R) ClusterID() string { return r.target.clusterID }

// Ignore leaves fields of these names ("Topics.Partitions.LogAppendTimeMillis", without
// indices) out of all later steps: they say nothing about correctness.
func (r *R) Ignore(fields ...string) {
	for _, f := range fields {
		r.ignored[f] = true
	}
}

// conn is the connection of that name, opened when it is first used or was closed.
func (r *R) conn(name string) *Conn {
	if c := r.conns[name]; c != nil {
		return c
	}
	c, err := dial(r.target.addr)
	if err != nil {
		r.Fail("%w", err)
	}
	r.conns[name] = c
	return c
}

// Disconnect closes the connection of that name; the next use opens another.
func (r *R) Disconnect(conn string) {
	if c := r.conns[conn]; c != nil {
		_ = c.c.Close()
		delete(r.conns, conn)
	}
}

func (r *R) step(label string, req kmsg.Request, outcome string, lines ...Line) {
	s := Step{Label: label, Key: -1, Outcome: outcome, Lines: lines}
	if req != nil {
		s.Key, s.Version = req.Key(), req.GetVersion()
	}
	r.t.Steps = append(r.t.Steps, s)
}

// Note adds a line to the transcript: what the scenario itself found.
func (r *R) Note(label, format string, args ...any) {
	r.step(label, nil, "note", Line{Fields: []Field{{"is", r.symbols.text(fmt.Sprintf(format, args...))}}})
}

// Send sends req on the connection "main" and adds its answer, which it also returns:
// nil if there was none.
func (r *R) Send(label string, req kmsg.Request) kmsg.Response { return r.SendOn("main", label, req) }

// SendOn is Send on a connection of that name.
func (r *R) SendOn(conn, label string, req kmsg.Request) kmsg.Response {
	return r.Start(conn, label, req).Wait()
}

// SendWithoutAnswer sends a request that has no answer (Produce with acks=0).
func (r *R) SendWithoutAnswer(conn, label string, req kmsg.Request) {
	if _, err := r.conn(conn).send(req, r.clientID); err != nil {
		r.Disconnect(conn)
		r.step(label, req, "closed")
		return
	}
	r.step(label, req, "sent")
}

// Pending is a request whose answer was not read yet.
type Pending struct {
	r           *R
	conn, label string
	req         kmsg.Request
	correlation int32
	err         error
}

// Start sends req. The step is added by Wait. Answers of one connection must be waited
// for in the order of its requests.
func (r *R) Start(conn, label string, req kmsg.Request) *Pending {
	p := &Pending{r: r, conn: conn, label: label, req: req}
	p.correlation, p.err = r.conn(conn).send(req, r.clientID)
	return p
}

// Wait reads the answer and adds the step.
func (p *Pending) Wait() kmsg.Response { return p.wait(answerWait) }

// Within reports whether the answer's first byte comes within d, without reading it.
func (p *Pending) Within(d time.Duration) bool {
	c := p.r.conn(p.conn)
	return p.err == nil && c.waits(d)
}

func (p *Pending) wait(d time.Duration) kmsg.Response {
	resp, complaint := p.receive(d)
	if resp == nil {
		p.r.Disconnect(p.conn)
		p.r.step(p.label, p.req, outcomeOf(complaint), complaints(complaint)...)
		return nil
	}
	lines := p.r.leaveOut(p.r.symbols.render(resp))
	p.r.step(p.label, p.req, "answer", append(lines, complaints(complaint)...)...)
	return resp
}

func (p *Pending) receive(d time.Duration) (kmsg.Response, error) {
	if p.err != nil {
		return nil, p.err
	}
	b, err := p.r.conn(p.conn).receive(d)
	if err != nil {
		return nil, err
	}
	return decode(p.req, p.correlation, b)
}

func outcomeOf(err error) string {
	switch err {
	case errClosed:
		return "closed"
	case errSilent:
		return "silent"
	}
	return "answer"
}

func complaints(err error) []Line {
	if err == nil || err == errClosed || err == errSilent {
		return nil
	}
	return []Line{{Path: "!", Fields: []Field{{"complaint", fmt.Sprintf("%q", err)}}}}
}

// leaveOut removes the ignored fields.
func (r *R) leaveOut(lines []Line) []Line {
	lines = r.filterConfigs(lines)
	if len(r.ignored) == 0 {
		return lines
	}
	for i := range lines {
		at := withoutIndices(lines[i].Path)
		lines[i].Fields = slices.DeleteFunc(lines[i].Fields, func(f Field) bool {
			return r.ignored[strings.TrimPrefix(at+"."+f.Name, ".")]
		})
	}
	return slices.DeleteFunc(lines, func(l Line) bool { return r.ignored[withoutIndices(l.Path)] })
}

// Quiet sends a request without adding a step and returns its answer; without one the
// run ends.
func (r *R) Quiet(req kmsg.Request) kmsg.Response {
	p := r.Start("quiet", "", req)
	resp, err := p.receive(answerWait)
	if resp == nil {
		r.Disconnect("quiet")
		r.Fail("%s v%d: %w", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return resp
}

// Until sends requests of mk, without steps, until done likes an answer.
func (r *R) Until(what string, mk func() kmsg.Request, done func(kmsg.Response) bool) kmsg.Response {
	for deadline := time.Now().Add(readyWait); ; time.Sleep(pollEvery) {
		if resp := r.Quiet(mk()); done(resp) {
			return resp
		}
		if time.Now().After(deadline) {
			r.Fail("%s: not within %v", what, readyWait)
		}
	}
}

// Raw sends bytes as they are on a connection of that name and adds what comes back: an
// answer's size and first bytes, or none. The bytes need not be a frame.
func (r *R) Raw(conn, label string, b []byte) {
	c := r.conn(conn)
	err := c.write(b)
	var got []byte
	if err == nil {
		got, err = c.receive(rawWait)
	}
	if err != nil {
		r.Disconnect(conn)
		r.step(label, nil, outcomeOf(err), complaints(err)...)
		return
	}
	r.step(label, nil, "answer", Line{Fields: []Field{{"bytes", fmt.Sprint(len(got))}}})
}

// Write sends bytes as they are, without a step and without waiting for an answer: a part
// of a frame, say.
func (r *R) Write(conn string, b []byte) {
	if r.conn(conn).write(b) != nil {
		r.Disconnect(conn)
	}
}

// rawWait is how long an answer to bytes may take that might have none.
const rawWait = 2 * time.Second

// RawRequest sends a well-formed header for req's key and version followed by body in
// place of its encoding, and adds the answer read as req's.
func (r *R) RawRequest(conn, label string, req kmsg.Request, body []byte) kmsg.Response {
	c := r.conn(conn)
	c.correlation++
	p := &Pending{r: r, conn: conn, label: label, req: req, correlation: c.correlation}
	p.err = c.write(Frame(Header(req.Key(), req.GetVersion(), c.correlation, r.clientID, req.IsFlexible()), body))
	return p.wait(rawWait)
}

// waits reports whether there is something to read within d.
func (c *Conn) waits(d time.Duration) bool {
	peeked, err := peek(c.c, d)
	if err == nil {
		c.c = peeked
	}
	return err == nil
}

// peeked is a connection whose first byte was read already.
type peeked struct {
	net.Conn
	first []byte
}

func peek(c net.Conn, d time.Duration) (net.Conn, error) {
	_ = c.SetReadDeadline(time.Now().Add(d))
	b := make([]byte, 1)
	if _, err := c.Read(b); err != nil {
		return c, readError(err)
	}
	return &peeked{c, b}, nil
}

func (p *peeked) Read(b []byte) (int, error) {
	if len(p.first) > 0 && len(b) > 0 {
		n := copy(b, p.first)
		p.first = p.first[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}
