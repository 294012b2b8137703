package handlers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/controller"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/quota"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/protocol/wire"
)

// withQuota gives the clients of a fixture one quota, each for itself.
func withQuota(t *testing.T, key quota.Key, limit float64) *fixture {
	t.Helper()
	f := newFixture(t)
	d := metadata.NewDelta(metadata.Empty())
	for _, record := range []metadata.QuotaRecord{
		{Entity: metadata.QuotaEntity{User: metadata.QuotaFor("ANONYMOUS"), ClientID: metadata.QuotaForDefault()}, Key: string(key), Value: &limit},
	} {
		if err := d.Replay(record); err != nil {
			t.Fatal(err)
		}
	}
	f.h.quotas.OnMetadataUpdate(d, d.Image(metadata.Position{Index: 1}))
	return f
}

// serve has a request of a client answered, and gives what became of it.
func serve(t *testing.T, f *fixture, clientID string, req kmsg.Request) wire.Outcome {
	t.Helper()
	r := f.request(req)
	r.ClientID = clientID
	return f.h.Handle(t.Context(), r)
}

// told is what an answer says about a pause.
func told(t *testing.T, out wire.Outcome, req kmsg.Request) time.Duration {
	t.Helper()
	resp := req.ResponseKind()
	decode(t, out.Response, resp)
	ms, _ := resp.(kmsg.ThrottleResponse).Throttle()
	return time.Duration(ms) * time.Millisecond
}

// The bytes of a Produce count when it is taken, so that what is pipelined behind it waits;
// its answer says the same.
func TestProduceQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		req := produceRequest(9, -1, oneRecord())
		size := len(req.AppendTo(nil))
		f := withQuota(t, quota.ProducerByteRate, float64(size)/10) // one is what ten seconds let through
		for i, want := range []time.Duration{0, 10 * time.Second, 20 * time.Second} {
			out := serve(t, f, "c", req)
			if pause := told(t, out, req); pause != want || out.Mute != want {
				t.Errorf("request %d: told %v, muted for %v, want %v", i, pause, out.Mute, want)
			}
		}
		if out := serve(t, f, "another", req); out.Mute != 0 {
			t.Errorf("another client is muted for %v", out.Mute)
		}
		f.replicas.later = true
		out := serve(t, f, "c", req)
		if out.Pending == nil || out.Mute != 30*time.Second {
			t.Fatalf("one that waits: %+v", out)
		}
		f.replicas.pending.Done(f.replicas.pending)
		if done := out.Pending.Outcome(); told(t, done, req) != 30*time.Second || done.Mute != 30*time.Second {
			t.Errorf("when it is done: %+v", done)
		}
	})
}

// Without an answer the mute is all there is. What is refused as a whole does not count.
func TestProduceQuotaWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := withQuota(t, quota.ProducerByteRate, 1)
		whole := produceRequest(9, -1, make([]byte, 70)) // of length 0
		if out := serve(t, f, "c", whole); out.Mute != 0 {
			t.Errorf("refused as a whole, muted for %v", out.Mute)
		}
		silent := produceRequest(9, 0, oneRecord())
		serve(t, f, "c", silent)
		out := serve(t, f, "c", silent)
		if !out.NoResponse || out.Mute <= 0 {
			t.Errorf("acks=0: %+v", out)
		}
	})
}

// A Fetch that would exceed the quota has no records and no trace: not in the session, not in
// the meter. The pause ends when what was sent before allows it.
func TestFetchQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := withQuota(t, quota.ConsumerByteRate, 1000)
		req := fetchRequest(11)
		req.SessionEpoch = 0
		records := &region{b: make([]byte, 6000)}
		f.replicas.fetched = replica.FetchResult{HighWatermark: 10, Records: records}
		if out := serve(t, f, "c", req); out.Mute != 0 || f.replicas.sent != 1 {
			t.Fatalf("the first: %+v", out)
		}
		out := serve(t, f, "c", req)
		resp := kmsg.NewPtrFetchResponse()
		resp.Version = 11
		decode(t, out.Response, resp)
		if resp.ThrottleMillis < 2000 || resp.ThrottleMillis > 2500 || len(resp.Topics) > 0 || resp.SessionID != 0 ||
			out.Mute != time.Duration(resp.ThrottleMillis)*time.Millisecond {
			t.Errorf("muted for %v: %+v", out.Mute, resp)
		}
		if f.replicas.sent != 1 || records.released == 0 {
			t.Errorf("%d fetches were sent, %d regions released", f.replicas.sent, records.released)
		}
		time.Sleep(11 * time.Second)
		if out := serve(t, f, "c", req); out.Mute != 0 {
			t.Errorf("later: muted for %v", out.Mute)
		}
		follower := fetchRequest(11)
		follower.ReplicaID = 2
		for range 5 {
			if out := serve(t, f, "c", follower); out.Mute != 0 {
				t.Errorf("a follower is muted for %v", out.Mute)
			}
		}
	})
}

