package node

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/controller"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

const (
	// joinPause lies between two looks at whether this node votes.
	joinPause = time.Second
	// usurpAfter is how often in a row a voter with this node's id, on another disk, must be
	// seen before this node has it removed. The leader replaces it, if it finds this node at
	// its address.
	usurpAfter = 5
)

// Voting is a controller that votes on the metadata log whenever it can.
type Voting struct {
	NodeID      int32
	DirectoryID uuid.UUID // of its copy of the log
	Listeners   []metadata.Endpoint
	// Cluster is the id of the cluster, "" as long as this node has none of its metadata;
	// Voters are the directories of those that vote, by node, as far as this node knows.
	Cluster func() string
	Voters  func() map[int32]uuid.UUID

	Channel ControllerChannel
	Timeout time.Duration // for the log to get here
	Logger  *slog.Logger
}

// Keep has this node added to the voters whenever it is none, until ctx ends
// (controller.quorum.auto.join.enable, KIP-1186), also if somebody has removed it.
func (v *Voting) Keep(ctx context.Context) {
	usurped, complained := 0, time.Time{}
	for {
		if pause(ctx, joinPause); ctx.Err() != nil {
			return
		}
		req, replaces := v.next()
		if usurped++; !replaces {
			usurped = 0
		}
		if req == nil || replaces && usurped < usurpAfter {
			continue
		}
		err := v.ask(ctx, req)
		switch {
		case err == nil:
			v.Logger.Info("this node had the voters of the metadata log changed, to be one", "by", kmsg.NameForKey(req.Key()))
		case ctx.Err() == nil && time.Since(complained) >= complaintPause:
			complained = time.Now()
			v.Logger.Warn("this node is no voter of the metadata log yet, it tries again", "by", kmsg.NameForKey(req.Key()), "reason", err)
		}
	}
}

// next is what makes this node a voter, or the way to it; nil if it is one, or has not been
// given the log yet. replaces says that its id is that of a voter on another disk.
func (v *Voting) next() (req kmsg.Request, replaces bool) {
	voters, cluster := v.Voters(), v.Cluster()
	switch directory, votes := voters[v.NodeID]; {
	case cluster == "" || len(voters) == 0 || votes && directory == v.DirectoryID:
		return nil, false
	case votes:
		remove := kmsg.NewPtrRemoveRaftVoterRequest()
		remove.ClusterID = &cluster
		remove.VoterID, remove.VoterDirectoryID = v.NodeID, directory
		return remove, true
	default:
		add := kmsg.NewPtrAddRaftVoterRequest()
		add.ClusterID = &cluster
		add.TimeoutMillis, add.VoterID, add.VoterDirectoryID = int32(v.Timeout.Milliseconds()), v.NodeID, v.DirectoryID
		for _, l := range v.Listeners {
			add.Listeners = append(add.Listeners, kmsg.AddRaftVoterRequestListener{Name: l.Name, Host: l.Host, Port: uint16(l.Port)})
		}
		return add, false
	}
}

func (v *Voting) ask(ctx context.Context, req kmsg.Request) error {
	resp, _, err := v.Channel.Handle(ctx, controller.Call{Request: req})
	if err != nil {
		return err
	}
	switch resp := resp.(type) {
	case *kmsg.AddRaftVoterResponse:
		return voterRefusal(resp.ErrorCode, resp.ErrorMessage)
	case *kmsg.RemoveRaftVoterResponse:
		return voterRefusal(resp.ErrorCode, resp.ErrorMessage)
	}
	return fmt.Errorf("answered with %T", resp)
}

func voterRefusal(code int16, message *string) error {
	err := kerr.ErrorForCode(code)
	if err != nil && message != nil {
		return fmt.Errorf("%w: %s", err, *message)
	}
	return err
}
