package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/controller"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

const (
	// retryPause follows a request that no active controller took. It is short, since a
	// new controller suspects brokers that it does not hear within 200 ms (D9).
	retryPause = 50 * time.Millisecond
	// catchUpPause follows a heartbeat that asked for service before this node had seen
	// its own registration in the metadata log.
	catchUpPause = 10 * time.Millisecond
	// shutdownPause separates heartbeats that ask whether the broker may stop.
	shutdownPause = 50 * time.Millisecond
	// complaintPause lies between two log lines about requests that fail one after the
	// other: a full disk lasts, and each attempt says the same.
	complaintPause = 30 * time.Second
	// leaderlessPatience is how long no controller may be active before the log says so.
	leaderlessPatience = 5 * time.Second

	registrationVersion = 4
	heartbeatVersion    = 2
)

// run is the life of the node: one request after the other, and a pause that the answer
// suggests.
func (n *Node) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-n.wake:
		case <-n.controllerMoved():
		case at := <-n.departures():
			n.awaitPublished(ctx, at)
		case <-ctx.Done():
			return
		}
		if n.State() == Stopped {
			return
		}
		timer.Reset(n.communicate(ctx))
	}
}

func (n *Node) controllerMoved() <-chan struct{} {
	if n.opts.ControllerMoved == nil {
		return nil
	}
	return n.opts.ControllerMoved()
}

// communicate sends the request that is due and gives the pause until the next.
func (n *Node) communicate(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, n.opts.RequestTimeout)
	defer cancel()
	var pause time.Duration
	var err error
	if n.State() == Starting {
		pause, err = n.register(ctx)
	} else {
		pause, err = n.heartbeat(ctx)
	}
	n.mu.Lock()
	n.trouble = err
	n.mu.Unlock()
	switch {
	case err == nil:
		n.complained, n.leaderless = time.Time{}, time.Time{}
		return pause
	case errors.Is(err, kafkaerr.NotController):
		n.noteLeaderless(time.Now(), err)
		return retryPause
	case n.life.Err() != nil:
		return 0
	}
	n.metrics.failures.Inc()
	if now := time.Now(); now.Sub(n.complained) >= complaintPause {
		n.complained = now
		n.opts.Logger.Warn("request to the controller failed, it is repeated", "state", n.State().String(), "error", err)
	}
	return n.opts.HeartbeatInterval
}

// noteLeaderless complains when no active controller has been found for a while. Elections
// are shorter.
func (n *Node) noteLeaderless(now time.Time, err error) {
	switch {
	case n.leaderless.IsZero():
		n.leaderless = now
	case now.Sub(n.leaderless) >= leaderlessPatience && now.Sub(n.complained) >= complaintPause:
		n.complained = now
		n.opts.Logger.Warn("no active controller is found: are controller.quorum.voters or controller.quorum.bootstrap.servers right, and does a majority of the controllers run?",
			"state", n.State().String(), "error", err)
		return
	}
	n.opts.Logger.Debug("no active controller", "error", err)
}

// register sends the registration.
func (n *Node) register(ctx context.Context) (time.Duration, error) {
	reply, at, err := n.opts.Channel.Handle(ctx, controller.Call{Request: n.registration()})
	if err != nil {
		return 0, fmt.Errorf("register: %w", err)
	}
	resp, ok := reply.(*kmsg.BrokerRegistrationResponse)
	if !ok {
		return 0, fmt.Errorf("registration answered with %T", reply)
	}
	if err := refusal(resp); err != nil {
		if isFinal(err) {
			n.update(func() { n.refused = err })
		}
		return 0, err
	}
	n.opts.Logger.Info("broker registered", "epoch", resp.BrokerEpoch)
	n.opts.Metadata.StartPublishing(at)
	n.update(func() {
		n.epoch, n.refused = resp.BrokerEpoch, nil
		if n.state == Starting {
			n.state = Fenced
		}
	})
	return 0, nil // a heartbeat at once
}

func (n *Node) registration() *kmsg.BrokerRegistrationRequest {
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.Version = registrationVersion
	req.BrokerID, req.ClusterID = n.opts.NodeID, n.opts.ClusterID
	req.IncarnationID, req.Rack = n.opts.Incarnation, n.opts.Rack
	req.PreviousBrokerEpoch = n.opts.PreviousBrokerEpoch
	offline, _ := n.reports()
	for _, d := range n.opts.LogDirs {
		if !slices.Contains(offline, d) {
			req.LogDirs = append(req.LogDirs, d)
		}
	}
	for _, l := range n.opts.Listeners {
		r := kmsg.NewBrokerRegistrationRequestListener()
		r.Name, r.Host, r.Port, r.SecurityProtocol = l.Name, l.Host, uint16(l.Port), l.SecurityProtocol
		if l.Unadvertised {
			controller.SetUnadvertised(&r)
		}
		req.Listeners = append(req.Listeners, r)
	}
	for _, f := range n.opts.Features {
		r := kmsg.NewBrokerRegistrationRequestFeature()
		r.Name, r.MinSupportedVersion, r.MaxSupportedVersion = f.Name, f.Min, f.Max
		req.Features = append(req.Features, r)
	}
	return req
}

// refusal is the error of a refused registration, with the reason if the controller gave one.
func refusal(resp *kmsg.BrokerRegistrationResponse) error {
	err := kerr.ErrorForCode(resp.ErrorCode)
	if reason := controller.RefusalReason(resp); err != nil && reason != "" {
		return fmt.Errorf("%w: %s", err, reason)
	}
	return err
}

