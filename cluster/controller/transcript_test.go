package controller

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// TestTranscripts plays testdata/*.txt: requests and time in, records and answers out.
// Every decision is committed at once, as one entry. Commands:
//
//	bootstrap [durability=replicated] [for-one]
//	register ID [incarnation=NAME] [dirs=D,D] [host=H] [rack=R] [previous=EPOCH] [unadvertised] [metadata-level=N] [cluster=C] [refuses|silent]
//	heartbeat ID [fence] [shutdown] [at=INDEX] [epoch=E] [offline=D,D] [failed=T:P,T:P] [full=D,D] [ends=T:P@EPOCH@OFFSET,…]
//	create [version=V] [timeout=MS] [validate]    one topic a line: NAME [partitions=N] [rf=N] [assign=P:B,B;P:B,B] [config K=V ...]
//	delete [version=V] [timeout=MS]               one topic a line: name=N, id=N
//	alter ID                                      one partition a line: T:P isr=B,B [epoch=E] [partition-epoch=E] [recovering]
//	assign ID                                     one replica a line: T:P DIRECTORY
//	producer-ids ID
//	tick DURATION
//	refuses ID                                    the address of a suspected broker refuses connections
//	new-controller
//	restore                                       metadata begins anew with a backup of what it is
//	balance                                       the time for preferred elections has come
//	unclean                                       the time for unclean elections has come
//	describe                                      brokers and partitions
//	grow [validate] [timeout=MS]                  one topic a line: NAME COUNT [B,B ...]
//	elect [unclean] [all] [timeout=MS]            one partition a line: T:P
//	reassign [same-factor] [timeout=MS]           one partition a line: T:P B,B or T:P cancel
//	reassignments                                 one topic a line: T:P,P; none: all
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		w := newWorld()
		datadriven.RunTest(t, path, func(t *testing.T, td *datadriven.TestData) string {
			w.out.Reset()
			w.run(t, td)
			return w.out.String()
		})
	})
}

// world is a state whose decisions are committed as soon as they are made.
type world struct {
	*state
	now time.Time
	out strings.Builder
}

func newWorld() *world {
	w := &world{now: time.Unix(1_000_000, 0)}
	opts := Options{
		Topics: fakeConfigs{},
		Rand:   rand.New(rand.NewPCG(1, 2)),
		IDs:    &countingReader{},
	}.withDefaults()
	w.state = &state{opts: &opts}
	w.activate(w.now, metadata.Empty())
	return w
}

// countingReader gives ids that are all different and always the same.
type countingReader struct{ n uint64 }

func (r *countingReader) Read(p []byte) (int, error) {
	clear(p)
	r.n++
	binary.BigEndian.PutUint64(p[len(p)-8:], r.n)
	return len(p), nil
}

// fakeConfigs knows three keys.
type fakeConfigs struct{}

func (fakeConfigs) Validate(overrides map[string]string) error {
	for k, v := range overrides {
		switch k {
		case "retention.ms", "min.insync.replicas":
			if _, err := strconv.ParseInt(v, 10, 64); err != nil {
				return fmt.Errorf("%s: %q is not a number", k, v)
			}
		case "unclean.leader.election.enable", "durability":
		default:
			return fmt.Errorf("unknown topic configuration %s", k)
		}
	}
	return nil
}

func (fakeConfigs) Effective(overrides map[string]string) []ConfigEntry {
	entries := []ConfigEntry{
		{Name: "durability", Value: metadata.Ptr("fsync"), Source: 5},
		{Name: "min.insync.replicas", Value: metadata.Ptr("1"), Source: 5},
		{Name: "retention.ms", Value: metadata.Ptr("604800000"), Source: 5},
	}
	for i, e := range entries {
		if v, ok := overrides[e.Name]; ok {
			entries[i].Value, entries[i].Source = &v, 1
		}
	}
	return entries
}

func (f fakeConfigs) With(_, _ map[string]string) TopicConfigs { return f }

func (fakeConfigs) CheckGroup(map[string]string) error { return nil }

func (fakeConfigs) Elections(overrides map[string]string) ElectionConfig {
	c := ElectionConfig{MinISR: 1, UncleanElection: overrides["unclean.leader.election.enable"] == "true"}
	if n, err := strconv.Atoi(overrides["min.insync.replicas"]); err == nil {
		c.MinISR = int32(n)
	}
	return c
}

