package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// A registration is taken from a controller, replaces an earlier one, and says which levels of
// features there may be.
func TestRegisterController(t *testing.T) {
	w := twoBrokers()
	w.opts.Controllers = []int32{1, 2}
	records := 0
	register := func(id int32, incarnation byte, host string, most int16) int16 {
		req := kmsg.NewPtrControllerRegistrationRequest()
		req.ControllerID, req.IncarnationID = id, uuid.UUID{incarnation}
		req.Listeners = append(req.Listeners, kmsg.ControllerRegistrationRequestListener{Name: "CONTROLLER", Host: host, Port: 9093})
		req.Features = append(req.Features, kmsg.ControllerRegistrationRequestFeature{Name: "some", MinSupportedVersion: 1, MaxSupportedVersion: most})
		d := w.registerController(time.UnixMilli(1_700_000_000_000), Call{Request: req})
		w.apply(d.records)
		records += len(d.records)
		resp := d.response.(*kmsg.ControllerRegistrationResponse)
		if (resp.ErrorMessage != nil) != (resp.ErrorCode != 0) {
			t.Errorf("%+v", resp)
		}
		return resp.ErrorCode
	}
	for i, c := range []struct {
		id          int32
		incarnation byte
		host        string
		code        int16
	}{
		{1, 7, "one", 0},
		{2, 8, "two", 0},
		{2, 9, "moved", 0},
		{2, 9, "moved", 0}, // it does not see in metadata that it is registered
		{3, 1, "three", kafkaerr.UnknownControllerID.Code},
		{-1, 1, "none", kafkaerr.InvalidRequest.Code},
		{1, 0, "nobody", kafkaerr.InvalidRequest.Code},
		{1, 1, strings.Repeat("long", maxRegistrationBytes), kafkaerr.InvalidRequest.Code},
	} {
		if code := register(c.id, c.incarnation, c.host, 2); code != c.code {
			t.Errorf("case %d: error %d", i, code)
		}
	}
	if records != 3 {
		t.Errorf("%d records of three registrations and one that is repeated", records)
	}
	if c := w.image.Controller(2); c.IncarnationID != (uuid.UUID{9}) || c.Listeners[0] != (metadata.Endpoint{Name: "CONTROLLER", Host: "moved", Port: 9093}) {
		t.Errorf("%+v", c)
	}
	if w.image.Controller(1).Listeners[0].Host != "one" || w.image.Controller(3) != nil {
		t.Error("a refused registration has an effect")
	}

	register(1, 7, "one", 1)
	for _, c := range []struct {
		voters, observers []int32
		refusal           string // "": none
	}{
		{nil, nil, "controller 1 has its levels 1 to 1"}, // this node does not know who votes
		{[]int32{1, 2}, nil, "controller 1 has its levels 1 to 1"},
		{[]int32{2}, []int32{1}, "controller 1 has its levels 1 to 1"},
		{[]int32{2}, nil, ""},
		{[]int32{2, 3}, nil, "controller 3 is not registered"},
	} {
		w.opts.Quorum = func() (voters, observers []int32) { return c.voters, c.observers }
		update := kmsg.NewPtrUpdateFeaturesRequest()
		update.Version = 2
		update.FeatureUpdates = []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: "some", MaxVersionLevel: 2, UpgradeType: 1}}
		resp := w.updateFeatures(Call{Request: update}).response.(*kmsg.UpdateFeaturesResponse)
		said := ""
		if resp.ErrorMessage != nil {
			said = *resp.ErrorMessage
		}
		if (resp.ErrorCode == 0) != (c.refusal == "") || !strings.Contains(said, c.refusal) {
			t.Errorf("voters %v, observers %v: %d %s, want %q", c.voters, c.observers, resp.ErrorCode, said, c.refusal)
		}
	}
}
