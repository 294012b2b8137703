package controller

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/metalog"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// part makes a partition on brokers 1, 2 and 3.
func part(leader int32, isr ...int32) *metadata.Partition {
	return &metadata.Partition{
		Replicas: []int32{1, 2, 3}, Directories: make([]uuid.UUID, 3),
		ISR: isr, Leader: leader, LeaderEpoch: 5, PartitionEpoch: 7,
	}
}

func (p parts) with(change func(*metadata.Partition)) *metadata.Partition {
	c := *p.Partition
	change(&c)
	return &c
}

type parts struct{ *metadata.Partition }

func TestPartitionChangeRules(t *testing.T) {
	elr := func(p *metadata.Partition, ids ...int32) *metadata.Partition {
		return parts{p}.with(func(p *metadata.Partition) { p.ELR = ids })
	}
	lastKnown := func(p *metadata.Partition, ids ...int32) *metadata.Partition {
		return parts{p}.with(func(p *metadata.Partition) { p.LastKnownELR = ids })
	}
	for _, tc := range []struct {
		name   string
		old    *metadata.Partition
		alive  []int32
		minISR int32
		how    election
		change func(*partitionChange) *partitionChange
		want   string // as describePartition, without what does not change
	}{
		{
			"the leader stays while it may lead", part(2, 1, 2, 3),
			[]int32{1, 2, 3},
			1, electOnline, nil,
			"leader=2@5 isr=[1 2 3] epoch=7",
		},
		{
			"preferred: the first replica leads if it may", part(2, 1, 2, 3),
			[]int32{1, 2, 3},
			1, electPreferred, nil,
			"leader=1@6 isr=[1 2 3] epoch=8",
		},
		{
			"preferred: not if it is out of sync", part(2, 2, 3),
			[]int32{1, 2, 3},
			1, electPreferred, nil,
			"leader=2@5 isr=[2 3] epoch=7",
		},
		{
			"a dead leader is followed by the next of the ISR in replica order", part(1, 3, 2, 1),
			[]int32{2, 3},
			1, electOnline,
			func(c *partitionChange) *partitionChange { return c.without(1) },
			"leader=2@6 isr=[3 2] epoch=8",
		},
		{
			"an ISR that shrinks does not raise the leader epoch", part(1, 1, 2, 3),
			[]int32{1, 2},
			1, electOnline,
			func(c *partitionChange) *partitionChange { return c.without(3) },
			"leader=1@5 isr=[1 2] epoch=8",
		},
		{
			"below min ISR those who leave are eligible", part(1, 1, 2),
			[]int32{1},
			2, electOnline,
			func(c *partitionChange) *partitionChange { return c.without(2) },
			"leader=1@5 isr=[1] elr=[2] epoch=8",
		},
		{
			"min ISR is at most the number of replicas", part(1, 1, 2, 3),
			[]int32{1},
			9, electOnline,
			func(c *partitionChange) *partitionChange { return c.without(2) },
			"leader=1@5 isr=[1 3] elr=[2] epoch=8",
		},
		{
			"at min ISR nobody is", elr(part(1, 1, 2), 3),
			[]int32{1, 2},
			2, electOnline, nil,
			"leader=1@5 isr=[1 2] epoch=8",
		},
		{
			"the last member leaves the ISR empty and stays eligible", part(1, 1), nil, 1, electOnline,
			func(c *partitionChange) *partitionChange { return c.without(1) },
			"leader=-1@6 isr=[] elr=[1] last-known=[1] epoch=8",
		},
		{
			"who lost its records is not eligible", part(1, 1), nil, 1, electOnline,
			func(c *partitionChange) *partitionChange { return c.lost(1) },
			"leader=-1@6 isr=[] last-known=[1] epoch=8",
		},
		{
			"whose directory is gone is not even the last known leader", part(1, 1), nil, 1, electOnline,
			func(c *partitionChange) *partitionChange { return c.gone(1) },
			"leader=-1@6 isr=[] epoch=8",
		},
		{
			"an eligible replica leads when the ISR is empty", elr(part(-1), 2, 3),
			[]int32{3},
			2, electOnline, nil,
			"leader=3@6 isr=[3] elr=[2] epoch=8",
		},
		{
			"or has nobody who may lead", elr(part(-1, 1), 2),
			[]int32{2},
			2, electOnline, nil,
			"leader=2@6 isr=[2] elr=[1] epoch=8",
		},
		{
			"even where records may be lost", elr(part(-1, 1), 3),
			[]int32{2, 3},
			2, electUnclean, nil,
			"leader=3@6 isr=[3] elr=[1] epoch=8",
		},
		{
			"not while a member of the ISR may", elr(part(-1, 2), 1),
			[]int32{1, 2},
			2, electOnline, nil,
			"leader=2@6 isr=[2] elr=[1] epoch=8",
		},
		{
			"the last known leader leads when nobody is eligible", lastKnown(part(-1), 2),
			[]int32{1, 2},
			1, electOnline, nil,
			"leader=2@6 isr=[2] recovering epoch=8",
		},
		{
			"not if it is dead", lastKnown(part(-1), 2),
			[]int32{1},
			1, electOnline, nil,
			"leader=-1@5 isr=[] last-known=[2] epoch=7",
		},
		{
			"unclean: any live replica leads, alone", part(1, 1),
			[]int32{2, 3},
			1, electUnclean,
			func(c *partitionChange) *partitionChange { return c.without(1) },
			"leader=2@6 isr=[2] recovering epoch=8",
		},
		{
			"unclean: but rather a clean one", part(1, 1, 3),
			[]int32{2, 3},
			1, electUnclean,
			func(c *partitionChange) *partitionChange { return c.without(1) },
			"leader=3@6 isr=[3] epoch=8",
		},
		{
			"the last known leader is the first one that was lost", lastKnown(part(-1), 2), nil, 1, electOnline,
			func(c *partitionChange) *partitionChange { return c.without(3) },
			"leader=-1@5 isr=[] last-known=[2] epoch=7",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newPartitionChange(tc.old, tc.minISR, func(r int32) bool { return slices.Contains(tc.alive, r) })
			c.election = tc.how
			if tc.change != nil {
				c = tc.change(c)
			}
			before := *tc.old
			got := describePartition("", c.build())
			got = strings.Replace(strings.TrimPrefix(got, ":0 "), "replicas=[1 2 3] ", "", 1)
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if diff := cmp.Diff(&before, tc.old); diff != "" {
				t.Errorf("the old partition was changed: %s", diff)
			}
		})
	}
}

