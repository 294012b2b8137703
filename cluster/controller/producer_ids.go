package controller

import (
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// producerIDBlockSize is how many producer ids a broker gets at once, as in Kafka.
const producerIDBlockSize = 1000

// allocateProducerIDs decides an AllocateProducerIDs request: the next block of ids is the
// broker's, also if it never uses them.
func (s *state) allocateProducerIDs(_ time.Time, call Call) decision {
	req := call.Request.(*kmsg.AllocateProducerIDsRequest)
	if _, err := s.checkBrokerEpoch(req.BrokerID, req.BrokerEpoch); err != nil {
		return decision{response: ErrorResponse(req, err)}
	}
	first := s.image.NextProducerID()
	if first >= math.MaxInt64-producerIDBlockSize {
		return decision{response: ErrorResponse(req, kafkaerr.New(kafkaerr.UnknownServerError, "no producer ids are left"))}
	}
	resp := req.ResponseKind().(*kmsg.AllocateProducerIDsResponse)
	resp.ProducerIDStart, resp.ProducerIDLen = first, producerIDBlockSize
	return decision{
		records: []metadata.Record{metadata.ProducerIDsRecord{
			BrokerID: req.BrokerID, BrokerEpoch: req.BrokerEpoch, Next: first + producerIDBlockSize,
		}},
		response: resp,
	}
}
