package controller

import (
	"strings"
	"time"

	"github.com/klamm-mq/klamm/cluster/quota"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// mutations charges the partitions that one request makes or deletes to the quota of its
// client (Kafka's ControllerMutationQuota, KIP-599). Since it is not known before the request
// is looked at how many these are, each topic is charged alone, also where the request only
// asks whether it would be carried out.
type mutations struct {
	quota  *quota.Manager // nil: the request counts for nobody
	client quota.Client
	now    time.Time
	strict bool          // else it is carried out whatever the quota
	pause  time.Duration // of the last charge above the quota
}

// mutations begins the charges of a call. Clients that know THROTTLING_QUOTA_EXCEEDED, from a
// version on, are refused, older ones only told to pause.
func (s *state) mutations(now time.Time, call Call, strictSince int16) *mutations {
	m := &mutations{now: now, strict: call.Request.GetVersion() >= strictSince}
	if call.Metered && s.opts.Mutations != nil && s.opts.Mutations.Enabled() {
		_, user, _ := strings.Cut(call.Principal, ":")
		m.quota, m.client = s.opts.Mutations, quota.Client{User: user, ClientID: call.ClientID}
	}
	return m
}

// charge counts n partitions, unless it refuses them.
func (m *mutations) charge(n int) error {
	switch {
	case m.quota == nil:
		return nil
	case !m.strict:
		m.note(m.quota.Force(m.now, m.client, float64(n)))
		return nil
	}
	pause := m.quota.Take(m.now, m.client, float64(n))
	if pause == 0 {
		return nil
	}
	m.note(pause)
	return kafkaerr.New(kafkaerr.ThrottlingQuotaExceeded, "")
}

func (m *mutations) note(pause time.Duration) {
	if pause > 0 {
		m.pause = pause
	}
}

// throttleMillis is for the answer: how long the client has to pause.
func (m *mutations) throttleMillis() int32 {
	if m.pause > 0 {
		m.quota.Paused(m.now, m.client, m.pause)
	}
	return int32(m.pause.Milliseconds())
}