func (w *world) run(t *testing.T, td *datadriven.TestData) {
	if len(td.CmdArgs) > 0 && len(td.CmdArgs[0].Vals) == 0 {
		if id, err := strconv.Atoi(td.CmdArgs[0].Key); err == nil {
			defer func(args []datadriven.CmdArg) { td.CmdArgs = args }(td.CmdArgs)
			w.runFor(t, td, int32(id))
			return
		}
	}
	switch td.Cmd {
	case "bootstrap":
		w.bootstrap(td)
	case "create":
		w.commit(w.createTopics(w.now, Call{Request: createRequest(t, td), Received: w.now}))
	case "delete":
		w.commit(w.deleteTopics(w.now, Call{Request: w.deleteRequest(t, td), Received: w.now}))
	case "tick":
		d, err := time.ParseDuration(td.CmdArgs[0].Key)
		if err != nil {
			t.Fatal(err)
		}
		w.tickBy(d)
	case "new-controller":
		w.activate(w.now, metadata.NewDelta(w.image).Image(w.committed))
	case "restore":
		w.restore(t)
	case "balance":
		w.nextBalance = w.now
		w.tickBy(0)
	case "unclean":
		w.nextUnclean = w.now
		w.tickBy(0)
	case "describe":
		w.describe()
	default:
		if !w.runForPartitions(t, td) {
			t.Fatalf("%s: unknown command %s", td.Pos, td.Cmd)
		}
	}
}

func (w *world) runFor(t *testing.T, td *datadriven.TestData, id int32) {
	switch td.Cmd {
	case "register":
		w.registerFrom(t, td, id)
	case "heartbeat":
		w.commit(w.heartbeat(w.now, Call{Request: w.heartbeatRequest(t, td, id)}))
	case "alter":
		w.commit(w.alterPartition(w.now, Call{Request: w.alterRequest(t, td, id)}))
	case "assign":
		w.commit(w.assignReplicas(Call{Request: w.assignRequest(t, td, id)}))
	case "producer-ids":
		req := kmsg.NewPtrAllocateProducerIDsRequest()
		req.BrokerID, req.BrokerEpoch = id, w.image.Broker(id).Epoch
		w.commit(w.allocateProducerIDs(w.now, Call{Request: req}))
	case "refuses":
		if d, ok := w.fenceRefusing(id, w.image.Broker(id).Epoch, w.now); ok {
			w.commit(d)
		} else {
			w.printf("not fenced\n")
		}
	default:
		t.Fatalf("%s: unknown command %s", td.Pos, td.Cmd)
	}
}

func (w *world) printf(format string, args ...any) { fmt.Fprintf(&w.out, format, args...) }

func (w *world) bootstrap(td *datadriven.TestData) {
	durability := metadata.DurabilityFsync
	if arg(td, "durability") == "replicated" {
		durability = metadata.DurabilityReplicated
	}
	w.commit(decision{records: []metadata.Record{metadata.BootstrapRecord{
		ClusterID: "cluster", Durability: durability, ForOne: td.HasArg("for-one"),
		Features: []metadata.FeatureLevel{{Name: metadata.FeatureMetadata, Level: 1}},
	}}})
}

func (w *world) tickBy(d time.Duration) {
	w.now = w.now.Add(d)
	for _, b := range w.suspects(w.now) {
		w.printf("suspect %d\n", b.ID)
	}
	for {
		d, more := w.tick(w.now)
		if !more {
			return
		}
		w.commit(d)
	}
}

// commit prints a decision and lets it take effect at the next position.
func (w *world) commit(d decision) {
	for _, r := range d.records {
		w.printf("%s\n", w.record(r))
	}
	w.apply(d.records)
	if len(d.records) > 0 {
		w.committed.Index++
	}
	if d.committed != nil {
		d.committed(w.committed)
	}
	if d.response != nil {
		w.printf("%s", w.response(d.response))
	}
}

func (w *world) registerFrom(t *testing.T, td *datadriven.TestData, id int32) {
	req := registrationRequest(t, td, id)
	known := addressNotProbed
	d, probe := w.registerBroker(w.now, Call{Request: req}, known)
	if probe != nil {
		w.printf("probe %s:%d\n", probe.Host, probe.Port)
		known = addressSilent
		if td.HasArg("refuses") {
			known = addressRefuses
		}
		d, _ = w.registerBroker(w.now, Call{Request: req}, known)
	}
	w.commit(d)
}

