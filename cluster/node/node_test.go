package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/klamm-mq/klamm/cluster/controller"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeController answers by a script and notes what it is asked.
type fakeController struct {
	mu       sync.Mutex
	requests []kmsg.Request
	times    []time.Time
	answer   func(kmsg.Request) (kmsg.Response, metadata.Position, error)
}

func (c *fakeController) Handle(_ context.Context, call controller.Call) (kmsg.Response, metadata.Position, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, call.Request)
	c.times = append(c.times, time.Now())
	return c.answer(call.Request)
}

// script changes what is answered from now on.
func (c *fakeController) script(answer func(kmsg.Request) (kmsg.Response, metadata.Position, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = answer
}

// take gives what was asked since the last take.
func (c *fakeController) take() ([]kmsg.Request, []time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() { c.requests, c.times = nil, nil }()
	return c.requests, c.times
}

// fakeMetadata publishes what a test says.
type fakeMetadata struct {
	mu      sync.Mutex
	at      metadata.Position
	from    metadata.Position // of StartPublishing
	changed chan struct{}
}

func (m *fakeMetadata) publish(index uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at.Index = index
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *fakeMetadata) Published() metadata.Position {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at
}

func (m *fakeMetadata) StartPublishing(at metadata.Position) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.from = at
}

func (m *fakeMetadata) WaitPublished(ctx context.Context, at metadata.Position) error {
	for {
		m.mu.Lock()
		reached, changed := m.at.Index >= at.Index, m.changed
		m.mu.Unlock()
		if reached {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

type rig struct {
	*Node
	c *fakeController
	m *fakeMetadata
}

// bubble runs a test in virtual time on a node whose controller registers it with epoch 7
// at position 7 and puts it in service when it has caught up.
func bubble(t *testing.T, test func(*testing.T, rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := rig{c: &fakeController{answer: obliging}, m: &fakeMetadata{at: metadata.Position{Index: 7}, changed: make(chan struct{})}}
		r.Node = New(Options{
			NodeID: 1, ClusterID: "cluster", Incarnation: uuid.UUID{1}, LogDirs: []uuid.UUID{{2}, {3}},
			Listeners:           []metadata.Endpoint{{Name: "PLAINTEXT", Host: "h", Port: 9092, Unadvertised: true}},
			Features:            []metadata.Feature{{Name: "klamm.metadata", Min: 1, Max: 1}},
			PreviousBrokerEpoch: -1, Channel: r.c, Metadata: r.m, Departures: NewDepartures(1),
		})
		test(t, r)
		r.Close()
	})
}

func obliging(req kmsg.Request) (kmsg.Response, metadata.Position, error) {
	at := metadata.Position{Index: 7}
	switch req := req.(type) {
	case *kmsg.BrokerRegistrationRequest:
		resp := req.ResponseKind().(*kmsg.BrokerRegistrationResponse)
		resp.BrokerEpoch = 7
		return resp, at, nil
	case *kmsg.BrokerHeartbeatRequest:
		resp := req.ResponseKind().(*kmsg.BrokerHeartbeatResponse)
		resp.IsCaughtUp = req.CurrentMetadataOffset >= 7
		resp.IsFenced = req.WantFence || !resp.IsCaughtUp || req.WantShutdown
		resp.ShouldShutdown = req.WantShutdown
		return resp, at, nil
	case *kmsg.AllocateProducerIDsRequest:
		resp := req.ResponseKind().(*kmsg.AllocateProducerIDsResponse)
		resp.ProducerIDLen = 1000
		return resp, at, nil
	}
	return req.ResponseKind(), at, nil
}

// refusing answers every request with an error code.
func refusing(kind *kafkaerr.Kind) func(kmsg.Request) (kmsg.Response, metadata.Position, error) {
	return func(req kmsg.Request) (kmsg.Response, metadata.Position, error) {
		return controller.ErrorResponse(req, kafkaerr.New(kind, "because")), metadata.Position{}, nil
	}
}

func notController(kmsg.Request) (kmsg.Response, metadata.Position, error) {
	return nil, metadata.Position{}, kafkaerr.NotController
}

func (r rig) start(t *testing.T) {
	t.Helper()
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

func (r rig) inService(t *testing.T) {
	t.Helper()
	r.start(t)
	if err := r.Unfence(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	r.c.take()
}

func TestRegistrationSaysWhatTheBrokerIs(t *testing.T) {
	bubble(t, func(t *testing.T, r rig) {
		r.start(t)
		asked, _ := r.c.take()
		req := asked[0].(*kmsg.BrokerRegistrationRequest)
		if req.BrokerID != 1 || req.ClusterID != "cluster" || req.IncarnationID != [16]byte{1} || len(req.LogDirs) != 2 ||
			req.Listeners[0].UnknownTags.Len() != 1 || req.Features[0].MaxSupportedVersion != 1 || req.PreviousBrokerEpoch != -1 {
			t.Errorf("%+v", req)
		}
		if r.BrokerEpoch() != 7 || r.State() != Fenced || r.m.from.Index != 7 {
			t.Errorf("epoch %d, %s, publishing from %v", r.BrokerEpoch(), r.State(), r.m.from)
		}
	})
}

func TestRegistrationIsRepeatedUntilAControllerTakesIt(t *testing.T) {
	bubble(t, func(t *testing.T, r rig) {
		r.c.script(notController)
		started := make(chan error, 1)
		go func() { started <- r.Start(t.Context()) }()
		time.Sleep(time.Second)
		if asked, _ := r.c.take(); len(asked) < 15 || len(asked) > 25 {
			t.Errorf("%d registrations in a second without controller", len(asked))
		}
		r.c.script(refusing(kafkaerr.DuplicateBrokerRegistration))
		time.Sleep(2 * time.Second)
		if asked, _ := r.c.take(); len(asked) < 3 || len(asked) > 6 {
			t.Errorf("%d registrations in two seconds of refusal", len(asked))
		}
		r.c.script(obliging)
		if err := <-started; err != nil {
			t.Fatal(err)
		}
	})
}

func TestFinalRefusalEndsTheStart(t *testing.T) {
	for _, kind := range []*kafkaerr.Kind{kafkaerr.InconsistentClusterID, kafkaerr.InvalidRegistration, kafkaerr.UnsupportedVersion} {
		bubble(t, func(t *testing.T, r rig) {
			r.c.script(refusing(kind))
			err := r.Start(t.Context())
			if !errors.Is(err, kind) || !strings.Contains(err.Error(), "because") {
				t.Fatal(err)
			}
		})
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, r rig) {
		r.c.script(notController)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Start(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	})
}

func TestHeartbeatsComeAtTheInterval(t *testing.T) {
	bubble(t, func(t *testing.T, r rig) {
		r.inService(t)
		time.Sleep(5*time.Second + time.Millisecond)
		synctest.Wait()
		asked, times := r.c.take()
		if len(asked) != 10 {
			t.Fatalf("%d heartbeats in 5 s", len(asked))
		}
		for i := 1; i < len(times); i++ {
			if d := times[i].Sub(times[i-1]); d != 500*time.Millisecond {
				t.Fatalf("%s between heartbeats", d)
			}
		}
		req := asked[0].(*kmsg.BrokerHeartbeatRequest)
		if req.BrokerEpoch != 7 || req.CurrentMetadataOffset != 7 || req.WantFence || req.WantShutdown {
			t.Fatalf("%+v", req)
		}
	})
}

func TestFencedUntilUnfenceIsCalled(t *testing.T) {
	bubble(t, func(t *testing.T, r rig) {
		r.start(t)
		time.Sleep(3 * time.Second)
		if r.State() != Fenced {
			t.Fatal(r.State())
		}
		begin := time.Now()
		if err := r.Unfence(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > 0 {
			t.Fatalf("in service after %s: the heartbeat was not sent at once", took)
		}
	})
}

func TestNotInServiceBeforeTheOwnRegistrationIsPublished(t *testing.T) {
	bubble(t, func(t *testing.T, r rig) {
		r.m.publish(6)
		r.start(t)
		unfenced := make(chan error, 1)
		go func() { unfenced <- r.Unfence(t.Context()) }()
		time.Sleep(100 * time.Millisecond)
		if asked, _ := r.c.take(); r.State() != Fenced || len(asked) < 8 {
			t.Fatalf("%s after %d requests", r.State(), len(asked))
		}
		r.m.publish(7)
		if err := <-unfenced; err != nil {
			t.Fatal(err)
		}
	})
}

func TestNewControllerHearsOfTheNodeSoon(t *testing.T) {
	bubble(t, func(t *testing.T, r rig) {
		r.inService(t)
		r.c.script(notController)
		time.Sleep(10 * time.Second)
		r.c.take()
		r.c.script(obliging)
		time.Sleep(retryPause)
		synctest.Wait()
		if asked, _ := r.c.take(); len(asked) != 1 {
			t.Fatalf("%d heartbeats within %s of an election; the controller suspects after 200 ms", len(asked), retryPause)
		}
	})
}

func TestFencedNodeComesBackByItself(t *testing.T) {
	bubble(t, func(t *testing.T, r rig) {
		r.inService(t)
		fence := true
		r.c.script(func(req kmsg.Request) (kmsg.Response, metadata.Position, error) {
			resp, at, err := obliging(req)
			if h, ok := resp.(*kmsg.BrokerHeartbeatResponse); ok {
				h.IsFenced, fence = fence, false
			}
			return resp, at, err
		})
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		if r.State() != Fenced {
			t.Fatal(r.State())
		}
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		if r.State() != Unfenced {
			t.Fatal(r.State())
		}
	})
}

func TestStaleEpochRegistersAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r rig) {
		r.inService(t)
		stale := true
		r.c.script(func(req kmsg.Request) (kmsg.Response, metadata.Position, error) {
			resp, at, err := obliging(req)
			switch resp := resp.(type) {
			case *kmsg.BrokerHeartbeatResponse:
				if stale {
					resp.ErrorCode = kafkaerr.StaleBrokerEpoch.Code
				}
			case *kmsg.BrokerRegistrationResponse:
				resp.BrokerEpoch, stale = 9, false
			}
			return resp, at, err
		})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if r.BrokerEpoch() != 9 || r.State() != Unfenced {
			t.Fatalf("epoch %d, %s", r.BrokerEpoch(), r.State())
		}
	})
}

func TestControlledShutdownEndsWhenTheControllerAllows(t *testing.T) {
	bubble(t, func(t *testing.T, r rig) {
		r.inService(t)
		moving := 5
		r.c.script(func(req kmsg.Request) (kmsg.Response, metadata.Position, error) {
			resp, at, err := obliging(req)
			h := resp.(*kmsg.BrokerHeartbeatResponse)
			if moving--; moving > 0 {
				h.IsFenced, h.ShouldShutdown = false, false
			}
			return resp, at, err
		})
		begin := time.Now()
		if err := r.ControlledShutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != 4*shutdownPause {
			t.Fatalf("took %s", took)
		}
		r.c.take()
		time.Sleep(5 * time.Second)
		if asked, _ := r.c.take(); r.State() != Stopped || len(asked) != 0 {
			t.Fatalf("%s, %d requests after the end", r.State(), len(asked))
		}
	})
}

func TestControlledShutdownIsBoundedByItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, r rig) {
		r.inService(t)
		r.c.script(notController)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.ControlledShutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	})
}

