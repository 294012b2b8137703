package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/metalog"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// rig is a running controller on a fakeLog, in a bubble.
type rig struct {
	t   *testing.T
	c   *Controller
	log *fakeLog
}

// bubble runs a test in virtual time with a controller that is not leader yet.
func bubble(t *testing.T, change func(*Options), test func(*testing.T, *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, log: newFakeLog()}
		opts := Options{NodeID: 1, Log: r.log, Topics: fakeConfigs{}, IDs: &countingReader{}}
		if change != nil {
			change(&opts)
		}
		r.c = New(opts)
		go r.c.Run(t.Context())
		test(t, r)
		r.c.Close()
		r.log.drain()
	})
}

// lead makes the node the leader of a term, 0 that of none, and lets the controller know.
func (r *rig) lead(term metalog.Term) {
	r.log.lead(term)
	synctest.Wait()
}

// reply is what became of a call.
type reply struct {
	response kmsg.Response
	at       metadata.Position
	err      error
}

// call sends a request and waits for what becomes of it.
func (r *rig) call(req kmsg.Request) reply {
	r.t.Helper()
	return <-r.send(req)
}

// send sends a request; it is in the controller's queue, or further, when send returns.
func (r *rig) send(req kmsg.Request) <-chan reply {
	done := make(chan reply, 1)
	go func() {
		resp, at, err := r.c.Handle(r.t.Context(), Call{Request: req})
		done <- reply{resp, at, err}
	}()
	return done
}

func (r *rig) register(id int32, incarnation string) int64 {
	r.t.Helper()
	got := r.call(registration(id, incarnation, fmt.Sprintf("host%d", id)))
	if got.err != nil {
		r.t.Fatal(got.err)
	}
	resp := got.response.(*kmsg.BrokerRegistrationResponse)
	if resp.ErrorCode != 0 {
		r.t.Fatalf("register %d: %s", id, RefusalReason(resp))
	}
	return resp.BrokerEpoch
}

func registration(id int32, incarnation, host string) *kmsg.BrokerRegistrationRequest {
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.Version, req.BrokerID, req.ClusterID = 4, id, "cluster"
	req.IncarnationID = named(incarnation)
	req.LogDirs = [][16]byte{named(fmt.Sprintf("d%d", id))}
	req.Listeners = []kmsg.BrokerRegistrationRequestListener{{Name: "PLAINTEXT", Host: host, Port: 9092}}
	req.Features = []kmsg.BrokerRegistrationRequestFeature{{Name: metadata.FeatureMetadata, MinSupportedVersion: 1, MaxSupportedVersion: 1}}
	return req
}

func (r *rig) heartbeat(id int32, epoch int64) *kmsg.BrokerHeartbeatResponse {
	r.t.Helper()
	got := r.call(r.heartbeatRequest(id, epoch))
	if got.err != nil {
		r.t.Fatal(got.err)
	}
	return got.response.(*kmsg.BrokerHeartbeatResponse)
}

func (r *rig) heartbeatRequest(id int32, epoch int64) *kmsg.BrokerHeartbeatRequest {
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.BrokerID, req.BrokerEpoch, req.CurrentMetadataOffset = id, epoch, int64(r.log.newest().Position().Index)
	return req
}

// brokers registers and unfences brokers 1 to n and gives their epochs.
func (r *rig) brokers(n int32) map[int32]int64 {
	r.t.Helper()
	epochs := map[int32]int64{}
	for id := int32(1); id <= n; id++ {
		epochs[id] = r.register(id, fmt.Sprintf("i%d", id))
		if resp := r.heartbeat(id, epochs[id]); resp.ErrorCode != 0 || resp.IsFenced {
			r.t.Fatalf("broker %d: %+v", id, resp)
		}
	}
	return epochs
}

func createTopics(names ...string) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 30_000
	for _, n := range names {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = n, 1, 1
		req.Topics = append(req.Topics, t)
	}
	return req
}

func topicError(t *testing.T, got reply) string {
	t.Helper()
	if got.err != nil {
		return got.err.Error()
	}
	return code(got.response.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode)
}

func wantCreated(t *testing.T, got reply) {
	t.Helper()
	if e := topicError(t, got); e != "NONE" {
		t.Fatalf("create: %s", e)
	}
}