func registrationRequest(t *testing.T, td *datadriven.TestData, id int32) *kmsg.BrokerRegistrationRequest {
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.Version, req.BrokerID = 4, id
	req.ClusterID = argOr(td, "cluster", "cluster")
	req.IncarnationID = named(argOr(td, "incarnation", fmt.Sprintf("i%d", id)))
	for _, dir := range strings.Split(argOr(td, "dirs", fmt.Sprintf("d%d", id)), ",") {
		if dir != "" {
			req.LogDirs = append(req.LogDirs, named(dir))
		}
	}
	l := kmsg.NewBrokerRegistrationRequestListener()
	l.Name, l.Host, l.Port = "PLAINTEXT", argOr(td, "host", fmt.Sprintf("host%d", id)), 9092
	if td.HasArg("unadvertised") {
		SetUnadvertised(&l)
	}
	req.Listeners = append(req.Listeners, l)
	f := kmsg.NewBrokerRegistrationRequestFeature()
	f.Name, f.MinSupportedVersion, f.MaxSupportedVersion = metadata.FeatureMetadata, 1, 1
	if v := arg(td, "metadata-level"); v != "" {
		n := number[int16](t, v)
		f.MinSupportedVersion, f.MaxSupportedVersion = n, n
	}
	req.Features = append(req.Features, f)
	if r := arg(td, "rack"); r != "" {
		req.Rack = &r
	}
	req.PreviousBrokerEpoch = number[int64](t, argOr(td, "previous", "-1"))
	return req
}

func (w *world) heartbeatRequest(t *testing.T, td *datadriven.TestData, id int32) *kmsg.BrokerHeartbeatRequest {
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.BrokerID, req.Version = id, 2
	req.WantFence, req.WantShutdown = td.HasArg("fence"), td.HasArg("shutdown")
	req.CurrentMetadataOffset = number[int64](t, argOr(td, "at", fmt.Sprint(w.committed.Index)))
	if b := w.image.Broker(id); b != nil {
		req.BrokerEpoch = b.Epoch
	}
	req.BrokerEpoch = number[int64](t, argOr(td, "epoch", fmt.Sprint(req.BrokerEpoch)))
	for _, d := range list(arg(td, "offline")) {
		req.OfflineLogDirs = append(req.OfflineLogDirs, named(d))
	}
	var failed []FailedReplica
	for _, f := range list(arg(td, "failed")) {
		topic, index, _ := strings.Cut(f, ":")
		failed = append(failed, FailedReplica{w.image.Topic(topic).ID, number[int32](t, index)})
	}
	SetFailedReplicas(req, failed)
	var full []uuid.UUID
	for _, d := range list(arg(td, "full")) {
		full = append(full, named(d))
	}
	SetFullDirs(req, full)
	var ends []LogEnd
	for _, e := range list(arg(td, "ends")) {
		topic, end, _ := strings.Cut(e, ":")
		part := strings.Split(end, "@")
		ends = append(ends, LogEnd{w.image.Topic(topic).ID, number[int32](t, part[0]), number[int32](t, part[1]), number[int64](t, part[2])})
	}
	SetLogEnds(req, ends)
	return req
}

func (w *world) restore(t *testing.T) {
	s, err := metadata.Backup{Image: w.image.At(w.committed)}.Restored(time.Time{}, &countingReader{1 << 32})
	if err != nil {
		t.Fatal(err)
	}
	w.activate(w.now, s.Image)
}

func createRequest(t *testing.T, td *datadriven.TestData) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = number[int16](t, argOr(td, "version", "7"))
	req.TimeoutMillis = number[int32](t, argOr(td, "timeout", "5000"))
	req.ValidateOnly = td.HasArg("validate")
	for line := range strings.Lines(td.Input) {
		fields := strings.Fields(line)
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.NumPartitions, topic.ReplicationFactor = 1, 1
		if fields[0] != `""` {
			topic.Topic = fields[0]
		}
		for _, f := range fields[1:] {
			setTopicField(t, &topic, f)
		}
		req.Topics = append(req.Topics, topic)
	}
	return req
}

