package cluster

import (
	"errors"
	"time"
)

// network carries messages between nodes; 0 is where the clients are. A link is one
// direction between two of them.
type network struct {
	w   *world
	cut map[link]bool
}

type link struct{ from, to int32 }

const clients int32 = 0

func (n *network) init(w *world) { n.w, n.cut = w, make(map[link]bool) }

// heal mends all links.
func (n *network) heal() { clear(n.cut) }

// send delivers a message after a while, or not, or twice. deliver runs on whatever process
// is there then, nil for clients; absent, if not nil, when there is none.
func (n *network) send(from, to int32, what string, deliver func(*broker), absent func()) {
	w := n.w
	if n.cut[link{from, to}] || !w.calm && w.rand.IntN(1000) < w.plan.loss {
		w.tracef("%s from %d to %d is lost", what, from, to)
		return
	}
	times := 1
	if !w.calm && w.rand.IntN(1000) < w.plan.duplicates {
		times = 2
	}
	for range times {
		n.deliver(from, to, what, deliver, absent)
	}
}

func (n *network) deliver(from, to int32, what string, deliver func(*broker), absent func()) {
	w := n.w
	if to == clients {
		w.after(w.delay(), what, func() { deliver(nil) })
		return
	}
	node := w.node(to)
	w.schedule(&event{at: w.now.Add(n.latency(from, what)), name: what, node: node, run: func() {
		switch {
		case node.b != nil:
			deliver(node.b)
		case absent != nil:
			absent()
		}
	}})
}

// latency is how long a message takes.
func (n *network) latency(from int32, what string) time.Duration {
	w := n.w
	d := w.delay()
	if w.calm {
		return d
	}
	if w.rand.IntN(1000) < w.plan.stragglers {
		d *= 10
	}
	switch {
	case what == "fetch" && w.fragile == w.node(from):
		d += 50*time.Millisecond + time.Duration(w.rand.Int64N(int64(400*time.Millisecond)))
	case what == "fetch" && w.rand.IntN(1000) < w.plan.late:
		d += requestTimeout + time.Duration(w.rand.Int64N(int64(time.Second)))
	}
	if w.plan.slowMetadata > 0 && (what == "metadata" || what == "AlterPartition: answer") {
		d += time.Duration(w.rand.Int64N(int64(w.plan.slowMetadata)))
	}
	return d
}

var (
	errNoAnswer = errors.New("no answer in time")
	errRefused  = errors.New("connection refused")
)

// call sends a request and waits for the answer. done runs once, in the life of the process
// that asked, if it has not died: from is nil for a client. serve runs on the process that
// is asked, and answers by reply, at once or later, once or never.
func call[T any](w *world, from *broker, to int32, what string, serve func(b *broker, reply func(T)), done func(T, error)) {
	source, settled := clients, false
	if from != nil {
		source = from.n.id
	}
	finish := func(resp T, err error) {
		if !settled && (from == nil || from.alive()) {
			settled = true
			done(resp, err)
		}
	}
	var none T
	w.schedule(&event{at: w.now.Add(requestTimeout), name: what + ": timeout", node: from.node(), life: from.lifeOf(), run: func() { finish(none, errNoAnswer) }})
	w.net.send(source, to, what, func(b *broker) {
		serve(b, func(resp T) {
			w.net.send(to, source, what+": answer", func(*broker) { finish(resp, nil) }, nil)
		})
	}, func() {
		w.net.send(to, source, what+": refused", func(*broker) { finish(none, errRefused) }, nil)
	})
}

// alive tells whether this process still runs.
func (b *broker) alive() bool { return b.n.b == b && !b.n.crashed }

// node and lifeOf are those of no node for clients.
func (b *broker) node() *node {
	if b == nil {
		return nil
	}
	return b.n
}

func (b *broker) lifeOf() int {
	if b == nil {
		return 0
	}
	return b.n.life
}