func wantNotController(t *testing.T, got reply) {
	t.Helper()
	if !errors.Is(got.err, kafkaerr.NotController) {
		t.Fatalf("want NOT_CONTROLLER, got %v %v", got.response, got.err)
	}
}

func TestNotLeaderAnswersNotController(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		wantNotController(t, r.call(createTopics("a")))
		r.lead(1)
		r.brokers(1)
		r.lead(0)
		wantNotController(t, r.call(createTopics("a")))
	})
}

func TestNewLeaderServesOnlyAfterABarrier(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.log.delay(time.Second)
		r.lead(1)
		got := r.send(registration(1, "i1", "host1"))
		time.Sleep(time.Second / 2)
		synctest.Wait()
		select {
		case g := <-got:
			t.Fatalf("answered before the barrier: %+v", g)
		default:
		}
		if g := <-got; g.err != nil {
			t.Fatal(g.err)
		}
		if _, barriers := r.log.counts(); barriers != 1 {
			t.Fatalf("%d barriers", barriers)
		}
	})
}

func TestAnswerComesWithTheCommitsPosition(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.lead(1)
		r.brokers(1)
		r.log.delay(time.Second)
		begin := time.Now()
		got := r.call(createTopics("a"))
		wantCreated(t, got)
		if took := time.Since(begin); took < time.Second {
			t.Fatalf("answered after %s, before the commit", took)
		}
		if got.at != r.log.newest().Position() || r.log.newest().Topic("a") == nil {
			t.Fatalf("answered %v, log at %v", got.at, r.log.newest().Position())
		}
	})
}

func TestDecisionsSeePendingOnesAndTheirAnswersWaitForThem(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.lead(1)
		r.brokers(1)
		r.log.delay(time.Second)
		first := r.send(createTopics("a"))
		synctest.Wait()
		begin := time.Now()
		second := r.call(createTopics("a"))
		if e := topicError(t, second); e != "TOPIC_ALREADY_EXISTS" {
			t.Fatalf("second: %s", e)
		}
		// The refusal is true only once the topic that it names is committed.
		if time.Since(begin) < time.Second {
			t.Fatal("refused before the first topic was committed")
		}
		wantCreated(t, <-first)
	})
}

func TestProposalsAreNotHeldUpByThoseBefore(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.lead(1)
		r.brokers(1)
		r.log.delay(time.Second)
		var replies []<-chan reply
		for i := range 5 {
			replies = append(replies, r.send(createTopics(fmt.Sprintf("t%d", i))))
		}
		synctest.Wait()
		if started, _ := r.log.counts(); started < 5 {
			t.Fatalf("%d proposals started while the first is on its way", started)
		}
		for _, got := range replies {
			wantCreated(t, <-got)
		}
	})
}

// D17: after a failed proposal nothing is proposed until a barrier has passed, and what
// was decided on top of it is decided anew.
func TestD17_FailedProposalFollowedByAnother(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.lead(1)
		r.brokers(1)
		_, before := r.log.counts()
		r.log.planNext(fate{drop: true})
		a, b := r.send(createTopics("a")), r.send(createTopics("b"))
		wantNotController(t, <-a)
		wantNotController(t, <-b)
		if image := r.log.newest(); image.NumTopics() != 0 {
			t.Fatalf("%d topics after failed proposals", image.NumTopics())
		}
		// The working image no longer has a: it can be created.
		wantCreated(t, r.call(createTopics("a")))
		wantCreated(t, r.call(createTopics("b")))
		if _, barriers := r.log.counts(); barriers != before+1 {
			t.Fatalf("%d barriers after one failure", barriers-before)
		}
	})
}

// D17: a proposal whose outcome is not known may be in the log.
func TestD17_UnknownOutcomeThatWasCommitted(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.lead(1)
		r.brokers(1)
		r.log.planNext(fate{report: fmt.Errorf("leadership lost: %w", kafkaerr.NotController)})
		wantNotController(t, r.call(createTopics("a")))
		if e := topicError(t, r.call(createTopics("a"))); e != "TOPIC_ALREADY_EXISTS" {
			t.Fatalf("again: %s", e)
		}
	})
}

