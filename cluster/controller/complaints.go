package controller

import (
	"maps"
	"time"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

const (
	// complaintPause lies between two log lines about the same refusal: who is refused asks
	// again twice a second.
	complaintPause = 5 * time.Minute
	// maxComplaints bounds the different ones within a pause; more are not said.
	maxComplaints = 1000
)

// complaint is a kind of registration, refused to a node for a reason.
type complaint struct {
	what string
	node int32
	code int16
}

// complaints are those that the log has, by when it last said so. The zero value is ready.
type complaints struct{ last map[complaint]time.Time }

// refused says that the registration of a broker or a controller is refused, unless the log
// has said so lately.
func (s *state) refused(now time.Time, what string, node int32, reason error) {
	if s.complaints.due(now, complaint{what, node, kafkaerr.Code(reason)}) {
		s.opts.Logger.Warn("registration refused", "of", what, "id", node, "reason", reason, "said_again_after", complaintPause)
	}
}

func (c *complaints) due(now time.Time, about complaint) bool {
	if at, said := c.last[about]; said && now.Sub(at) < complaintPause {
		return false
	}
	if c.last == nil {
		c.last = make(map[complaint]time.Time)
	}
	if len(c.last) >= maxComplaints {
		maps.DeleteFunc(c.last, func(_ complaint, at time.Time) bool { return now.Sub(at) >= complaintPause })
	}
	if len(c.last) >= maxComplaints {
		return false
	}
	c.last[about] = now
	return true
}
