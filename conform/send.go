package conform

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	answerWait  = 15 * time.Second // for an answer that must come, on a loaded machine
	rawWait     = 6 * time.Second  // for an answer to bytes that might have none
	readyWait   = 30 * time.Second // for a topic that was created, and the like
	clusterWait = 2 * time.Minute  // until the others notice that a node is gone
	pollEvery   = 15 * time.Millisecond
)

func (r *R) step(label string, req kmsg.Request, outcome string, lines ...Line) {
	s := Step{Label: r.unique(label), Key: -1, Outcome: outcome, Lines: lines}
	if req != nil {
		s.Key, s.Version = req.Key(), req.GetVersion()
	}
	r.t.Steps = append(r.t.Steps, s)
}

// unique is the label, or "label (2)" for the second step that is called so.
func (r *R) unique(label string) string {
	taken := func(s string) bool {
		return slices.ContainsFunc(r.t.Steps, func(step Step) bool { return step.Label == s })
	}
	own := label
	for n := 2; taken(own); n++ {
		own = fmt.Sprintf("%s (%d)", label, n)
	}
	return own
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
	mine        func(kmsg.Response) // takes out of an answer what is not the run's
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

// WaitUpTo is Wait for an answer that takes its time.
func (p *Pending) WaitUpTo(d time.Duration) kmsg.Response { return p.wait(d) }

// Within reports whether the answer's first byte comes within d, without reading it.
func (p *Pending) Within(d time.Duration) bool {
	return p.err == nil && p.r.conn(p.conn).waits(p.r.ctx, d)
}

// SendOnly is Send, with what the broker holds for others taken out of the answer by mine
// before it is looked at.
func (r *R) SendOnly(label string, req kmsg.Request, mine func(kmsg.Response)) kmsg.Response {
	p := r.Start("main", label, req)
	p.mine = mine
	return p.Wait()
}

func (p *Pending) wait(d time.Duration) kmsg.Response {
	resp, complaint := p.receive(d)
	if resp == nil {
		p.r.Disconnect(p.conn)
		p.r.step(p.label, p.req, outcomeOf(complaint), complaints(complaint)...)
		return nil
	}
	if p.mine != nil {
		p.mine(resp)
	}
	p.r.noteSession(resp)
	lines := p.r.leaveOut(p.r.symbols.render(resp))
	p.r.step(p.label, p.req, "answer", append(lines, complaints(complaint)...)...)
	return resp
}

func (p *Pending) receive(d time.Duration) (kmsg.Response, error) {
	if p.err != nil {
		return nil, p.err
	}
	b, err := p.r.receive(p.conn, d)
	if err != nil {
		return nil, err
	}
	return decode(p.req, p.correlation, b)
}

// receive reads a frame from a connection. The run ends here if it is interrupted.
func (r *R) receive(conn string, d time.Duration) ([]byte, error) {
	b, err := r.conn(conn).receive(r.ctx, d)
	if err != nil && r.ctx.Err() != nil {
		r.Fail("%w", r.ctx.Err())
	}
	return b, err
}

func outcomeOf(err error) string {
	switch {
	case errors.Is(err, errClosed):
		return "closed"
	case errors.Is(err, errSilent):
		return "silent"
	}
	return "answer"
}

func complaints(err error) []Line {
	if err == nil || errors.Is(err, errClosed) || errors.Is(err, errSilent) {
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
func (r *R) Quiet(req kmsg.Request) kmsg.Response { return r.quiet("quiet", req) }

func (r *R) quiet(conn string, req kmsg.Request) kmsg.Response {
	p := r.Start(conn, "", req)
	patience := answerWait
	if r.Count() > 1 { // there may be no active controller
		patience = clusterWait
	}
	resp, err := p.receive(patience)
	if resp == nil {
		r.Disconnect(conn)
		r.Fail("%s v%d: %w", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return resp
}

// Until sends requests of mk, without steps, until done likes an answer.
func (r *R) Until(what string, mk func() kmsg.Request, done func(kmsg.Response) bool) kmsg.Response {
	return r.until("quiet", what, mk, done)
}

func (r *R) until(conn, what string, mk func() kmsg.Request, done func(kmsg.Response) bool) kmsg.Response {
	patience := readyWait
	if r.Count() > 1 {
		patience = clusterWait
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(pollEvery) {
		if resp := r.quiet(conn, mk()); done(resp) {
			return resp
		}
		if time.Now().After(deadline) {
			r.Fail("%s: not within %v", what, patience)
		}
	}
}

// Raw sends bytes as they are on a connection of that name and adds what comes back: an
// answer's size and first bytes, or none. The bytes need not be a frame.
func (r *R) Raw(conn, label string, b []byte) {
	err := r.conn(conn).write(b)
	var got []byte
	if err == nil {
		got, err = r.receive(conn, rawWait)
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

// RawRequest sends a well-formed header for req's key and version followed by body in
// place of its encoding, and adds the answer read as req's.
func (r *R) RawRequest(conn, label string, req kmsg.Request, body []byte) kmsg.Response {
	c := r.conn(conn)
	c.correlation++
	p := &Pending{r: r, conn: conn, label: label, req: req, correlation: c.correlation}
	p.err = c.write(Frame(Header(req.Key(), req.GetVersion(), c.correlation, r.clientID, req.IsFlexible()), body))
	return p.wait(rawWait)
}
