package node

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// controllerRig is a registration that runs, and metadata that follows a test's records.
type controllerRig struct {
	*ControllerRegistration
	c     *fakeController
	image *metadata.Image
	want  metadata.Controller
	said  *said // its log; read after synctest.Wait
}

// said is a log that is read while it may be written.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *said) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Reset()
}

func controllerBubble(t *testing.T, test func(*testing.T, *controllerRig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &controllerRig{ControllerRegistration: NewControllerRegistration(2), c: &fakeController{answer: obliging}, image: metadata.Empty(), said: new(said)}
		r.want = metadata.Controller{
			ID: 2, IncarnationID: uuid.UUID{1}, Listeners: []metadata.Endpoint{{Name: "CONTROLLER", Host: "h", Port: 9093}},
			Features: []metadata.Feature{{Name: metadata.FeatureMetadata, Min: 1, Max: 1}},
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.Run(ctx, ControllerOptions{
				Incarnation: r.want.IncarnationID, Listeners: r.want.Listeners, Features: r.want.Features,
				Channel: r.c, Logger: slog.New(slog.NewTextHandler(r.said, nil)),
			})
		}()
		test(t, r)
		cancel()
		<-done
	})
}

func (r *controllerRig) commit(t *testing.T, records ...metadata.Record) {
	t.Helper()
	d := metadata.NewDelta(r.image)
	if err := d.ReplayAll(records...); err != nil {
		t.Fatal(err)
	}
	r.image = d.Image(metadata.Position{Index: r.image.Position().Index + 1})
	r.OnMetadataUpdate(d, r.image)
	synctest.Wait()
}

// asked counts the registrations since it was called last.
func (r *controllerRig) asked() int {
	requests, _ := r.c.take()
	return len(requests)
}

func (r *controllerRig) found(t *testing.T) {
	t.Helper()
	r.commit(t, metadata.BootstrapRecord{
		ClusterID: "c", Durability: metadata.DurabilityFsync, Features: []metadata.FeatureLevel{{Name: metadata.FeatureMetadata, Level: 1}},
	})
}

// A controller registers when there is a cluster, and then has nothing to say until metadata
// shows something else than what it is.
func TestControllerRegistersOnce(t *testing.T) {
	controllerBubble(t, func(t *testing.T, r *controllerRig) {
		<-time.After(time.Minute)
		if n := r.asked(); n != 0 {
			t.Fatalf("%d registrations in a cluster that has no name yet", n)
		}
		r.found(t)
		requests, _ := r.c.take()
		req, ok := requests[0].(*kmsg.ControllerRegistrationRequest)
		if !ok || req.ControllerID != 2 || req.IncarnationID != [16]byte{1} || req.Listeners[0].Port != 9093 || req.Features[0].MaxSupportedVersion != 1 {
			t.Fatalf("%+v", requests[0])
		}
		r.commit(t, metadata.RegisterControllerRecord{Controller: r.want})
		<-time.After(time.Hour)
		if n := r.asked(); n != 0 {
			t.Errorf("%d registrations more, of a controller that is registered", n)
		}
		other := r.want
		other.IncarnationID = uuid.UUID{9}
		r.commit(t, metadata.RegisterControllerRecord{Controller: other})
		if n := r.asked(); n != 1 {
			t.Errorf("%d registrations where metadata shows another process", n)
		}
	})
}

// One that is refused tries again every second, and one that finds no active controller soon.
func TestControllerTriesAgain(t *testing.T) {
	controllerBubble(t, func(t *testing.T, r *controllerRig) {
		r.c.script(notController)
		r.found(t)
		<-time.After(time.Second)
		if n := r.asked(); n < 15 || n > 21 {
			t.Errorf("%d registrations in a second without a controller", n)
		}
		r.c.script(refusing(kafkaerr.UnknownControllerID))
		<-time.After(10 * time.Second)
		if n := r.asked(); n < 9 || n > 11 {
			t.Errorf("%d registrations in 10 s that are refused", n)
		}
	})
}

// One whose metadata log is not the one that the controller writes, such as what was there before
// a restore, is registered and never sees it: it says so.
func TestControllerSaysThatMetadataDoesNotShowIt(t *testing.T) {
	controllerBubble(t, func(t *testing.T, r *controllerRig) {
		r.found(t)
		<-time.After(5 * time.Second)
		synctest.Wait()
		if said := r.said.String(); said != "" {
			t.Errorf("after 5 s: %s", said)
		}
		<-time.After(30 * time.Second)
		synctest.Wait()
		if said := r.said.String(); strings.Count(said, "its own metadata does not show it") != 1 {
			t.Errorf("after 35 s: %s", said)
		}
		r.commit(t, metadata.RegisterControllerRecord{Controller: r.want})
		r.said.Reset()
		<-time.After(time.Hour)
		synctest.Wait()
		if r.said.String() != "" {
			t.Errorf("of a registration that metadata shows: %s", r.said)
		}
	})
}
