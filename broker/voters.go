package broker

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/metalog"
	"github.com/klamm-mq/klamm/cluster/node"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// Who keeps the metadata log is said in one of three ways:
//
//	controller.quorum.voters        the configuration, the same on all of them
//	no key of the quorum            this node alone, which nobody else talks to
//	controller.quorum.bootstrap.servers alone, on a node with a listener for controllers:
//	                                the log itself. It begins with one voter, which finds
//	                                itself at every address, and AddRaftVoter and
//	                                RemoveRaftVoter change it

// votersVary tells whether the log itself says who keeps it.
func (b *Broker) votersVary() bool {
	q := &b.cfg.Quorum
	return b.cfg.ControllerRole && len(q.Voters) == 0 && len(q.BootstrapServers) > 0 && len(b.cfg.ControllerListeners) > 0
}

// foundsAtOnce tells whether an empty disk is a new cluster without asking anybody.
func (b *Broker) foundsAtOnce() bool {
	if !b.votersVary() {
		return b.foundsAlone()
	}
	return !slices.ContainsFunc(b.cfg.Quorum.BootstrapServers, func(s string) bool { return !b.isOwn(s) })
}

// isOwn tells whether an address is plainly one of this node's listeners for controllers.
// Other names of it are found out by asking.
func (b *Broker) isOwn(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	for _, l := range b.controlListeners {
		at, err := b.endpoint(l)
		if err != nil {
			return false
		}
		ip := net.ParseIP(host)
		local := host == "localhost" || ip != nil && ip.IsLoopback()
		switch bound := net.ParseIP(l.Host); {
		case port != strconv.Itoa(int(at.Port)) && port != strconv.Itoa(l.Port):
		case host == at.Host || host == l.Host, local && (l.Wildcard() || bound != nil && bound.IsLoopback() || l.Host == "localhost"):
			return true
		}
	}
	return false
}

// ownBootstrapHost is how controller.quorum.bootstrap.servers calls this node, if it does.
func (b *Broker) ownBootstrapHost(port int32) (host string, ok bool) {
	for _, s := range b.cfg.Quorum.BootstrapServers {
		host, p, err := net.SplitHostPort(s)
		if err == nil && p == strconv.Itoa(int(port)) && b.isOwn(s) {
			return host, true
		}
	}
	return "", false
}

// otherBootstrapServers are the addresses of controllers that are not plainly this node's.
func (b *Broker) otherBootstrapServers() (list []string) {
	for _, s := range b.cfg.Quorum.BootstrapServers {
		if !b.isOwn(s) {
			list = append(list, s)
		}
	}
	return list
}

// registeredControllers are those that say that they are some, as voters reach each other.
func (b *Broker) registeredControllers() (list []metalog.Peer) {
	for c := range b.metalog.Image().Controllers() {
		i := slices.IndexFunc(c.Listeners, func(l metadata.Endpoint) bool { return l.Name == b.votersListener() })
		if i >= 0 {
			list = append(list, metalog.Peer{NodeID: c.ID, Address: net.JoinHostPort(c.Listeners[i].Host, strconv.Itoa(int(c.Listeners[i].Port)))})
		}
	}
	return list
}

// usualListener is what a listener for controllers is called where none is configured.
const usualListener = "CONTROLLER"

// votersListener is the name of the listener on which controllers reach each other. A node
// that is alone and opens none goes by the name that it would have.
func (b *Broker) votersListener() string {
	switch {
	case len(b.controlListeners) > 0:
		return b.controlListeners[0].Name
	case len(b.cfg.ControllerListeners) > 0:
		return b.cfg.ControllerListeners[0]
	}
	return usualListener
}

// voting has this controller vote whenever it can.
func (b *Broker) voting(listeners []metadata.Endpoint) *node.Voting {
	return &node.Voting{
		NodeID: b.cfg.NodeID, DirectoryID: b.metalog.DirectoryID(), Listeners: listeners,
		Cluster: func() string { return b.metalog.Image().ClusterID() },
		Voters: func() map[int32]uuid.UUID {
			directories := map[int32]uuid.UUID{}
			for _, v := range b.metalog.Voters() {
				directories[v.NodeID] = v.DirectoryID
			}
			return directories
		},
		Channel: b.channel, Timeout: b.cfg.RequestTimeout, Logger: b.loggers.logger("klamm.node"),
	}
}

// quorumVoters changes the voters of the metadata log; it is handlers.Voters.
type quorumVoters struct{ b *Broker }

func (q quorumVoters) Fixed() bool { return len(q.b.cfg.Quorum.Voters) > 0 }

func (q quorumVoters) Listener() string { return q.b.votersListener() }

func (q quorumVoters) Add(ctx context.Context, id int32, directory uuid.UUID, address string) error {
	return q.b.metalog.AddVoter(ctx, metalog.Voter{NodeID: id, DirectoryID: directory, Address: address}, q.b.probe)
}

func (q quorumVoters) Remove(ctx context.Context, id int32, directory uuid.UUID) error {
	return q.b.metalog.RemoveVoter(ctx, metalog.Voter{NodeID: id, DirectoryID: directory})
}

func (q quorumVoters) Move(ctx context.Context, id int32, directory uuid.UUID, address string) error {
	return q.b.metalog.UpdateVoter(ctx, metalog.Voter{NodeID: id, DirectoryID: directory, Address: address}, q.b.probe)
}

var errNoDoor = errors.New("this node has no listener for controllers, or no key of the quorum")

// probe asks who is at an address. A node without a door reaches nobody.
func (b *Broker) probe(ctx context.Context, address string) (metalog.State, error) {
	if b.door == nil {
		return metalog.State{}, errNoDoor
	}
	return b.door.Probe(ctx, address)
}