// A change record, replayed, gives what the change was built to give.
func TestChangeRecordLeadsToTheBuiltPartition(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	topic := uuid.UUID{1}
	subset := func(of []int32) []int32 {
		out := []int32{}
		for _, id := range of {
			if rng.IntN(2) == 0 {
				out = append(out, id)
			}
		}
		return out
	}
	for range 5000 {
		old := part(-1, subset([]int32{1, 2, 3})...)
		old.ELR = exclude(subset([]int32{1, 2, 3}), old.ISR)
		if len(old.ISR) > 0 {
			old.Leader = old.ISR[rng.IntN(len(old.ISR))]
		} else if rng.IntN(2) == 0 {
			old.LastKnownELR = []int32{rng.Int32N(3) + 1}
		}
		old.LeaderEpoch, old.PartitionEpoch = 0, 0
		alive := subset([]int32{1, 2, 3})
		c := newPartitionChange(old, rng.Int32N(3)+1, func(r int32) bool { return slices.Contains(alive, r) })
		c.election = election(rng.IntN(3))
		c.without(subset([]int32{1, 2, 3})...).lost(subset([]int32{1, 2})...)
		next := c.build()

		delta := metadata.NewDelta(nil)
		records := []metadata.Record{metadata.TopicRecord{Name: "t", ID: topic}, metadata.PartitionRecord{TopicID: topic, Partition: *old}}
		if r, changed := changeRecord(topic, old, next); changed {
			records = append(records, r)
		} else if !samePartition(old, next) {
			t.Fatalf("no record leads from %+v to %+v", old, next)
		}
		if err := delta.ReplayAll(records...); err != nil {
			t.Fatal(err)
		}
		got := delta.Image(metadata.Position{}).Topic("t").Partition(0)
		if describePartition("", got) != describePartition("", next) {
			t.Fatalf("replayed %s, built %s", describePartition("", got), describePartition("", next))
		}
		checkPartitionInvariants(t, old, next, alive)
	}
}

