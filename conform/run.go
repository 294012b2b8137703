package conform

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"
)

// R is one run of a scenario against one broker. Methods that take a label add a step to
// the transcript; the others do not.
type R struct {
	ctx      context.Context // of the run: its end interrupts every wait
	target   *Target
	symbols  *symbols
	conns    map[string]*Conn
	ids      map[string][16]byte
	created  []string // real names of topics, to be deleted
	groups   []string
	sessions []int32 // ids of fetch sessions, to be closed
	keep     bool    // what was made stays
	ignored  map[string]bool
	states   []nodeState // of the nodes
	failed   bool        // some node was made to fail
	settled  int         // topics of Settle
	clientID *string
	t        Transcript

	onlyConfigs, hostConfigs, maybeReadOnly []string
}

// failure ends a run that cannot go on.
type failure struct{ error }

// newRun prepares a run whose names begin with prefix.
func newRun(ctx context.Context, s *Scenario, target *Target, prefix string) *R {
	id := "conform"
	return &R{
		ctx: ctx, target: target, symbols: newSymbols(time.Now(), prefix, target),
		states: make([]nodeState, len(target.nodes)),
		conns:  map[string]*Conn{}, ids: map[string][16]byte{}, ignored: map[string]bool{}, clientID: &id,
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
func (r *R) Node(i int) int32 { return r.symbols.nodes[min(i, len(r.symbols.nodes)-1)] }

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
	c, err := dial(r.ctx, r.target.dial, r.address(name))
	if err != nil {
		r.Fail("%w", err)
	}
	r.conns[name] = c
	return c
}

// Disconnect closes the connection of that name; the next use opens another.
func (r *R) Disconnect(conn string) {
	if c := r.conns[conn]; c != nil {
		c.close()
		delete(r.conns, conn)
	}
}
