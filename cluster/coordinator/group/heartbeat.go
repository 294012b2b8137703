package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/coordinator"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// Heartbeat keeps a member's session and tells it of a rebalance.
func (s *Shard) Heartbeat(now time.Time, c Context, req *kmsg.HeartbeatRequest, answer func(*kmsg.HeartbeatResponse)) coordinator.Effects {
	return s.look(now, func(o *op) {
		err := s.heartbeat(o, req)
		o.reply(func(failed error) {
			if failed != nil {
				err = failed
			}
			answer(heartbeatResponse(c, err))
		})
	})
}

func heartbeatResponse(c Context, err error) *kmsg.HeartbeatResponse {
	resp := kmsg.NewPtrHeartbeatResponse()
	resp.Version, resp.ErrorCode = c.Version, answerCode(err)
	return resp
}

func (s *Shard) heartbeat(o *op, req *kmsg.HeartbeatRequest) error {
	g := s.lookup(req.Group)
	if g == nil {
		return errUnknownMemberID
	}
	if err := g.validate(req.MemberID, req.InstanceID); err != nil {
		return err
	}
	if req.Generation != g.generation {
		return kafkaerr.IllegalGeneration
	}
	s.resetSession(o, g.byID[req.MemberID])
	if g.state == PreparingRebalance {
		return errRebalanceInProgress
	}
	return nil
}