func checkPartitionInvariants(t *testing.T, old, next *metadata.Partition, alive []int32) {
	t.Helper()
	switch {
	case next.Leader >= 0 && !slices.Contains(next.ISR, next.Leader):
		t.Fatalf("leader outside of the ISR: %+v", next)
	case next.Leader >= 0 && !slices.Contains(alive, next.Leader):
		t.Fatalf("dead leader: %+v, alive %v", next, alive)
	case next.Leader != old.Leader && next.LeaderEpoch != old.LeaderEpoch+1:
		t.Fatalf("leader epoch: %+v after %+v", next, old)
	case len(exclude(next.ELR, next.ISR)) != len(next.ELR):
		t.Fatalf("ISR and ELR overlap: %+v", next)
	}
}

func TestCollidingNames(t *testing.T) {
	c := collisions{}
	for _, name := range []string{"a.b", "plain", "x_y"} {
		c.add(name)
	}
	for name, want := range map[string]string{"a_b": "a.b", "a.b": "a.b", "x.y": "x_y", "plain": "", "a-b": ""} {
		if got := c.with(name); got != want {
			t.Errorf("%s collides with %q, want %q", name, got, want)
		}
	}
	c.add("a_b")
	c.remove("a.b")
	if got := c.with("a.b"); got != "a_b" {
		t.Errorf("after removal: %q", got)
	}
	c.remove("a_b")
	if got := c.with("a.b"); got != "" || len(c) != 1 {
		t.Errorf("after both: %q, %v", got, c)
	}
}

func TestLargeDecisionsAreSplit(t *testing.T) {
	value := strings.Repeat("v", 30_000)
	records := func(n int) []metadata.Record {
		all := []metadata.Record{metadata.TopicRecord{Name: "t", ID: uuid.UUID{1}}}
		for i := range n {
			all = append(all, metadata.ConfigRecord{Resource: topicResource("t"), Key: fmt.Sprint(i), Value: &value})
		}
		return all
	}
	for _, tc := range []struct {
		records int
		atomic  bool
		entries int
	}{{0, true, 1}, {30, true, 1}, {100, true, 3}, {100, false, 3}} {
		entries, err := split(records(tc.records), tc.atomic, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) != tc.entries {
			t.Fatalf("%+v: %d entries", tc, len(entries))
		}
		m := replayEntries(t, entries)
		if got := len(m.Config(topicResource("t"))); got != tc.records {
			t.Fatalf("%+v: %d records came through", tc, got)
		}
		_, bracketed := entries[0][0].(metadata.BeginTransactionRecord)
		if bracketed != (tc.atomic && tc.entries > 1) {
			t.Fatalf("%+v: bracketed %v", tc, bracketed)
		}
	}
	if entries, _ := split(nil, true, 1); entries != nil {
		t.Fatal("entries without records")
	}
	huge := strings.Repeat("v", metalog.MaxEntryBytes)
	if _, err := split([]metadata.Record{metadata.ConfigRecord{Resource: topicResource("t"), Key: "k", Value: &huge}}, true, 1); err == nil {
		t.Fatal("a record larger than an entry passed")
	}
}

// replayEntries checks the size of each entry and applies them all.
func replayEntries(t *testing.T, entries [][]metadata.Record) *metadata.Image {
	t.Helper()
	delta := metadata.NewDelta(nil)
	for _, records := range entries {
		b, err := metadata.EncodeEntry(metadata.Entry{Term: 1 << 62, Number: 1 << 62, Records: records}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > metalog.MaxEntryBytes {
			t.Fatalf("entry of %d bytes", len(b))
		}
		if err := delta.ReplayAll(records...); err != nil {
			t.Fatal(err)
		}
	}
	return delta.Image(metadata.Position{})
}

func TestFailedReplicasTravelInAHeartbeat(t *testing.T) {
	want := []FailedReplica{{uuid.UUID{1}, 0}, {uuid.UUID{2}, 70_000}}
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.Version = 2
	SetFailedReplicas(req, want)
	sent := kmsg.NewPtrBrokerHeartbeatRequest()
	sent.Version = 2
	if err := sent.ReadFrom(req.AppendTo(nil)); err != nil {
		t.Fatal(err)
	}
	got, err := FailedReplicas(sent)
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("%v %v", got, err)
	}
	sent.UnknownTags.Set(tagFailedReplicas, []byte("short"))
	if _, err := FailedReplicas(sent); err == nil {
		t.Fatal("a cut-off value was accepted")
	}
}