// D17: a decision of an earlier leadership cannot be committed by a later one of the same
// node.
func TestD17_LeadershipLostAndRegained(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.lead(1)
		r.brokers(1)
		r.log.delay(time.Second)
		got := r.send(createTopics("a"))
		synctest.Wait()
		// Both happen before the controller hears of either.
		r.log.lead(0)
		r.log.lead(3)
		wantNotController(t, <-got)
		r.log.delay(time.Millisecond)
		wantCreated(t, r.call(createTopics("a")))
		if terms := r.log.startTerms(); terms[len(terms)-1] != 3 || !slices.IsSorted(terms) {
			t.Fatalf("proposed in terms %v", terms)
		}
	})
}

func TestFailedBarrierIsTriedAgain(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.log.refuseBarriers(errors.New("no quorum yet"))
		r.lead(1)
		got := r.send(registration(1, "i1", "host1"))
		time.Sleep(time.Second)
		_, tries := r.log.counts()
		r.log.refuseBarriers(nil)
		if g := <-got; g.err != nil {
			t.Fatal(g.err)
		}
		if tries < 5 || tries > 20 {
			t.Fatalf("%d barriers in a second", tries)
		}
	})
}

func TestFullDiskIsAnsweredAndForgotten(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.lead(1)
		r.brokers(1)
		r.log.planNext(fate{start: metalog.ErrFull})
		if e := topicError(t, r.call(createTopics("a"))); e != "KAFKA_STORAGE_ERROR" {
			t.Fatalf("disk full: %s", e)
		}
		wantCreated(t, r.call(createTopics("a")))
	})
}

// While the disk is full, what the clock alone demands is tried again, at a pace.
func TestFullDiskIsNoReasonToSpin(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.lead(1)
		epochs := r.brokers(2)
		r.log.fill(metalog.ErrFull)
		before := r.log.tries()
		for range 20 { // broker 2 is silent and should be fenced
			time.Sleep(500 * time.Millisecond)
			r.heartbeat(1, epochs[1])
		}
		if tries := r.log.tries() - before; tries < 10 || tries > 100 {
			t.Errorf("%d tries in ten seconds", tries)
		}
		r.log.fill(nil)
		time.Sleep(time.Second)
		r.heartbeat(1, epochs[1])
		if !r.log.newest().Broker(2).Fenced {
			t.Error("broker 2 is not fenced when there is room again")
		}
	})
}

func TestSilentBrokerIsFencedWhenItsSessionEnds(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.lead(1)
		epochs := r.brokers(2)
		for range 10 { // broker 1 is heard, broker 2 is not
			time.Sleep(500 * time.Millisecond)
			r.heartbeat(1, epochs[1])
		}
		synctest.Wait()
		image := r.log.newest()
		if image.Broker(1).Fenced || !image.Broker(2).Fenced {
			t.Fatalf("fenced: 1 %v, 2 %v", image.Broker(1).Fenced, image.Broker(2).Fenced)
		}
		if resp := r.heartbeat(2, epochs[2]); resp.IsFenced {
			t.Fatal("a heartbeat with the same epoch does not bring it back")
		}
	})
}

func TestHeartbeatThatWaitedTooLongStillCounts(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.lead(1)
		epoch := r.brokers(1)[1]
		time.Sleep(2900 * time.Millisecond)
		// A barrier holds everything up; the broker gives up waiting for its answer.
		r.log.delay(time.Second)
		r.log.planNext(fate{drop: true})
		lost := r.send(createTopics("a"))
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		time.Sleep(1100 * time.Millisecond) // the proposal has failed, the barrier is on its way
		if _, _, err := r.c.Handle(ctx, Call{Request: r.heartbeatRequest(1, epoch)}); err == nil {
			t.Fatal("answered during a barrier")
		}
		wantNotController(t, <-lost)
		time.Sleep(time.Second)
		synctest.Wait()
		if r.log.newest().Broker(1).Fenced {
			t.Fatal("fenced although it was heard")
		}
	})
}

// slowConfigs stops the controller's goroutine for a while, as SIGSTOP would.
type slowConfigs struct{ fakeConfigs }

func (c slowConfigs) With(_, _ map[string]string) TopicConfigs { return c }

func (slowConfigs) Validate(map[string]string) error {
	time.Sleep(10 * time.Second)
	return nil
}

