package handlers

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/controller"
	"github.com/klamm-mq/klamm/protocol"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// AddRaftVoter (key 80), versions 0–1: makes a controller that has the metadata log one of
// those that keep it (KIP-853).
//
//	v1  whether the answer waits until the change is committed. Here it always does.
//
// Brokers forward it; the leader of the log decides.
func (h *Handlers) addRaftVoter(ctx context.Context, c call, req *kmsg.AddRaftVoterRequest) (kmsg.Response, error) {
	return h.changeVoters(ctx, c, req)
}

// changeVoters has the leader of the metadata log decide a change of the voters.
func (h *Handlers) changeVoters(ctx context.Context, c call, req kmsg.Request) (kmsg.Response, error) {
	if c.request.Conn.Listener.Kind == protocol.ControllerListener {
		resp, _ := h.control(ctx, c, req)
		return resp, nil
	}
	resp, err := h.forward(ctx, c, req)
	if err != nil {
		resp = controller.ErrorResponse(req, err)
	}
	return resp, nil
}

// Voters changes who keeps the metadata log, on its leader. Addresses are host:port.
type Voters interface {
	// Fixed tells that the configuration names the voters, so that nothing can be changed
	// while they run.
	Fixed() bool
	// Listener is the name of the listener on which voters reach each other.
	Listener() string
	Add(ctx context.Context, id int32, directory uuid.UUID, address string) error
	Remove(ctx context.Context, id int32, directory uuid.UUID) error
	Move(ctx context.Context, id int32, directory uuid.UUID, address string) error
}

// voterChange is a request about one voter, in the order in which Kafka checks it
// (KafkaRaftClient.handleAddVoterRequest and its like).
type voterChange struct {
	what      string // for error messages
	clusterID *string
	epoch     *int32 // that the sender takes for the leader's; nil: it cannot say
	id        int32
	directory uuid.UUID
	// endpoints by name, where the request has them.
	endpoints map[string]string
	hasPlace  bool
	decide    func(address string) error
}

// check gives the address to act on.
func (v *voterChange) check(l LocalController) (address string, err error) {
	cluster, quorum := l.Image().ClusterID(), l.Quorum()
	switch {
	case v.clusterID != nil && *v.clusterID != cluster:
		return "", kafkaerr.New(kafkaerr.InconsistentClusterID, fmt.Sprintf("the given id %q doesn't match the cluster id %q", *v.clusterID, cluster))
	case v.epoch != nil && *v.epoch < quorum.Epoch:
		return "", kafkaerr.FencedLeaderEpoch
	case v.epoch != nil && *v.epoch > quorum.Epoch:
		return "", kafkaerr.UnknownLeaderEpoch
	case !quorum.LeaderHere:
		return "", kafkaerr.NotLeaderOrFollower
	case v.id < 0 || v.directory.IsZero():
		return "", kafkaerr.New(kafkaerr.InvalidRequest, v.what+" voter request didn't include a valid voter")
	}
	if !v.hasPlace {
		return "", nil
	}
	address, ok := v.endpoints[l.Voters.Listener()]
	if !ok {
		return "", kafkaerr.New(kafkaerr.InvalidRequest, fmt.Sprintf("%s voter request didn't include the endpoint for the default listener %s", v.what, l.Voters.Listener()))
	}
	return address, nil
}

// run decides the change.
func (v *voterChange) run(l LocalController) error {
	address, err := v.check(l)
	switch {
	case err != nil:
		return err
	case l.Voters.Fixed():
		return kafkaerr.New(kafkaerr.UnsupportedVersion,
			"the voters of this cluster are those of controller.quorum.voters, which cannot be changed while it runs")
	}
	return v.decide(address)
}

// longestCatchUp bounds how long a future voter may take to get the log, whatever the request
// says; one that asks for no time gets as much.
const longestCatchUp = 30 * time.Second

func catchUpTime(ms int32) time.Duration {
	if ms <= 0 {
		return longestCatchUp
	}
	return min(time.Duration(ms)*time.Millisecond, longestCatchUp)
}

func (l LocalController) addVoter(ctx context.Context, req *kmsg.AddRaftVoterRequest) error {
	ctx, cancel := context.WithTimeout(ctx, catchUpTime(req.TimeoutMillis))
	defer cancel()
	endpoints := map[string]string{}
	for _, e := range req.Listeners {
		endpoints[e.Name] = net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
	}
	v := voterChange{
		what: "Add", clusterID: req.ClusterID, id: req.VoterID, directory: req.VoterDirectoryID, endpoints: endpoints, hasPlace: true,
		decide: func(address string) error { return l.Voters.Add(ctx, req.VoterID, req.VoterDirectoryID, address) },
	}
	return v.run(l)
}

func (l LocalController) removeVoter(ctx context.Context, req *kmsg.RemoveRaftVoterRequest) error {
	v := voterChange{
		what: "Remove", clusterID: req.ClusterID, id: req.VoterID, directory: req.VoterDirectoryID,
		decide: func(string) error { return l.Voters.Remove(ctx, req.VoterID, req.VoterDirectoryID) },
	}
	return v.run(l)
}

// updateVoter decides who has moved. A cluster whose configuration names the voters notes
// nothing, as Kafka's does with one in memory.
func (l LocalController) updateVoter(ctx context.Context, req *kmsg.UpdateRaftVoterRequest) error {
	endpoints := map[string]string{}
	for _, e := range req.Listeners {
		endpoints[e.Name] = net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
	}
	v := voterChange{
		what: "Update", clusterID: req.ClusterID, epoch: &req.CurrentLeaderEpoch, id: req.VoterID, directory: req.VoterDirectoryID, endpoints: endpoints, hasPlace: true,
	}
	address, err := v.check(l)
	fixed := l.Voters.Fixed()
	switch f := req.KRaftVersionFeature; {
	case err != nil:
		return err
	case f.MinSupportedVersion < 0 || f.MinSupportedVersion > quorumLevel(fixed) || f.MaxSupportedVersion < quorumLevel(fixed):
		return kafkaerr.InvalidRequest
	case !slices.ContainsFunc(l.Quorum().Voters, func(q QuorumReplica) bool { return q.ID == v.id && (fixed || q.DirectoryID == v.directory) }):
		return kafkaerr.VoterNotFound
	case fixed:
		return nil
	}
	return l.Voters.Move(ctx, v.id, v.directory, address)
}

// quorumLevel is Kafka's feature level kraft.version that the quorum is like: 0 where its
// voters stay, and are known by id alone.
func quorumLevel(fixed bool) int16 {
	if fixed {
		return 0
	}
	return 1
}