func TestLogEndsTravelInAHeartbeat(t *testing.T) {
	want := []LogEnd{{uuid.UUID{1}, 0, -1, 0}, {uuid.UUID{2}, 70_000, 1 << 20, 1 << 40}}
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.Version = 2
	SetLogEnds(req, want)
	sent := kmsg.NewPtrBrokerHeartbeatRequest()
	sent.Version = 2
	if err := sent.ReadFrom(req.AppendTo(nil)); err != nil {
		t.Fatal(err)
	}
	if got, err := LogEnds(sent); err != nil || !slices.Equal(got, want) {
		t.Fatalf("%v %v", got, err)
	}
	sent.UnknownTags.Set(tagLogEnds, []byte("short"))
	if _, err := LogEnds(sent); err == nil {
		t.Fatal("a cut-off value was accepted")
	}
}

// limited is the access of a principal that may see a, b and c, and create and delete a.
type limited struct{}

func (limited) CreateTopic(name string) bool          { return name == "a" || name == "hidden" }
func (limited) AlterTopic(name string) bool           { return name == "a" }
func (limited) DescribeTopicConfigs(name string) bool { return name == "a" }
func (limited) DescribeTopic(name string) bool        { return strings.Contains("abc", name) }
func (limited) DeleteTopic(name string) bool          { return name == "a" }

func TestAuthorizationHasItsPlaceAmongTheChecks(t *testing.T) {
	w := newWorld()
	w.commit(decision{records: []metadata.Record{
		metadata.BootstrapRecord{ClusterID: "cluster", Durability: metadata.DurabilityFsync, Features: []metadata.FeatureLevel{{Name: metadata.FeatureMetadata, Level: 1}}},
		metadata.RegisterBrokerRecord{Broker: metadata.Broker{ID: 1, Epoch: 1, LogDirs: []uuid.UUID{{1}}}},
	}})
	w.out.Reset()
	call := func(req kmsg.Request) Call { return Call{Request: req, Access: limited{}, Received: w.now} }
	w.commit(w.createTopics(w.now, call(createTopics("a", "hidden", "c", "c", "d", "__cluster_metadata"))))
	want := `Topic a
Config a durability=fsync
Partition 0 replicas=[1] dirs=` + text(uuid.UUID{1}) + ` isr=[1] leader=1
Topic hidden
Config hidden durability=fsync
Partition 0 replicas=[1] dirs=` + text(uuid.UUID{1}) + ` isr=[1] leader=1
-> a NONE partitions=1 rf=1 id=true configs=3
-> hidden NONE partitions=-1 rf=-1 id=true configs=0 configs:TOPIC_AUTHORIZATION_FAILED
-> c INVALID_REQUEST "the request names this topic more than once"
-> d TOPIC_AUTHORIZATION_FAILED "not permitted to create this topic"
-> __cluster_metadata INVALID_REQUEST "the name __cluster_metadata is reserved"
`
	if diff := cmp.Diff(want, w.out.String()); diff != "" {
		t.Fatal(diff)
	}

	w.commit(w.createTopics(w.now, Call{Request: createTopics("b"), Received: w.now}))
	w.out.Reset()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis = 6, 1000
	for _, name := range []string{"a", "c", "hidden", "nope"} {
		req.Topics = append(req.Topics, kmsg.DeleteTopicsRequestTopic{Topic: &name})
	}
	for _, name := range []string{"b", "hidden"} {
		req.Topics = append(req.Topics, kmsg.DeleteTopicsRequestTopic{TopicID: w.image.Topic(name).ID})
	}
	w.commit(w.deleteTopics(w.now, call(req)))
	want = `RemoveTopic a
-> a id=true NONE
-> b id=true TOPIC_AUTHORIZATION_FAILED "` + kafkaerr.TopicAuthorizationFailed.Description + `"
-> c id=false UNKNOWN_TOPIC_OR_PARTITION "` + kafkaerr.UnknownTopicOrPartition.Description + `"
-> hidden id=false TOPIC_AUTHORIZATION_FAILED "` + kafkaerr.TopicAuthorizationFailed.Description + `"
-> nope id=false TOPIC_AUTHORIZATION_FAILED "` + kafkaerr.TopicAuthorizationFailed.Description + `"
-> null id=true TOPIC_AUTHORIZATION_FAILED "` + kafkaerr.TopicAuthorizationFailed.Description + `"
`
	if diff := cmp.Diff(want, w.out.String()); diff != "" {
		t.Fatal(diff)
	}
}

