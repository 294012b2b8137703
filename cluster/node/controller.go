package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/controller"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// registrationPause separates registrations of a controller: it has been told that it is
// registered, but metadata does not show it, or shows another process with its id.
const registrationPause = time.Second

// unseenPause is how long metadata may take to show a registration before the log says so.
const unseenPause = 10 * time.Second

// ControllerRegistration keeps this node registered as a controller (KIP-919,
// ControllerRegistrationManager): whenever metadata does not show what this process is, it
// says so to the active controller. It is a publisher of metadata; Run does the rest.
type ControllerRegistration struct {
	id    int32
	image atomic.Pointer[metadata.Image]
	wake  chan struct{} // room for one: image is another one
}

// ControllerOptions is what Run registers, and how.
type ControllerOptions struct {
	Incarnation uuid.UUID // drawn anew by each process
	Listeners   []metadata.Endpoint
	Features    []metadata.Feature
	Channel     ControllerChannel
	Logger      *slog.Logger
	// Joining has it register also before it has metadata: the cluster gives it the log when
	// it knows of it.
	Joining bool
}

// NewControllerRegistration makes the publisher of the controller with this id.
func NewControllerRegistration(id int32) *ControllerRegistration {
	return &ControllerRegistration{id: id, wake: make(chan struct{}, 1)}
}

// Name is metalog.Publisher.
func (*ControllerRegistration) Name() string { return "controller registration" }

// OnMetadataUpdate is metalog.Publisher.
func (r *ControllerRegistration) OnMetadataUpdate(delta *metadata.Delta, next *metadata.Image) {
	if r.image.Load() != nil && !delta.ControllerChanged(r.id) && !delta.FeaturesChanged() && !delta.ClusterChanged() {
		return
	}
	r.image.Store(next)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run registers this process, again and again if need be, until ctx ends.
func (r *ControllerRegistration) Run(ctx context.Context, o ControllerOptions) {
	want := metadata.Controller{ID: r.id, IncarnationID: o.Incarnation, Listeners: o.Listeners, Features: o.Features}
	timer := time.NewTimer(0)
	defer timer.Stop()
	paused, complained, accepted := false, time.Time{}, time.Time{}
	for {
		select {
		case <-timer.C:
			paused = false
		case <-r.wake:
		case <-ctx.Done():
			return
		}
		if !r.due(&want, o.Joining) {
			accepted = time.Time{}
			continue
		}
		if paused {
			continue
		}
		pause := registrationPause
		err := register(ctx, o.Channel, &want)
		switch {
		case err == nil && accepted.IsZero():
			accepted = time.Now()
		case err == nil && time.Since(accepted) >= unseenPause && time.Since(complained) >= complaintPause:
			complained = time.Now()
			o.Logger.Warn("this node is registered as a controller, but its own metadata does not show it: " +
				"was metadata restored from a backup? The active controller says what to do")
		case err == nil:
		case errors.Is(err, kafkaerr.NotController):
			pause = retryPause
		case ctx.Err() == nil && time.Since(complained) >= complaintPause:
			complained = time.Now()
			o.Logger.Warn("this node is not registered as a controller, it tries again", "error", err)
		}
		paused = true
		timer.Reset(pause)
	}
}

// due reports whether metadata names the cluster, and shows another registration than this;
// unknown is the answer where it does not name one.
func (r *ControllerRegistration) due(want *metadata.Controller, unknown bool) bool {
	image := r.image.Load()
	if image == nil || image.ClusterID() == "" {
		return unknown
	}
	is := image.Controller(r.id)
	return is == nil || is.IncarnationID != want.IncarnationID || !slices.Equal(is.Listeners, want.Listeners) ||
		!slices.Equal(is.Features, want.Features)
}

func register(ctx context.Context, channel ControllerChannel, c *metadata.Controller) error {
	reply, _, err := channel.Handle(ctx, controller.Call{Request: registrationOf(c)})
	if err != nil {
		return fmt.Errorf("register controller %d: %w", c.ID, err)
	}
	resp, ok := reply.(*kmsg.ControllerRegistrationResponse)
	if !ok {
		return fmt.Errorf("registration of a controller answered with %T", reply)
	}
	err = kerr.ErrorForCode(resp.ErrorCode)
	if err != nil && resp.ErrorMessage != nil {
		err = fmt.Errorf("%w: %s", err, *resp.ErrorMessage)
	}
	return err
}

func registrationOf(c *metadata.Controller) *kmsg.ControllerRegistrationRequest {
	req := kmsg.NewPtrControllerRegistrationRequest()
	req.ControllerID, req.IncarnationID = c.ID, c.IncarnationID
	for _, l := range c.Listeners {
		r := kmsg.NewControllerRegistrationRequestListener()
		r.Name, r.Host, r.Port, r.SecurityProtocol = l.Name, l.Host, uint16(l.Port), l.SecurityProtocol
		req.Listeners = append(req.Listeners, r)
	}
	for _, f := range c.Features {
		r := kmsg.NewControllerRegistrationRequestFeature()
		r.Name, r.MinSupportedVersion, r.MaxSupportedVersion = f.Name, f.Min, f.Max
		req.Features = append(req.Features, r)
	}
	return req
}
