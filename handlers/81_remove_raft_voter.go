package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// RemoveRaftVoter (key 81), version 0: a controller no longer keeps the metadata log
// (KIP-853). It observes the log while it runs. The last voter stays. Brokers forward it;
// the leader of the log decides.
func (h *Handlers) removeRaftVoter(ctx context.Context, c call, req *kmsg.RemoveRaftVoterRequest) (kmsg.Response, error) {
	return h.changeVoters(ctx, c, req)
}