func TestControlledShutdownOfANodeThatNeverJoined(t *testing.T) {
	bubble(t, func(t *testing.T, r rig) {
		if err := r.ControlledShutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestFailuresAreReportedAtOnceAndUntilCleared(t *testing.T) {
	bubble(t, func(t *testing.T, r rig) {
		r.inService(t)
		bad := controller.FailedReplica{TopicID: uuid.UUID{9}, Partition: 4}
		r.ReportOfflineDir(uuid.UUID{3})
		r.ReportFailedReplica(bad.TopicID, bad.Partition)
		r.ReportFailedReplica(bad.TopicID, bad.Partition)
		synctest.Wait()
		time.Sleep(time.Second)
		asked, _ := r.c.take()
		last := asked[len(asked)-1].(*kmsg.BrokerHeartbeatRequest)
		failed, err := controller.FailedReplicas(last)
		if err != nil || !slices.Equal(failed, []controller.FailedReplica{bad}) || !slices.Equal(last.OfflineLogDirs, [][16]byte{{3}}) {
			t.Fatalf("%v %v %v", failed, last.OfflineLogDirs, err)
		}
		r.ClearFailedReplica(bad.TopicID, bad.Partition)
		time.Sleep(time.Second)
		asked, _ = r.c.take()
		if failed, _ := controller.FailedReplicas(asked[len(asked)-1].(*kmsg.BrokerHeartbeatRequest)); len(failed) != 0 {
			t.Fatalf("still reported: %v", failed)
		}
	})
}

func TestProducerIDsAreUniqueAndFetchedAhead(t *testing.T) {
	bubble(t, func(t *testing.T, r rig) {
		r.inService(t)
		next := int64(0)
		r.c.script(func(req kmsg.Request) (kmsg.Response, metadata.Position, error) {
			resp, at, err := obliging(req)
			if ids, ok := resp.(*kmsg.AllocateProducerIDsResponse); ok {
				ids.ProducerIDStart = next
				next += 1000
			}
			return resp, at, err
		})
		for want := range int64(900) {
			if id, err := r.NextProducerID(t.Context()); err != nil || id != want {
				t.Fatalf("id %d, want %d: %v", id, want, err)
			}
		}
		synctest.Wait()
		if asked, _ := r.c.take(); len(asked) != 2 {
			t.Fatalf("%d requests when a tenth of the first block is left", len(asked))
		}
		// The controller is away; what is fetched goes on being used.
		r.c.script(notController)
		for want := int64(900); want < 2000; want++ {
			if id, err := r.NextProducerID(t.Context()); err != nil || id != want {
				t.Fatalf("id %d, want %d: %v", id, want, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.NextProducerID(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	})
}

func TestConcurrentProducerIDsAreUnique(t *testing.T) {
	bubble(t, func(t *testing.T, r rig) {
		r.inService(t)
		next := int64(0)
		r.c.script(func(req kmsg.Request) (kmsg.Response, metadata.Position, error) {
			resp, at, err := obliging(req)
			if ids, ok := resp.(*kmsg.AllocateProducerIDsResponse); ok {
				ids.ProducerIDStart = next
				next += 1000
			}
			return resp, at, err
		})
		var mu sync.Mutex
		seen := map[int64]bool{}
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				for range 200 {
					id, err := r.NextProducerID(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					if seen[id] {
						t.Errorf("id %d twice", id)
					}
					seen[id] = true
					mu.Unlock()
				}
			})
		}
		wg.Wait()
	})
}

func createTopics(timeoutMs int32) controller.Call {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, timeoutMs
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic = "a"
	req.Topics = append(req.Topics, t)
	return controller.Call{Request: req}
}

func TestCallWaitsForTheOwnImage(t *testing.T) {
	bubble(t, func(t *testing.T, r rig) {
		r.m.publish(3)
		done := make(chan error, 1)
		go func() {
			_, at, err := r.Call(t.Context(), createTopics(30_000))
			done <- errors.Join(err, wantIndex(at, 7))
		}()
		time.Sleep(time.Second)
		select {
		case err := <-done:
			t.Fatalf("answered before the image was published: %v", err)
		default:
		}
		r.m.publish(7)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

func wantIndex(at metadata.Position, index uint64) error {
	if at.Index != index {
		return fmt.Errorf("position %d, want %d", at.Index, index)
	}
	return nil
}

func TestCallIsRepeatedUntilAControllerTakesIt(t *testing.T) {
	bubble(t, func(t *testing.T, r rig) {
		r.c.script(notController)
		done := make(chan error, 1)
		go func() {
			_, _, err := r.Call(t.Context(), createTopics(30_000))
			done <- err
		}()
		time.Sleep(time.Second)
		r.c.script(obliging)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

func TestCallTimesOutAsKafkaDoes(t *testing.T) {
	for timeoutMs, want := range map[int32]time.Duration{5000: 5 * time.Second, 0: shortestWait, -1: shortestWait} {
		bubble(t, func(t *testing.T, r rig) {
			r.c.script(notController)
			begin := time.Now()
			resp, _, err := r.Call(t.Context(), createTopics(timeoutMs))
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begin); took < want || took > want+retryPause {
				t.Errorf("timeout %d: answered after %s", timeoutMs, took)
			}
			if code := resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode; code != kafkaerr.RequestTimedOut.Code {
				t.Errorf("timeout %d: code %d", timeoutMs, code)
			}
		})
	}
}

func TestCallAnswersThoughTheImageIsLate(t *testing.T) {
	bubble(t, func(t *testing.T, r rig) {
		r.m.publish(3)
		resp, _, err := r.Call(t.Context(), createTopics(2000))
		if err != nil || resp.(*kmsg.CreateTopicsResponse) == nil {
			t.Fatal(resp, err)
		}
	})
}

func TestCallEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, r rig) {
		r.c.script(notController)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := r.Call(ctx, createTopics(30_000)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		r.c.script(func(kmsg.Request) (kmsg.Response, metadata.Position, error) {
			return nil, metadata.Position{}, kafkaerr.InvalidRequest
		})
		if _, _, err := r.Call(t.Context(), createTopics(30_000)); !errors.Is(err, kafkaerr.InvalidRequest) {
			t.Fatal(err)
		}
	})
}