func setTopicField(t *testing.T, topic *kmsg.CreateTopicsRequestTopic, field string) {
	key, value, _ := strings.Cut(field, "=")
	switch key {
	case "partitions":
		topic.NumPartitions = number[int32](t, value)
	case "rf":
		topic.ReplicationFactor = number[int16](t, value)
	case "assign":
		topic.NumPartitions, topic.ReplicationFactor = -1, -1
		for part := range strings.SplitSeq(value, ";") {
			index, brokers, _ := strings.Cut(part, ":")
			a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
			a.Partition = number[int32](t, index)
			for _, b := range list(brokers) {
				a.Replicas = append(a.Replicas, number[int32](t, b))
			}
			topic.ReplicaAssignment = append(topic.ReplicaAssignment, a)
		}
	default:
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name = key
		if value != "null" {
			c.Value = &value
		}
		topic.Configs = append(topic.Configs, c)
	}
}

func (w *world) deleteRequest(t *testing.T, td *datadriven.TestData) *kmsg.DeleteTopicsRequest {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version = number[int16](t, argOr(td, "version", "6"))
	req.TimeoutMillis = number[int32](t, argOr(td, "timeout", "5000"))
	for line := range strings.Lines(td.Input) {
		topic := kmsg.NewDeleteTopicsRequestTopic()
		for field := range strings.FieldsSeq(line) {
			key, value, _ := strings.Cut(field, "=")
			switch known := w.image.Topic(value); {
			case key == "name":
				topic.Topic = &value
			case known != nil:
				topic.TopicID = known.ID
			default:
				topic.TopicID = named(value)
			}
		}
		if req.Version < 6 {
			req.TopicNames = append(req.TopicNames, *topic.Topic)
		} else {
			req.Topics = append(req.Topics, topic)
		}
	}
	return req
}

func (w *world) alterRequest(t *testing.T, td *datadriven.TestData, id int32) *kmsg.AlterPartitionRequest {
	req := kmsg.NewPtrAlterPartitionRequest()
	req.Version, req.BrokerID, req.BrokerEpoch = 3, id, w.image.Broker(id).Epoch
	for line := range strings.Lines(td.Input) {
		fields := strings.Fields(line)
		name, index, _ := strings.Cut(fields[0], ":")
		topic := kmsg.NewAlterPartitionRequestTopic()
		part := kmsg.NewAlterPartitionRequestTopicPartition()
		part.Partition = number[int32](t, index)
		if known := w.image.Topic(name); known != nil {
			topic.TopicID = known.ID
			if p := known.Partition(part.Partition); p != nil {
				part.LeaderEpoch, part.PartitionEpoch = p.LeaderEpoch, p.PartitionEpoch
			}
		}
		for _, f := range fields[1:] {
			w.setPartField(t, &part, f)
		}
		topic.Partitions = append(topic.Partitions, part)
		req.Topics = append(req.Topics, topic)
	}
	return req
}

func (w *world) setPartField(t *testing.T, part *kmsg.AlterPartitionRequestTopicPartition, field string) {
	key, value, _ := strings.Cut(field, "=")
	switch key {
	case "isr":
		for _, b := range list(value) {
			m := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
			id, epoch, withEpoch := strings.Cut(b, "@")
			m.BrokerID = number[int32](t, id)
			if withEpoch {
				m.BrokerEpoch = number[int64](t, epoch)
			} else if known := w.image.Broker(m.BrokerID); known != nil {
				m.BrokerEpoch = known.Epoch
			}
			part.NewEpochISR = append(part.NewEpochISR, m)
		}
	case "epoch":
		part.LeaderEpoch = number[int32](t, value)
	case "partition-epoch":
		part.PartitionEpoch = number[int32](t, value)
	case "recovering":
		part.LeaderRecoveryState = 1
	default:
		t.Fatalf("unknown field %s", field)
	}
}

func arg(td *datadriven.TestData, key string) string { return argOr(td, key, "") }

func argOr(td *datadriven.TestData, key, fallback string) string {
	for _, a := range td.CmdArgs {
		if a.Key == key {
			return strings.Join(a.Vals, ",")
		}
	}
	return fallback
}

func list(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

func number[T int16 | int32 | int64](t *testing.T, s string) T {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return T(n)
}