func TestStandstillOfTheControllerFencesNobody(t *testing.T) {
	bubble(t, func(o *Options) { o.Topics = slowConfigs{} }, func(t *testing.T, r *rig) {
		r.lead(1)
		epoch := r.brokers(2)[1]
		got := r.send(createTopics("a"))
		time.Sleep(9 * time.Second)
		beat := r.send(r.heartbeatRequest(1, epoch))
		wantCreated(t, <-got)
		<-beat
		time.Sleep(2900 * time.Millisecond) // broker 2 has not had a session to be heard in
		synctest.Wait()
		if image := r.log.newest(); image.Broker(1).Fenced || image.Broker(2).Fenced {
			t.Fatal("fenced for a time in which the controller could not hear")
		}
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		if !r.log.newest().Broker(2).Fenced {
			t.Fatal("not fenced after its session")
		}
	})
}

func TestSessionsAreExtendedByAStandstillOfTheController(t *testing.T) {
	w := newWorld()
	w.commit(decision{records: []metadata.Record{
		metadata.RegisterBrokerRecord{Broker: metadata.Broker{ID: 1, Epoch: 1, LogDirs: []uuid.UUID{{1}}}},
	}})
	w.activate(w.now, w.image)
	w.tickBy(time.Second)
	w.now = w.now.Add(time.Hour)
	w.forgive(w.now, time.Hour)
	w.tickBy(time.Second)
	if w.image.Broker(1).Fenced {
		t.Fatal("fenced for a time in which the controller could not hear")
	}
	w.tickBy(1001 * time.Millisecond)
	if !w.image.Broker(1).Fenced {
		t.Fatal("not fenced when its session ended")
	}
}

func TestCloseWithoutRun(t *testing.T) {
	c := New(Options{Log: newFakeLog(), Topics: fakeConfigs{}})
	c.Close()
	c.Run(t.Context())
	if _, _, err := c.Handle(t.Context(), Call{Request: createTopics("a")}); !errors.Is(err, kafkaerr.NotController) {
		t.Fatal(err)
	}
}

func TestNewControllerGivesEveryBrokerAFullSession(t *testing.T) {
	w := newWorld()
	w.commit(decision{records: []metadata.Record{
		metadata.RegisterBrokerRecord{Broker: metadata.Broker{ID: 1, Epoch: 1, LogDirs: []uuid.UUID{{1}}}},
	}})
	next := newWorld() // another process
	next.now = w.now.Add(2900 * time.Millisecond)
	next.activate(next.now, w.image)
	next.tickBy(3 * time.Second)
	if next.image.Broker(1).Fenced {
		t.Fatal("fenced before it had a session with the new controller")
	}
	next.tickBy(time.Millisecond)
	if !next.image.Broker(1).Fenced {
		t.Fatal("not fenced")
	}
}

// On a busy machine the controllers may lose each other again and again, and elect the same
// one: a broker that is dead must not have a full session each time.
func TestControllerThatIsElectedAgainGoesOnWithItsSessions(t *testing.T) {
	for name, c := range map[string]struct{ led, away, left time.Duration }{
		"at once":             {1900 * time.Millisecond, 0, 1100 * time.Millisecond},
		"after a while":       {1900 * time.Millisecond, 2 * time.Second, 1100 * time.Millisecond},
		"who may be another":  {1900 * time.Millisecond, time.Minute, 3 * time.Second},
		"with a second's due": {2900 * time.Millisecond, 0, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, r *rig) {
				r.lead(1)
				r.brokers(1)
				time.Sleep(c.led)
				r.lead(0)
				time.Sleep(c.away)
				r.lead(2)
				time.Sleep(c.left - 10*time.Millisecond)
				synctest.Wait()
				if r.log.newest().Broker(1).Fenced {
					t.Fatal("fenced too early")
				}
				time.Sleep(20 * time.Millisecond)
				synctest.Wait()
				if !r.log.newest().Broker(1).Fenced {
					t.Fatal("its session began anew")
				}
			})
		})
	}
}

