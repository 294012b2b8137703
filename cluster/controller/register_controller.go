package controller

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// registerController decides a ControllerRegistration request, version 0
// (ClusterControlManager.registerController, KIP-919): from now on clients are told that this
// controller is at these addresses, and features have levels that it supports. Nothing
// depends on it that the quorum decides by, so the last process to say so is believed.
//
// Kafka takes the registration of anybody. Here it must be one of the controllers, so that
// there are not more of them than the configuration says.
func (s *state) registerController(now time.Time, call Call) decision {
	req := call.Request.(*kmsg.ControllerRegistrationRequest)
	c := registeredController(req)
	if err := s.checkController(c); err != nil {
		s.refused(now, "controller", c.ID, err)
		return decision{response: ErrorResponse(req, err)}
	}
	if is := s.image.Controller(c.ID); is != nil && reflect.DeepEqual(is, c) {
		return decision{response: req.ResponseKind()} // one that does not get this log repeats it every second
	}
	record := metadata.RegisterControllerRecord{Controller: *c}
	b, err := metadata.EncodeRecord(record, s.image.Feature(metadata.FeatureMetadata))
	switch {
	case err != nil:
		return decision{response: ErrorResponse(req, kafkaerr.New(kafkaerr.UnsupportedVersion, err.Error()))}
	case len(b) > maxRegistrationBytes:
		return decision{response: ErrorResponse(req, kafkaerr.New(kafkaerr.InvalidRequest, fmt.Sprintf(
			"controller %d: %d bytes of registration, at most %d", c.ID, len(b), maxRegistrationBytes)))}
	}
	s.opts.Logger.Info("controller registers", "controller", c.ID, "incarnation", c.IncarnationID.String())
	return decision{records: []metadata.Record{record}, response: req.ResponseKind()}
}

func registeredController(req *kmsg.ControllerRegistrationRequest) *metadata.Controller {
	c := &metadata.Controller{ID: req.ControllerID, IncarnationID: req.IncarnationID}
	for i := range req.Listeners {
		l := &req.Listeners[i]
		c.Listeners = append(c.Listeners, metadata.Endpoint{Name: l.Name, Host: l.Host, Port: int32(l.Port), SecurityProtocol: l.SecurityProtocol})
	}
	for _, f := range req.Features {
		c.Features = append(c.Features, metadata.Feature{Name: f.Name, Min: f.MinSupportedVersion, Max: f.MaxSupportedVersion})
	}
	return c
}

func (s *state) checkController(c *metadata.Controller) error {
	switch {
	case c.ID < 0 || c.IncarnationID.IsZero():
		return kafkaerr.New(kafkaerr.InvalidRequest, fmt.Sprintf("controller %d: a registration needs an id and an incarnation id", c.ID))
	case s.opts.Controllers != nil && !slices.Contains(s.opts.Controllers, c.ID):
		return kafkaerr.New(kafkaerr.UnknownControllerID, fmt.Sprintf(
			"node %d is not among the controllers of this cluster: do all nodes have the same controller.quorum.voters?", c.ID))
	}
	return nil
}