// isFinal reports whether somebody has to change something before a registration can
// succeed.
func isFinal(err error) bool {
	return slices.ContainsFunc([]error{
		kafkaerr.InconsistentClusterID, kafkaerr.InvalidRegistration, kafkaerr.UnsupportedVersion,
	}, func(kind error) bool { return errors.Is(err, kind) })
}

// heartbeat sends one heartbeat and takes over the state that the controller answers.
func (n *Node) heartbeat(ctx context.Context) (time.Duration, error) {
	req := n.nextHeartbeat()
	reply, _, err := n.opts.Channel.Handle(ctx, controller.Call{Request: req})
	if err != nil {
		return 0, fmt.Errorf("heartbeat: %w", err)
	}
	resp, ok := reply.(*kmsg.BrokerHeartbeatResponse)
	if !ok {
		return 0, fmt.Errorf("heartbeat answered with %T", reply)
	}
	err = kerr.ErrorForCode(resp.ErrorCode)
	if errors.Is(err, kafkaerr.StaleBrokerEpoch) {
		return 0, n.staleEpoch(req)
	}
	if err != nil {
		return 0, fmt.Errorf("heartbeat: %w", err)
	}
	return n.follow(req, resp), nil
}

func (n *Node) nextHeartbeat() *kmsg.BrokerHeartbeatRequest {
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.Version = heartbeatVersion
	offline, failed := n.reports()
	for _, d := range offline {
		req.OfflineLogDirs = append(req.OfflineLogDirs, d)
	}
	controller.SetFailedReplicas(req, failed)
	if n.opts.FullDirs != nil {
		controller.SetFullDirs(req, n.opts.FullDirs())
	}
	if n.opts.LogEnds != nil {
		controller.SetLogEnds(req, n.opts.LogEnds())
	}
	req.BrokerID = n.opts.NodeID
	req.CurrentMetadataOffset = int64(n.opts.Metadata.Published().Index)
	n.mu.Lock()
	defer n.mu.Unlock()
	req.BrokerEpoch, req.WantFence, req.WantShutdown = n.epoch, !n.ready && !n.leaving, n.leaving
	return req
}

// staleEpoch handles that the registration is gone: somebody removed it, or another process
// registered as this broker. The next registration finds out. A broker that is leaving has
// left.
func (n *Node) staleEpoch(req *kmsg.BrokerHeartbeatRequest) error {
	n.update(func() {
		n.state = Starting
		if n.leaving {
			n.state = Stopped
		}
	})
	return fmt.Errorf("heartbeat with epoch %d: %w", req.BrokerEpoch, kafkaerr.StaleBrokerEpoch)
}

// follow takes over the answered state and gives the pause until the next heartbeat.
func (n *Node) follow(req *kmsg.BrokerHeartbeatRequest, resp *kmsg.BrokerHeartbeatResponse) time.Duration {
	next := Unfenced
	switch {
	case req.WantShutdown && resp.ShouldShutdown:
		next = Stopped
	case req.WantShutdown:
		next = ShuttingDown
	case resp.IsFenced:
		next = Fenced
	}
	if next != n.State() {
		n.opts.Logger.Info("this broker changes its state", "state", next.String())
		n.update(func() { n.state = next })
	}
	switch {
	case next == ShuttingDown:
		return shutdownPause
	case next == Fenced && !req.WantFence && !resp.IsCaughtUp:
		return catchUpPause
	}
	return n.opts.HeartbeatInterval
}

// MaxLogEnds bounds the logs that one heartbeat tells of; the next one has others, since some
// partitions may wait long.
const MaxLogEnds = 1000

// ReportOfflineDir tells the controller, with this and every later heartbeat, that a log
// directory failed: leaderships of replicas in it move.
func (n *Node) ReportOfflineDir(dir uuid.UUID) {
	n.update(func() {
		if !slices.Contains(n.offline, dir) {
			n.offline = append(n.offline, dir)
		}
	})
	n.wakeUp()
}

// ReportFailedReplica tells the controller, until ClearFailedReplica, that a replica is
// damaged or has no room, so that it leaves ISR and ELR (D24). That has happened when a
// published image shows it. If the replica is the last member it stays.
func (n *Node) ReportFailedReplica(topicID uuid.UUID, partition int32) {
	r := controller.FailedReplica{TopicID: topicID, Partition: partition}
	n.update(func() {
		if !slices.Contains(n.failed, r) {
			n.failed = append(n.failed, r)
		}
	})
	n.wakeUp()
}

// ClearFailedReplica ends the reports of a replica.
func (n *Node) ClearFailedReplica(topicID uuid.UUID, partition int32) {
	r := controller.FailedReplica{TopicID: topicID, Partition: partition}
	n.update(func() {
		n.failed = slices.DeleteFunc(n.failed, func(f controller.FailedReplica) bool { return f == r })
	})
}

// reports gives copies of what is to be reported. Where more replicas have failed than a heartbeat
// holds the next one has others, since some may never be settled: the last copies.
func (n *Node) reports() ([]uuid.UUID, []controller.FailedReplica) {
	n.mu.Lock()
	defer n.mu.Unlock()
	some := slices.Clone(n.failed)
	if len(some) > controller.MaxFailedReplicas {
		n.nextFailed = (n.nextFailed + controller.MaxFailedReplicas) % len(some)
		some = append(some[n.nextFailed:], some[:n.nextFailed]...)[:controller.MaxFailedReplicas]
	}
	return slices.Clone(n.offline), some
}