// No Fetch asks for more than what its client may have in a window.
func TestFetchAsksForNoMoreThanTheQuota(t *testing.T) {
	f := withQuota(t, quota.ConsumerByteRate, 70)
	req := fetchRequest(11)
	req.MaxBytes, req.MinBytes = 1<<20, 1<<20
	serve(t, f, "c", req)
	if asked := f.replicas.asked; asked.MaxBytes != 700 || asked.MinBytes != 700 {
		t.Errorf("at most %d, at least %d bytes", asked.MaxBytes, asked.MinBytes)
	}
}

// slowNode takes its time, in which the request is not worked on.
type slowNode struct{ fakeNode }

func (s *slowNode) Call(ctx context.Context, c controller.Call) (kmsg.Response, metadata.Position, error) {
	time.Sleep(time.Minute)
	resp := c.Request.ResponseKind()
	if made, ok := resp.(*kmsg.CreateTopicsResponse); ok && c.Metered && c.ClientID == "c" {
		made.ThrottleMillis = 1234
	}
	return resp, metadata.Position{}, nil
}

// slowGroups works for a while.
type slowGroups struct{ fakeGroups }

func (s *slowGroups) Coordinator(string) (int32, error) {
	time.Sleep(300 * time.Millisecond)
	return 1, nil
}

// The time that a request is worked on counts, and that of sending its answer for the next.
func TestRequestQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := withQuota(t, quota.RequestPercentage, 5) // 500 ms in ten seconds
		f.h.groups, f.h.node = &slowGroups{}, &slowNode{}
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.Version, find.CoordinatorKey = 3, "g"
		first := serve(t, f, "c", find)
		if told(t, first, find) != 0 || first.Mute != 0 || first.Sent == nil {
			t.Fatalf("within the quota: %+v", first)
		}
		first.Sent(100 * time.Millisecond)
		if out := serve(t, f, "c", find); told(t, out, find) != time.Second || out.Mute != time.Second {
			t.Errorf("above: %+v", out) // 4 s would be due, a window is the most
		}
		for _, req := range []kmsg.Request{produceRequest(9, 0, oneRecord())} {
			if out := serve(t, f, "c", req); out.Mute != 0 {
				t.Errorf("acks=0 is muted for %v", out.Mute)
			}
		}
		time.Sleep(time.Hour)
		create := kmsg.NewPtrCreateTopicsRequest()
		create.Version = 7
		if out := serve(t, f, "d", create); out.Mute != 0 {
			t.Errorf("a request that waited for the controller is muted for %v", out.Mute)
		}
		// The controller's pause counts as well.
		if out := serve(t, f, "c", create); told(t, out, create) != 1234*time.Millisecond || out.Mute != 1234*time.Millisecond {
			t.Errorf("the controller's pause: %+v", out)
		}
	})
}

// What is sent to a follower is no client's time: without authentication both have the same
// name.
func TestSendingToFollowersDoesNotCount(t *testing.T) {
	f := withQuota(t, quota.RequestPercentage, 5)
	for _, replicaID := range []int32{2, -1} {
		req := fetchRequest(11)
		req.ReplicaID = replicaID
		if out := serve(t, f, "c", req); (out.Sent != nil) != (replicaID < 0) {
			t.Errorf("replica %d: the time of sending counts: %v", replicaID, out.Sent != nil)
		}
	}
}

// Each API tells a throttled client so, if its version has a field for it.
func TestEveryAnswerTellsOfAPause(t *testing.T) {
	f := withQuota(t, quota.RequestPercentage, 1e-9)
	for key := range f.h.routes {
		switch key {
		case 0, 1: // in tests of their own
		case 56, 58, 62, 63, 67, 70: // from other nodes
		default:
			resp := kmsg.RequestForKey(key).ResponseKind()
			r := wire.NewRequest(f.buffers, key, 0, nil)
			r.ClientID = "c"
			r.StartClock()
			out := f.h.paced(call{request: r}, resp)
			if out.Mute == 0 {
				t.Errorf("key %d is not muted", key)
			}
			out.Response.Release()
			if told, ok := resp.(kmsg.ThrottleResponse); ok {
				if ms, _ := told.Throttle(); ms != 1000 {
					t.Errorf("key %d tells of %d ms", key, ms)
				}
			} else if key != 17 && key != 36 && key != 55 {
				t.Errorf("key %d has no field for a pause", key)
			}
		}
	}
}
