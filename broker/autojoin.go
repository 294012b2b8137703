package broker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/controller"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/metalog"
)

const (
	// joinPause lies between two looks at whether this node votes.
	joinPause = time.Second
	// joinComplaint is how often the log says why it does not.
	joinComplaint = 10 * time.Second
	// usurpAfter is how often in a row a voter with this node's id, on another disk, must be
	// seen before this node has it removed. The leader replaces it, if it finds this node at
	// its address.
	usurpAfter = 5
)

// autoJoin has this node added to the voters whenever it is none
// (controller.quorum.auto.join.enable, KIP-1186), also if somebody has removed it.
func (b *Broker) autoJoin(ctx context.Context, listeners []metadata.Endpoint) {
	old, complained := 0, time.Time{}
	timer := time.NewTimer(joinPause)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			timer.Reset(joinPause)
		case <-ctx.Done():
			return
		}
		req, replaces := b.joinRequest(listeners)
		if old++; !replaces {
			old = 0
		}
		if req == nil || replaces && old < usurpAfter {
			continue
		}
		err := b.askToJoin(ctx, req)
		switch {
		case err == nil:
			b.log.Info("this node had the voters of the metadata log changed, to be one", "by", kmsg.NameForKey(req.Key()))
		case ctx.Err() == nil && time.Since(complained) >= joinComplaint:
			complained = time.Now()
			b.log.Warn("this node is no voter of the metadata log yet, it tries again", "by", kmsg.NameForKey(req.Key()), "reason", err)
		}
	}
}

// joinRequest is what makes this node a voter, or the way to it; nil if it is one, or has not
// been given the log yet. replaces says that its id is that of a voter on another disk.
func (b *Broker) joinRequest(listeners []metadata.Endpoint) (req kmsg.Request, replaces bool) {
	voters, cluster := b.metalog.Voters(), b.metalog.Image().ClusterID()
	i := slices.IndexFunc(voters, func(v metalog.Voter) bool { return v.NodeID == b.cfg.NodeID })
	switch self := b.metadataDir.DirectoryID(); {
	case cluster == "" || len(voters) == 0 || i >= 0 && voters[i].DirectoryID == self:
		return nil, false
	case i >= 0:
		remove := kmsg.NewPtrRemoveRaftVoterRequest()
		remove.ClusterID = &cluster
		remove.VoterID, remove.VoterDirectoryID = b.cfg.NodeID, voters[i].DirectoryID
		return remove, true
	default:
		add := kmsg.NewPtrAddRaftVoterRequest()
		add.ClusterID = &cluster
		add.TimeoutMillis, add.VoterID, add.VoterDirectoryID = int32(b.cfg.RequestTimeout.Milliseconds()), b.cfg.NodeID, self
		for _, l := range listeners {
			add.Listeners = append(add.Listeners, kmsg.AddRaftVoterRequestListener{Name: l.Name, Host: l.Host, Port: uint16(l.Port)})
		}
		return add, false
	}
}

func (b *Broker) askToJoin(ctx context.Context, req kmsg.Request) error {
	resp, _, err := b.channel.Handle(ctx, controller.Call{Request: req})
	if err != nil {
		return err
	}
	switch resp := resp.(type) {
	case *kmsg.AddRaftVoterResponse:
		return refusal(resp.ErrorCode, resp.ErrorMessage)
	case *kmsg.RemoveRaftVoterResponse:
		return refusal(resp.ErrorCode, resp.ErrorMessage)
	}
	return fmt.Errorf("answered with %T", resp)
}

func refusal(code int16, message *string) error {
	err := kerr.ErrorForCode(code)
	if err != nil && message != nil {
		return fmt.Errorf("%w: %s", err, *message)
	}
	return err
}
