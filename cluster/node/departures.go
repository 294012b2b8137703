package node

import (
	"context"

	"github.com/klamm-mq/klamm/cluster/metadata"
)

// Departures has the controller hear at once that this broker knows of another one that
// shuts down: that one may end only when everybody knows who leads instead, and would wait
// for the next heartbeats otherwise. It is a publisher of metadata.
type Departures struct {
	id   int32
	seen chan metadata.Position // room for one: the newest image that shows one
}

// NewDepartures makes the publisher of the broker with this id.
func NewDepartures(id int32) *Departures {
	return &Departures{id: id, seen: make(chan metadata.Position, 1)}
}

// Name is metalog.Publisher.
func (*Departures) Name() string { return "departures" }

// OnMetadataUpdate is metalog.Publisher.
func (d *Departures) OnMetadataUpdate(delta *metadata.Delta, next *metadata.Image) {
	for c := range delta.Brokers() {
		began := c.New != nil && c.New.InControlledShutdown && (c.Old == nil || !c.Old.InControlledShutdown)
		if !began || c.ID == d.id {
			continue
		}
		select {
		case <-d.seen: // nobody has looked at it yet
		default:
		}
		d.seen <- next.Position()
		return
	}
}

func (n *Node) departures() <-chan metadata.Position {
	if n.opts.Departures == nil {
		return nil
	}
	return n.opts.Departures.seen
}

// awaitPublished lets a heartbeat be late by one interval at most, so that it tells of a
// position.
func (n *Node) awaitPublished(ctx context.Context, at metadata.Position) {
	ctx, cancel := context.WithTimeout(ctx, n.opts.HeartbeatInterval)
	defer cancel()
	_ = n.opts.Metadata.WaitPublished(ctx, at) // else a later heartbeat tells of it
}