// D20: a newcomer at another address is admitted when the old one refuses, and the probe
// does not hold up others.
func TestD20_ProbeOfTheOldAddress(t *testing.T) {
	var refuses atomic.Bool
	probe := func(ctx context.Context, at metadata.Endpoint) bool {
		if at.Host != "host1" {
			t.Errorf("probed %s", at.Host)
		}
		if refuses.Load() {
			return true
		}
		<-ctx.Done() // the packets are lost
		return false
	}
	bubble(t, func(o *Options) { o.Probe = probe }, func(t *testing.T, r *rig) {
		r.lead(1)
		old := r.brokers(1)[1]
		got := r.send(registration(1, "j1", "elsewhere"))
		synctest.Wait()
		begin := time.Now()
		r.heartbeat(1, old)
		if took := time.Since(begin); took > 100*time.Millisecond {
			t.Fatalf("a heartbeat waited %s for the probe", took)
		}
		if resp := (<-got).response.(*kmsg.BrokerRegistrationResponse); code(resp.ErrorCode) != "DUPLICATE_BROKER_REGISTRATION" {
			t.Fatalf("silent address: %s", code(resp.ErrorCode))
		}
		refuses.Store(true)
		resp := r.call(registration(1, "j1", "elsewhere")).response.(*kmsg.BrokerRegistrationResponse)
		if resp.ErrorCode != 0 || resp.BrokerEpoch <= old {
			t.Fatalf("refusing address: %s, epoch %d after %d", code(resp.ErrorCode), resp.BrokerEpoch, old)
		}
		if got := r.heartbeat(1, old); code(got.ErrorCode) != "STALE_BROKER_EPOCH" {
			t.Fatalf("heartbeat of the old incarnation: %s", code(got.ErrorCode))
		}
	})
}

// D9: a killed leader costs a fraction of a second.
func TestD9_LostConnectionAndRefusalFence(t *testing.T) {
	dead := map[string]bool{"host2": true}
	probe := func(_ context.Context, at metadata.Endpoint) bool { return dead[at.Host] }
	bubble(t, func(o *Options) { o.Probe = probe }, func(t *testing.T, r *rig) {
		r.lead(1)
		epochs := r.brokers(3)
		begin := time.Now()
		r.c.ConnectionLost(2, epochs[2])
		r.c.ConnectionLost(3, epochs[3])
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		image := r.log.newest()
		if !image.Broker(2).Fenced || image.Broker(3).Fenced {
			t.Fatalf("after %s fenced: 2 %v, 3 %v", time.Since(begin), image.Broker(2).Fenced, image.Broker(3).Fenced)
		}
	})
}

// D9: a broker that died with the former controller is found out after the election.
func TestD9_UnheardAfterElectionAndRefusalFence(t *testing.T) {
	probe := func(_ context.Context, at metadata.Endpoint) bool { return at.Host == "host2" }
	bubble(t, func(o *Options) { o.Probe = probe }, func(t *testing.T, r *rig) {
		r.lead(1)
		epochs := r.brokers(3)
		r.lead(2)
		r.heartbeat(1, epochs[1])
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		image := r.log.newest()
		if !image.Broker(2).Fenced || image.Broker(1).Fenced || image.Broker(3).Fenced {
			t.Fatal("want broker 2 fenced alone")
		}
	})
}

func TestCallerThatStopsWaitingGetsItsContextsError(t *testing.T) {
	reg := prometheus.NewRegistry()
	bubble(t, func(o *Options) { o.QueueLength, o.Registerer = 1, reg }, func(t *testing.T, r *rig) {
		r.log.delay(time.Hour)
		r.lead(1) // and the barrier takes an hour
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 3 { // one waits in the queue, the others for a place
			_, _, err := r.c.Handle(ctx, Call{Request: createTopics("a")})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
		}
		if n := gathered(t, reg, "klamm_controller_requests_abandoned_total"); n != 3 {
			t.Fatalf("%v abandoned", n)
		}
		if n := gathered(t, reg, "klamm_controller_queue_limit"); n != 1 {
			t.Fatalf("queue limit %v", n)
		}
	})
}

// gathered gives the value of a counter or gauge without labels.
func gathered(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue() + f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func TestCloseAnswersWhatIsPending(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.lead(1)
		r.brokers(1)
		r.log.delay(time.Second)
		got := r.send(createTopics("a"))
		synctest.Wait()
		r.c.Close()
		wantNotController(t, <-got)
		wantNotController(t, r.call(createTopics("b")))
	})
}

func TestForeignRequestIsRefused(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		got := r.call(kmsg.NewPtrFetchRequest())
		if !errors.Is(got.err, kafkaerr.InvalidRequest) {
			t.Fatal(got.err)
		}
	})
}
