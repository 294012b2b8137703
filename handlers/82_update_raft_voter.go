package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// UpdateRaftVoter (key 82), version 0: a voter has another address (KIP-853). It is served
// on controller listeners. Nodes of Klamm have no need of it: the leader compares the
// addresses of voters with those that controllers have registered.
func (h *Handlers) updateRaftVoter(ctx context.Context, c call, req *kmsg.UpdateRaftVoterRequest) (kmsg.Response, error) {
	return h.changeVoters(ctx, c, req)
}
