package controller

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// heartbeat decides a BrokerHeartbeat request (BrokerHeartbeatManager):
//
//	the broker is    and wants          becomes
//	fenced           to shut down       stopped
//	                 service, caught up unfenced
//	unfenced         to be fenced       fenced (stopped if it wants that, too)
//	                 to shut down       stopped if it leads nothing, else shutting down
//	shutting down    -                  stopped when it leads nothing and every broker in
//	                                    service knows that
//
// The only broker of a cluster has nobody to hand over to: it stops at once and keeps its
// leaderships, which its next registration renews with higher epochs.
func (s *state) heartbeat(now time.Time, call Call) decision {
	req := call.Request.(*kmsg.BrokerHeartbeatRequest)
	b, err := s.checkBrokerEpoch(req.BrokerID, req.BrokerEpoch)
	if err != nil {
		return decision{response: ErrorResponse(req, err)}
	}
	failed, err := FailedReplicas(req)
	if err != nil {
		return decision{response: ErrorResponse(req, kafkaerr.New(kafkaerr.InvalidRequest, err.Error()))}
	}
	full, err := FullDirs(req)
	if err != nil {
		return decision{response: ErrorResponse(req, kafkaerr.New(kafkaerr.InvalidRequest, err.Error()))}
	}
	ends, err := LogEnds(req)
	if err != nil {
		return decision{response: ErrorResponse(req, kafkaerr.New(kafkaerr.InvalidRequest, err.Error()))}
	}
	n := s.sessions[b.ID]
	n.note(ends)
	first := !n.heard
	n.contact, n.heard, n.position, n.full = now, true, req.CurrentMetadataOffset, full

	// What failed is dealt with first, so that a broker never gets the leadership of a
	// replica that it reports as failed. Each part sees what those before decided.
	d := decision{records: s.directoriesOffline(b, req.OfflineLogDirs)}
	d.records = s.after(d.records, func(s *state) []metadata.Record { return s.replicasFailed(n, b.ID, failed) })
	next := s.nextBrokerState(b, n, req)
	d.records = s.after(d.records, func(s *state) []metadata.Record {
		b := s.image.Broker(b.ID)
		if first && next == brokerUnfenced && !b.Fenced {
			return s.relieve(b)
		}
		return s.stateRecords(b, next)
	})
	d.records = s.after(d.records, func(s *state) []metadata.Record { return s.directoriesFull(b.ID) })
	d.records = s.after(d.records, func(s *state) []metadata.Record { return s.electByLogs(ends) })
	if next == brokerStopped {
		n.contact = time.Time{} // its next incarnation need not wait for the session's end
	}
	if next == brokerShuttingDown && n.shutdownAt < 0 {
		n.shutdownAt = notCommitted
		d.committed = func(at metadata.Position) { n.shutdownAt = int64(at.Index) }
	}
	d.response = heartbeatAnswer(req, n, next)
	return d
}

// heardLate notes a heartbeat whose sender no longer waits for the answer: it was alive,
// the controller was slow.
func (s *state) heardLate(now time.Time, call Call) {
	req, ok := call.Request.(*kmsg.BrokerHeartbeatRequest)
	if !ok {
		return
	}
	b, n := s.image.Broker(req.BrokerID), s.sessions[req.BrokerID]
	if b == nil || n.epoch != req.BrokerEpoch || b.Fenced && n.contact.IsZero() {
		return
	}
	n.contact = now
}

func heartbeatAnswer(req *kmsg.BrokerHeartbeatRequest, n *session, next brokerState) *kmsg.BrokerHeartbeatResponse {
	resp := req.ResponseKind().(*kmsg.BrokerHeartbeatResponse)
	resp.IsCaughtUp = req.CurrentMetadataOffset >= n.caughtUpAt
	resp.IsFenced = next == brokerFenced || next == brokerStopped
	resp.ShouldShutdown = next == brokerStopped
	return resp
}

// after gives records and those of a further decision that is made with them applied.
func (s *state) after(records []metadata.Record, decide func(*state) []metadata.Record) []metadata.Record {
	if len(records) == 0 {
		return decide(s)
	}
	seen := *s
	seen.names = collisions{}
	seen.apply(records)
	return append(records, decide(&seen)...)
}

// checkBrokerEpoch refuses requests of brokers that are not registered, and of earlier
// incarnations.
func (s *state) checkBrokerEpoch(id int32, epoch int64) (*metadata.Broker, error) {
	b := s.image.Broker(id)
	switch {
	case b == nil:
		return nil, kafkaerr.New(kafkaerr.StaleBrokerEpoch, fmt.Sprintf("broker %d is not registered", id))
	case b.Epoch != epoch:
		return nil, kafkaerr.New(kafkaerr.StaleBrokerEpoch, fmt.Sprintf("broker %d has epoch %d, not %d", id, b.Epoch, epoch))
	}
	return b, nil
}

// brokerState is what a broker is for the cluster (Kafka's BrokerControlState).
type brokerState int8

const (
	brokerFenced brokerState = iota
	brokerUnfenced
	brokerShuttingDown
	brokerStopped // fenced, and may end its process
)

func currentBrokerState(b *metadata.Broker) brokerState {
	switch {
	case b.Fenced:
		return brokerFenced
	case b.InControlledShutdown:
		return brokerShuttingDown
	}
	return brokerUnfenced
}

func (s *state) nextBrokerState(b *metadata.Broker, n *session, req *kmsg.BrokerHeartbeatRequest) brokerState {
	switch current := currentBrokerState(b); current {
	case brokerFenced:
		switch {
		case req.WantShutdown:
			return brokerStopped
		case !req.WantFence && req.CurrentMetadataOffset >= n.caughtUpAt:
			return brokerUnfenced
		}
		return current
	case brokerUnfenced:
		switch {
		case req.WantShutdown && (req.WantFence || s.image.NumBrokers() == 1 || !s.leadsAny(b.ID)):
			return brokerStopped
		case req.WantFence:
			return brokerFenced
		case req.WantShutdown:
			return brokerShuttingDown
		}
		return current
	default:
		if !s.leadsAny(b.ID) && n.shutdownAt <= s.lowestActivePosition() {
			return brokerStopped
		}
		return current
	}
}

// stateRecords gives the records that lead a broker to its next state.
func (s *state) stateRecords(b *metadata.Broker, next brokerState) []metadata.Record {
	current := currentBrokerState(b)
	if current == next || current == brokerFenced && next == brokerStopped {
		return nil
	}
	s.opts.Logger.Info("broker changes its state", "broker", b.ID, "epoch", b.Epoch, "from", current, "to", next)
	switch {
	case next == brokerUnfenced:
		return s.unfence(b)
	case next == brokerShuttingDown:
		return s.startShutdown(b)
	case next == brokerStopped && s.image.NumBrokers() == 1:
		return []metadata.Record{metadata.BrokerChangeRecord{ID: b.ID, Epoch: b.Epoch, Fenced: metadata.Ptr(true)}}
	}
	return s.fence(b)
}

func (b brokerState) String() string {
	return [...]string{"fenced", "unfenced", "shutting down", "stopped"}[b]
}