func TestDeletionCanBeDisabled(t *testing.T) {
	w := newWorld()
	w.opts.DeleteTopicsDisabled = true
	for version, want := range map[int16]*kafkaerr.Kind{
		1: kafkaerr.InvalidRequest, 2: kafkaerr.InvalidRequest, 3: kafkaerr.TopicDeletionDisabled, 6: kafkaerr.TopicDeletionDisabled,
	} {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Version, req.TimeoutMillis = version, 1000
		name := "a"
		if version < 6 {
			req.TopicNames = []string{name}
		} else {
			req.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: &name}}
		}
		d := w.deleteTopics(w.now, Call{Request: req, Received: w.now})
		if got := d.response.(*kmsg.DeleteTopicsResponse).Topics; len(got) != 1 || got[0].ErrorCode != want.Code {
			t.Errorf("version %d: %+v", version, got)
		}
	}
}

func TestTimeoutCountsFromTheFirstBrokerThatGotTheRequest(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, tc := range []struct {
		waited    time.Duration
		timeoutMs int32
		want      bool
	}{
		{0, 0, true},
		{0, -1, true},
		{0, 1, false},
		{time.Second, 1000, true},
		{999 * time.Millisecond, 1000, false},
	} {
		c := Call{Received: now.Add(-tc.waited)}
		if got := c.timedOut(now, tc.timeoutMs); got != tc.want {
			t.Errorf("%+v: timed out %v", tc, got)
		}
	}
}

func TestProducerIDsDoNotWrapAround(t *testing.T) {
	w := newWorld()
	w.commit(decision{records: []metadata.Record{
		metadata.RegisterBrokerRecord{Broker: metadata.Broker{ID: 1, Epoch: 4, LogDirs: []uuid.UUID{{1}}}},
		metadata.ProducerIDsRecord{BrokerID: 1, BrokerEpoch: 4, Next: 1<<63 - 1000},
	}})
	req := kmsg.NewPtrAllocateProducerIDsRequest()
	req.BrokerID, req.BrokerEpoch = 1, 4
	d := w.allocateProducerIDs(w.now, Call{Request: req})
	if d.records != nil || d.response.(*kmsg.AllocateProducerIDsResponse).ErrorCode != kafkaerr.UnknownServerError.Code {
		t.Fatalf("%+v", d)
	}
	req.BrokerEpoch = 3
	d = w.allocateProducerIDs(w.now, Call{Request: req})
	if d.response.(*kmsg.AllocateProducerIDsResponse).ErrorCode != kafkaerr.StaleBrokerEpoch.Code {
		t.Fatalf("%+v", d.response)
	}
}

func TestErrorResponseAnswersEveryTopicNamed(t *testing.T) {
	err := kafkaerr.New(kafkaerr.RequestTimedOut, "")
	created := ErrorResponse(createTopics("a", "b", "a"), err).(*kmsg.CreateTopicsResponse)
	if len(created.Topics) != 3 || created.Topics[2].ErrorCode != kafkaerr.RequestTimedOut.Code || created.Topics[2].ErrorMessage != nil {
		t.Errorf("%+v", created)
	}
	if resp := ErrorResponse(kmsg.NewPtrFetchRequest(), err); resp != nil {
		t.Errorf("%+v", resp)
	}
	alter := ErrorResponse(kmsg.NewPtrAlterPartitionRequest(), errors.New("broken")).(*kmsg.AlterPartitionResponse)
	if alter.ErrorCode != kafkaerr.UnknownServerErrorCode {
		t.Errorf("%+v", alter)
	}
}

// TestBrokerEpochsRiseOverLeaderships: the registrations of many brokers may share one entry
// of the log, so that their epochs are ahead of its index when the next leader takes over.
func TestBrokerEpochsRiseOverLeaderships(t *testing.T) {
	image := metadata.NewDelta(metadata.Empty())
	for id := range int32(9) {
		err := image.Replay(metadata.RegisterBrokerRecord{Broker: metadata.Broker{
			ID: id, Epoch: int64(100 + id), IncarnationID: uuid.UUID{1: byte(id + 1)},
			Listeners: []metadata.Endpoint{{Name: "PLAINTEXT", Host: "b", Port: 9092}},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	opts := Options{Topics: fakeConfigs{}}.withDefaults()
	s := &state{opts: &opts}
	s.activate(time.Now(), image.Image(metadata.Position{Index: 102, Term: 3}))
	if epoch := s.newBrokerEpoch(); epoch <= 108 {
		t.Errorf("new epoch %d, broker 8 has 108", epoch)
	}
}
