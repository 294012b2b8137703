package broker

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/metalog"
	"github.com/klamm-mq/klamm/cluster/node"
	"github.com/klamm-mq/klamm/configs"
	"github.com/klamm-mq/klamm/handlers"
	"github.com/klamm-mq/klamm/protocol"
	"github.com/klamm-mq/klamm/protocol/wire"
)

// foundsAlone tells whether this node's metadata log is a quorum of its own and stays one:
// nothing names another controller (D8).
func (b *Broker) foundsAlone() bool {
	return b.cfg.ControllerRole && len(b.cfg.Quorum.Voters) <= 1 && !b.votersVary()
}

// makeDoor makes what other nodes come in by, if there may be any: something names
// controllers, and there is a listener for them.
func (b *Broker) makeDoor() error {
	q := &b.cfg.Quorum
	named := len(q.Voters)+len(q.BootstrapServers) > 0
	if !named || b.cfg.ControllerRole && len(b.cfg.ControllerListeners) == 0 {
		return nil
	}
	address, err := b.quorumAddress()
	if err != nil {
		return err
	}
	b.door = metalog.NewDoor(metalog.DoorOptions{
		NodeID: b.cfg.NodeID, Address: address,
		Dial: b.dial, Logger: b.loggers.logger("klamm.metalog"),
	})
	return nil
}

func (b *Broker) dial(ctx context.Context, address string) (net.Conn, error) {
	return b.env.Dial(ctx, "tcp", address)
}

// quorumAddress is where other members of the quorum reach this node: as a voter, what
// names it, or what it registers; as an observer nobody asks it.
func (b *Broker) quorumAddress() (string, error) {
	q := &b.cfg.Quorum
	i := slices.IndexFunc(q.Voters, func(v configs.Voter) bool { return v.ID == b.cfg.NodeID })
	switch {
	case i >= 0:
		return q.Voters[i].Address(), nil
	case b.votersVary():
		listeners, err := b.controllerListeners()
		if err != nil {
			return "", err
		}
		return net.JoinHostPort(listeners[0].Host, strconv.Itoa(int(listeners[0].Port))), nil
	}
	return "node-" + strconv.Itoa(int(b.cfg.NodeID)), nil
}

// controllers are the addresses of the other controllers.
func (b *Broker) controllers() (list []string) {
	for _, v := range b.cfg.Quorum.Voters {
		if v.ID != b.cfg.NodeID {
			list = append(list, v.Address())
		}
	}
	switch {
	case b.votersVary():
		return b.otherBootstrapServers()
	case len(b.cfg.Quorum.Voters) == 0 && !b.cfg.ControllerRole:
		return b.cfg.Quorum.BootstrapServers
	}
	return list
}

// voters are the controllers that the configuration names, this one included.
func (b *Broker) voters() []metalog.Peer {
	var list []metalog.Peer
	for _, v := range b.cfg.Quorum.Voters {
		list = append(list, metalog.Peer{NodeID: v.ID, Address: v.Address()})
	}
	return list
}

// observers are the registered brokers, as the log's members reach them. Those that are
// voters are among them.
func (b *Broker) observers() (list []metalog.Peer) {
	for r := range b.metalog.Image().Brokers() {
		list = append(list, metalog.Peer{NodeID: r.ID, Address: b.reachedAt(r)})
	}
	return list
}

// self is what this node tells others before they are members of one cluster.
func (b *Broker) self() metalog.State {
	s := metalog.State{
		NodeID: b.cfg.NodeID, DirectoryID: b.metalog.DirectoryID(), Empty: b.metalog.Empty(),
		Lineage: b.metalog.Lineage(), Votes: b.metalog.Votes(),
	}
	s.ClusterID = cmp.Or(b.metalog.Image().ClusterID(), b.storedID)
	if s.Empty {
		s.HasPartitions = b.mayBootstrap() != nil
	}
	return s
}

// joinCluster makes the way to the controller, and lets other nodes in, who may be waiting
// for this one before it can be registered anywhere.
func (b *Broker) joinCluster(context.Context) error {
	options := node.ChannelOptions{
		NodeID: b.cfg.NodeID, Quorum: b.metalog, Controllers: b.controllers(), Dial: b.dial,
		CallTimeout: 2 * b.cfg.RequestTimeout, LifeTimeout: b.cfg.SessionTimeout / 2,
		Logger: b.loggers.logger("klamm.node"), Registerer: b.env.Registry,
	}
	if b.controller != nil {
		options.Local = b.localController()
	}
	if b.suspects != nil {
		options.Lost = b.suspects.Lost // where it is a broker as well
	}
	b.channel = node.NewChannel(options)
	b.onStop("connections to the controller", func(context.Context) error {
		b.channel.Close()
		return nil
	})
	if err := b.makeServer(); err != nil {
		return err
	}
	if b.door == nil {
		return nil
	}
	b.door.Open(b.self)
	for _, l := range b.controlListeners {
		b.tasks.Go(func() {
			b.serve(l, wire.ListenerInfo{Name: l.Name, Kind: protocol.ControllerListener, InterBroker: true})
		})
	}
	for _, l := range b.listeners {
		if b.servesEarly(l) {
			b.serveClients(l)
		}
	}
	if b.cfg.ControllerRole {
		b.keepMembers()
	}
	return b.registerController()
}

