package handlers

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/protocol/wire"
)

// manyPartitions is a Produce of n partitions without records.
func manyPartitions(version int16, n int) *kmsg.ProduceRequest {
	req := produceRequest(version, -1, nil)
	req.Topics[0].Partitions = make([]kmsg.ProduceRequestTopicPartition, n)
	for i := range req.Topics[0].Partitions {
		req.Topics[0].Partitions[i].Records = []byte{}
	}
	return req
}

func TestProduceOfTooManyPartitionsIsClosed(t *testing.T) {
	f := newFixture(t)
	for version := int16(3); version <= 13; version += 5 {
		for n, want := range map[int]error{maxProducePartitions: nil, maxProducePartitions + 1: errTooLarge} {
			out := f.h.Handle(t.Context(), f.request(manyPartitions(version, n)))
			if !errors.Is(out.Close, want) {
				t.Errorf("version %d, %d partitions: %v", version, n, out.Close)
			}
			if out.Response != nil {
				out.Response.Release()
			}
		}
	}
}

func TestProduceOfTooManyEmptyTopicsIsClosed(t *testing.T) {
	f := newFixture(t)
	for n, want := range map[int]error{maxProducePartitions: nil, maxProducePartitions + 1: errTooLarge} {
		req := produceRequest(9, -1, nil)
		req.Topics = make([]kmsg.ProduceRequestTopic, n)
		out := f.h.Handle(t.Context(), f.request(req))
		if !errors.Is(out.Close, want) {
			t.Errorf("%d topics: %v", n, out.Close)
		}
		if out.Response != nil {
			out.Response.Release()
		}
	}
}

// A length that lies is found out before anything is allocated for it.
func TestProduceBodyThatLies(t *testing.T) {
	f := newFixture(t)
	honest := produceRequest(9, -1, make([]byte, 2*smallBody)).AppendTo(nil)
	for _, at := range []int{7, 10, 15} { // topics, partitions, bytes of records
		body := bytes.Clone(honest)
		copy(body[at:], "\xff\xff\xff\xff\x07") // 2,147,483,646
		out := f.h.Handle(t.Context(), wire.NewRequest(f.buffers, 0, 9, body))
		if out.Close == nil {
			t.Errorf("a length that lies at %d: %+v", at, out)
		}
	}
}

// What Kafka's layout fits is never refused by the walk that comes before decoding.
func FuzzProduceBodyWalk(f *testing.F) {
	for version := int16(3); version <= 13; version++ {
		f.Add(version, produceRequest(version, -1, oneRecord()).AppendTo(nil))
		f.Add(version, manyPartitions(version, 3).AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, version int16, body []byte) {
		if version < 3 || version > 13 {
			return
		}
		req := kmsg.NewPtrProduceRequest()
		req.Version = version
		decodes := req.ReadFrom(body) == nil
		if err := checkProduceBody(version, body); decodes && err != nil && !errors.Is(err, errTooLarge) {
			t.Errorf("version %d: %v, but it decodes", version, err)
		}
	})
}

func TestRequestWithoutRecordsIsBounded(t *testing.T) {
	f := newFixture(t)
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	name := strings.Repeat("x", 200)
	for len(req.Topics)*203 <= maxPlainBody {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		req.Topics = append(req.Topics, topic)
	}
	if out := f.h.Handle(t.Context(), f.request(req)); !errors.Is(out.Close, errTooLarge) {
		t.Errorf("%+v", out)
	}
	req.Topics = req.Topics[:len(req.Topics)/2]
	resp := ask[*kmsg.MetadataResponse](t, f, req)
	if len(resp.Topics) != 1 {
		t.Errorf("answered %d topics", len(resp.Topics))
	}
}

// Large requests wait for each other; small ones go on.
func TestLargeRequestsShareABudget(t *testing.T) {
	f := newFixture(t)
	if !f.h.decoding.TryAcquire(maxDecoded) {
		t.Fatal("the budget is in use")
	}
	large := kmsg.NewPtrMetadataRequest()
	large.Version = 9
	name := strings.Repeat("x", 200)
	for range 2 * smallBody / 200 {
		large.Topics = append(large.Topics, kmsg.MetadataRequestTopic{Topic: &name})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if out := f.h.Handle(ctx, f.request(large)); !errors.Is(out.Close, context.Canceled) {
		t.Errorf("a large one while there is no room: %+v", out)
	}
	small := kmsg.NewPtrMetadataRequest()
	small.Version = 9
	ask[*kmsg.MetadataResponse](t, f, small)
	f.h.decoding.Release(maxDecoded)
	ask[*kmsg.MetadataResponse](t, f, large)
	if !f.h.decoding.TryAcquire(maxDecoded) {
		t.Error("the budget was not given back")
	}
}

func TestWaitsAreBounded(t *testing.T) {
	for _, c := range []struct {
		max  time.Duration
		ms   int32
		want time.Duration
	}{
		{0, 1000, time.Second}, {time.Minute, 1000, time.Second}, {time.Minute, 1<<31 - 1, time.Minute}, {time.Minute, -5, -5 * time.Millisecond},
	} {
		config := Config{MaxWait: c.max}
		if got := config.wait(c.ms); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// broken panics where a handler calls it.
type broken struct{ fakeReplicas }

func (*broken) ListOffsets(*replica.ListOffsetsRequest) { panic("a defect") }

// A panic goes on and stops the process; the log tells which request it was.
func TestPanicNamesTheRequest(t *testing.T) {
	f := newFixture(t)
	var log bytes.Buffer
	f.h.replicas, f.h.logger = &broken{}, slog.New(slog.NewTextHandler(&log, nil))
	defer func() {
		if recover() == nil {
			t.Error("the panic did not go on")
		}
		if !strings.Contains(log.String(), "ListOffsets v7") {
			t.Errorf("logged %q", log.String())
		}
	}()
	f.h.Handle(t.Context(), f.request(listOffsetsRequest(7, -1, 0)))
}
