package controller

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/quota"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// newMeteredWorld has one broker, and a quota of one partition a second for the user u.
func newMeteredWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld()
	quotas := quota.New(quota.Options{Epoch: w.now})
	w.opts.Mutations = quotas.Mutations
	d := metadata.NewDelta(w.image)
	err := d.ReplayAll(
		metadata.BootstrapRecord{
			ClusterID: "cluster", Durability: metadata.DurabilityFsync, ForOne: true,
			Features: []metadata.FeatureLevel{{Name: metadata.FeatureMetadata, Level: 1}},
		},
		metadata.RegisterBrokerRecord{Broker: metadata.Broker{
			ID: 1, Epoch: 100, IncarnationID: uuid.UUID{1}, LogDirs: []uuid.UUID{{9}},
			Listeners: []metadata.Endpoint{{Name: "PLAINTEXT", Host: "b", Port: 9092}},
		}},
		metadata.QuotaRecord{Entity: metadata.QuotaEntity{User: metadata.QuotaFor("u")}, Key: "controller_mutation_rate", Value: metadata.Ptr(1.0)},
	)
	if err != nil {
		t.Fatal(err)
	}
	image := d.Image(metadata.Position{Index: 2, Term: 1})
	quotas.OnMetadataUpdate(d, image)
	w.activate(w.now, image)
	return w
}

// ask decides what the user u asks for, and gives the codes of the topics in order, and the
// pause.
func (w *world) ask(req kmsg.Request, metered bool) (codes []int16, pause int32) {
	d := w.decide(w.now, Call{Request: req, Principal: "User:u", ClientID: "c", Metered: metered, Received: w.now})
	w.apply(d.records)
	switch resp := d.response.(type) {
	case *kmsg.CreateTopicsResponse:
		for _, topic := range resp.Topics {
			codes = append(codes, topic.ErrorCode)
		}
		pause = resp.ThrottleMillis
	case *kmsg.CreatePartitionsResponse:
		for _, topic := range resp.Topics {
			codes = append(codes, topic.ErrorCode)
		}
		pause = resp.ThrottleMillis
	case *kmsg.DeleteTopicsResponse:
		for _, topic := range resp.Topics {
			codes = append(codes, topic.ErrorCode)
		}
		pause = resp.ThrottleMillis
	}
	return codes, pause
}

func creation(version int16, partitions int32, names ...string) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = version, 5000
	for _, name := range names {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
		req.Topics = append(req.Topics, topic)
	}
	return req
}

func deletionOf(version int16, names ...string) *kmsg.DeleteTopicsRequest {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis = version, 5000
	for _, name := range names {
		req.Topics = append(req.Topics, kmsg.DeleteTopicsRequestTopic{Topic: &name})
		req.TopicNames = append(req.TopicNames, name)
	}
	if version < 6 {
		req.Topics = nil
	} else {
		req.TopicNames = nil
	}
	return req
}

func growthOf(version int16, count int32, name string) *kmsg.CreatePartitionsRequest {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Version, req.TimeoutMillis = version, 5000
	req.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: name, Count: count}}
	return req
}

// Eleven partitions at once, one a second: whoever used more is refused until the bucket is
// not below zero. Clients of before KIP-599 are never refused, and told to pause instead.
func TestMutationQuota(t *testing.T) {
	w := newMeteredWorld(t)
	const refused = 89
	check := func(title string, req kmsg.Request, codes []int16, pause int32) {
		t.Helper()
		gotCodes, gotPause := w.ask(req, true)
		if diff := cmp.Diff(codes, gotCodes); diff != "" || gotPause != pause {
			t.Errorf("%s: pause %d, want %d\n%s", title, gotPause, pause, diff)
		}
	}
	check("what is refused for another reason", creation(7, 0, "no"), []int16{kafkaerr.InvalidPartitions.Code}, 0)
	check("within the quota", creation(7, 5, "a"), []int16{0}, 0)
	check("beyond, all at once", creation(7, 8, "b", "c"), []int16{0, refused}, 2000)
	check("deletion", deletionOf(6, "a"), []int16{refused}, 2000)
	check("growth", growthOf(3, 6, "a"), []int16{refused}, 2000)
	check("an older creation", creation(5, 1, "d"), []int16{0}, 3000)
	check("an older growth", growthOf(2, 6, "a"), []int16{0}, 4000)
	check("an older deletion", deletionOf(4, "a"), []int16{0}, 10_000)
	w.now = w.now.Add(9 * time.Second)
	check("too early", creation(7, 1, "e"), []int16{refused}, 1000)
	w.now = w.now.Add(time.Second)
	only := creation(7, 1, "f")
	only.ValidateOnly = true
	check("in time, only asked", only, []int16{0}, 0)
	check("what was asked counts", creation(7, 1, "f"), []int16{refused}, 1000)
	if codes, pause := w.ask(creation(7, 100, "g"), false); codes[0] != 0 || pause != 0 {
		t.Errorf("a request of the broker's own: %v, pause %d", codes, pause)
	}
}