// localController is the controller of this node, as it is asked over the network.
func (b *Broker) localController() handlers.LocalController {
	return handlers.LocalController{Controller: b.controller, Quorum: b.quorum, Voters: quorumVoters{b}, Image: b.metalog.Image}
}

// keepMembers founds the cluster, if nobody has, and keeps its members what they should be.
func (b *Broker) keepMembers() {
	ctx, cancel := context.WithCancel(context.Background())
	b.onStop("members of the metadata log", func(context.Context) error {
		cancel()
		return nil
	})
	members := metalog.Members{Observers: b.observers, Probe: b.door.Probe}
	if b.votersVary() {
		members.Controllers = b.registeredControllers
		b.tasks.Go(func() {
			if err := b.metalog.FormAlone(ctx, b.cfg.Quorum.BootstrapServers, b.whoIsAt); err == nil {
				b.metalog.KeepMembers(ctx, members)
			}
		})
		return
	}
	b.tasks.Go(func() {
		voters := b.voters()
		if err := b.metalog.Form(ctx, voters, b.door.Probe); err != nil {
			return // this node stops, or has failed
		}
		members.Voters = voters
		b.metalog.KeepMembers(ctx, members)
	})
}

const (
	// findPause separates the rounds in which the controllers are asked for the cluster.
	findPause = 50 * time.Millisecond
	// findComplaint is how often the log says that they have not answered.
	findComplaint = 10 * time.Second
)

// findClusterID finds out which cluster this node is about to join: what its disks say, the
// metadata that it has, or what a controller says.
func (b *Broker) findClusterID(ctx context.Context) (string, error) {
	if b.storedID != "" {
		return b.storedID, nil
	}
	last := time.Now()
	for {
		if id := cmp.Or(b.metalog.Image().ClusterID(), b.askClusterID(ctx)); id != "" {
			return id, nil
		}
		if now := time.Now(); now.Sub(last) >= findComplaint {
			last = now
			b.log.Warn("waiting for the controllers: none of them has a cluster yet", "controllers", strings.Join(b.controllers(), " "))
		}
		timer := time.NewTimer(findPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return "", fmt.Errorf("find the cluster: %w", context.Cause(ctx))
		}
	}
}

func (b *Broker) askClusterID(ctx context.Context) string {
	for _, address := range b.controllers() {
		if state, err := b.door.Probe(ctx, address); err == nil && state.ClusterID != "" {
			return state.ClusterID
		}
	}
	return ""
}

// registerController keeps this node registered as a controller, if others can reach it as
// one.
func (b *Broker) registerController() error {
	if !b.cfg.ControllerRole || len(b.controlListeners) == 0 {
		return nil
	}
	listeners, err := b.controllerListeners()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.tasks.Go(func() {
		b.registration.Run(ctx, node.ControllerOptions{
			Incarnation: b.incarnation, Listeners: listeners, Features: supportedFeatures(),
			Channel: b.channel, Logger: b.loggers.logger("klamm.node"), Joining: b.votersVary() && !b.foundsAtOnce(),
		})
	})
	if b.votersVary() && b.cfg.Quorum.AutoJoin {
		b.tasks.Go(func() { b.voting(listeners).Keep(ctx) })
	}
	b.onStop("registration of the controller", func(context.Context) error {
		cancel()
		return nil
	})
	return nil
}

// controllerListeners is what clients of controllers are told. A listener on every address is
// reached as the other controllers reach it, if they do.
func (b *Broker) controllerListeners() (list []metadata.Endpoint, err error) {
	for _, l := range b.controlListeners {
		at, err := b.endpoint(l)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(b.cfg.Quorum.Voters, func(v configs.Voter) bool { return v.ID == b.cfg.NodeID && v.Port == int(at.Port) })
		if at.Unadvertised && i >= 0 {
			at.Host = b.cfg.Quorum.Voters[i].Host
		}
		if host, ok := b.ownBootstrapHost(at.Port); at.Unadvertised && ok {
			at.Host = host
		}
		at.Unadvertised = false // nobody asks that of a controller
		list = append(list, at)
	}
	return list, nil
}
