package controller

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/uuid"
)

// Who is refused asks again and again. The log says it once for each node and reason, and
// again after some minutes.
func TestRefusedRegistrationsAreLoggedOnce(t *testing.T) {
	var out bytes.Buffer
	w := twoBrokers()
	w.opts.Logger = slog.New(slog.NewTextHandler(&out, nil))
	w.opts.Controllers = []int32{1}
	broker := func(now time.Time, id int32, cluster string) {
		req := kmsg.NewPtrBrokerRegistrationRequest()
		req.BrokerID, req.ClusterID = id, cluster
		w.registerBroker(now, Call{Request: req}, addressNotProbed)
	}
	now := time.UnixMilli(1_700_000_000_000)
	for i := range 20 {
		again := now.Add(time.Duration(i) * 500 * time.Millisecond)
		broker(again, 7, "another")
		broker(again, 8, "another")
		broker(again, 8, w.image.ClusterID()) // for want of an incarnation
		req := kmsg.NewPtrControllerRegistrationRequest()
		req.ControllerID, req.IncarnationID = 9, uuid.UUID{1}
		w.registerController(again, Call{Request: req})
	}
	if n := strings.Count(out.String(), "refused"); n != 4 {
		t.Errorf("%d lines, want 4:\n%s", n, out.String())
	}
	broker(now.Add(complaintPause), 7, "another")
	if n := strings.Count(out.String(), "refused"); n != 5 {
		t.Errorf("%d lines, want 5:\n%s", n, out.String())
	}
}

// However many there are, what is kept of them is bounded, and so is the log.
func TestComplaintsAreBounded(t *testing.T) {
	var c complaints
	now, due := time.UnixMilli(1_700_000_000_000), 0
	for i := range int32(5 * maxComplaints) {
		if c.due(now, complaint{node: i}) {
			due++
		}
	}
	if due != maxComplaints || len(c.last) != maxComplaints {
		t.Errorf("%d said, %d kept", due, len(c.last))
	}
	if !c.due(now.Add(complaintPause), complaint{node: -1}) || len(c.last) != 1 {
		t.Errorf("%d are kept after the pause", len(c.last))
	}
}
