package controller

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// unregisterBroker decides an UnregisterBroker request, version 0
// (ReplicationControlManager.unregisterBroker): the broker leaves ISRs and leaderships as
// if it were fenced, and is forgotten. Nothing asks whether it still runs: if it does, it
// registers again.
func (s *state) unregisterBroker(call Call) decision {
	req := call.Request.(*kmsg.UnregisterBrokerRequest)
	b := s.image.Broker(req.BrokerID)
	if b == nil {
		return decision{response: ErrorResponse(req, kafkaerr.New(kafkaerr.BrokerIDNotRegistered, fmt.Sprintf("broker %d is not registered", req.BrokerID)))}
	}
	s.opts.Logger.Info("broker is unregistered", "broker", b.ID, "epoch", b.Epoch, "by", call.Principal)
	// The registration goes last, so that records cut short by a failure are made again.
	records := append(s.removeFromISRs(b.ID), metadata.UnregisterBrokerRecord{ID: b.ID, Epoch: b.Epoch})
	response := kmsg.NewPtrUnregisterBrokerResponse()
	response.ErrorMessage = new(string) // Kafka's is empty, not null
	return decision{records: records, response: response}
}
