package configs

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
)

// TestLoad plays testdata/load: "file NAME" keeps a file, "load" takes lines "file NAME",
// "env NAME=VALUE" and "--set key=value" and prints what Load makes of them: problems,
// warnings, and the values that somebody set.
func TestLoad(t *testing.T) {
	datadriven.Walk(t, "testdata/load", func(t *testing.T, path string) {
		files := map[string]string{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "file" {
				files[d.CmdArgs[0].Key] = d.Input
				return ""
			}
			return transcript(Load(sources(t, files, d.Input)))
		})
	})
}

func sources(t *testing.T, files map[string]string, script string) Sources {
	s := Sources{ReadFile: func(name string) ([]byte, error) {
		text, ok := files[name]
		if !ok {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		return []byte(text), nil
	}}
	for line := range strings.Lines(script) {
		what, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch what {
		case "file":
			s.Files = append(s.Files, value)
		case "env":
			s.Env = append(s.Env, value)
		case "--set":
			s.Set = append(s.Set, value)
		default:
			t.Fatalf("no command %q", what)
		}
	}
	return s
}

func transcript(b *Broker, warnings []Warning, err error) string {
	var out strings.Builder
	var problems Problems
	if errors.As(err, &problems) {
		for _, p := range problems {
			fmt.Fprintln(&out, "problem:", p.Error())
		}
	} else if err != nil {
		fmt.Fprintln(&out, "error of another type:", err)
	}
	for _, w := range warnings {
		fmt.Fprintln(&out, "warning:", w)
	}
	if b == nil {
		return out.String()
	}
	for _, e := range b.Effective() {
		if e.Set {
			fmt.Fprintf(&out, "%s = %s  (%s)\n", e.Key.Name, e.Value, e.Place)
		}
	}
	if out.Len() == 0 {
		return "defaults\n"
	}
	return out.String()
}

// Without any configuration: one node, reachable from this machine alone.
func TestDefault(t *testing.T) {
	b := Default()
	want := &Broker{
		NodeID: 1, BrokerRole: true, ControllerRole: true, Durability: Fsync, AdminListener: "127.0.0.1:9644",
		Listeners:           []Listener{{"PLAINTEXT", "127.0.0.1", 9092}},
		InterBrokerListener: "PLAINTEXT",
		Quorum:              Quorum{BootstrapServers: []string{}},
		LogDirs:             []string{"klamm-data"}, MetadataLogDir: "klamm-data",
		Network: Network{
			SendBufferBytes: 102400, ReceiveBufferBytes: 102400, MaxRequestBytes: 104857600, ListenBacklog: 50,
			MaxConnections: 2147483647, MaxConnectionsPerIP: 2147483647, MaxConnectionsPerIPOverrides: map[string]int{},
			MaxConnectionCreationRate: 2147483647, MaxIdle: 10 * time.Minute, QueuedMaxRequests: 500, QueuedMaxRequestBytes: -1,
			FetchMaxBytes: 57671680, FetchSessionSlots: 1000, TelemetryMaxBytes: 1 << 20,
		},
		Quotas: Quotas{Samples: 11, ControllerSamples: 11, ReplicationSamples: 11, Window: time.Second, ControllerWindow: time.Second, ReplicationWindow: time.Second},
		Logs: Logs{
			RetentionCheckInterval: 5 * time.Minute, RecoveryPointInterval: 30 * time.Second, LogStartCheckpointInterval: time.Minute,
			HighWatermarkInterval: 5 * time.Second, RecoveryThreads: 2,
		},
		Cleaner: Cleaner{
			Enabled: true, Threads: 1, DedupeBytes: 128 << 20, LoadFactor: 0.9, IOBufferBytes: 512 << 10,
			MaxBytesPerSecond: math.MaxFloat64, Backoff: 15 * time.Second,
		},
		NewTopics: NewTopics{Partitions: 1, ReplicationFactor: 1, AutoCreate: true, DeleteEnabled: true, MaxPartitionsShown: 2000},
		Replication: Replication{
			LagTimeMax: 30 * time.Second, Fetchers: 1, FetchMaxBytes: 1048576, FetchMinBytes: 1, FetchResponseMaxBytes: 10485760,
			FetchWaitMax: 500 * time.Millisecond, FetchBackoff: time.Second, SocketTimeout: 30 * time.Second, ReceiveBufferBytes: 65536,
			LeaderRebalance: true, ImbalanceCheckInterval: 5 * time.Minute, UncleanElectionInterval: 5 * time.Minute,
		},
		HeartbeatInterval: 500 * time.Millisecond, SessionTimeout: 3 * time.Second, RegistrationTimeout: time.Minute,
		RequestTimeout: 30 * time.Second, ControlledShutdown: true,
		Groups: Groups{
			InitialRebalanceDelay: 3 * time.Second, MinSessionTimeout: 6 * time.Second, MaxSessionTimeout: 30 * time.Minute,
			MaxSize: 2147483647, AppendLinger: -time.Millisecond, OffsetMetadataMaxBytes: 4096, OffsetCommitTimeout: 5 * time.Second,
			OffsetsRetention: 7 * 24 * time.Hour, RetentionCheckInterval: 10 * time.Minute,
		},
		OffsetsTopic:          InternalTopic{Partitions: 50, ReplicationFactor: 3, SegmentBytes: 104857600},
		TransactionsTopic:     InternalTopic{Partitions: 50, ReplicationFactor: 3, MinInSyncCount: 2, SegmentBytes: 104857600},
		ShareStateTopic:       InternalTopic{Partitions: 50, ReplicationFactor: 3, MinInSyncCount: 2, SegmentBytes: 104857600},
		MaxTransactionTimeout: 15 * time.Minute, ProducerIDExpiration: 24 * time.Hour,
	}
	unexported := cmp.FilterPath(func(p cmp.Path) bool {
		f, ok := p.Last().(cmp.StructField)
		return ok && (f.Name() == "store" || f.Name() == "raw" || f.Name() == "static" || f.Name() == "dynamic")
	}, cmp.Ignore())
	if diff := cmp.Diff(want, b, unexported); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

// The typed fields follow the keys.
func TestLoadFillsTheFields(t *testing.T) {
	b, _, err := Load(Sources{Set: strings.Fields(`
		node.id=7 process.roles=broker controller.quorum.voters=1@a:9093,2@[::1]:9094
		listeners=internal://:9092,EXT://10.0.0.1:9095 listener.security.protocol.map=INTERNAL:PLAINTEXT,ext:PLAINTEXT,CONTROLLER:PLAINTEXT
		advertised.listeners=INTERNAL://a:9092,EXT://b.example:9095 inter.broker.listener.name=internal controller.listener.names=CONTROLLER
		log.dirs=/d1/,/d2 metadata.log.dir=/m broker.rack=r1 durability=replicated admin.listener=
		max.connections.per.ip=0 max.connections.per.ip.overrides=10.0.0.1:5,[::1]:6 connections.max.idle.ms=-1
		controller.quorum.election.timeout.ms=200 controller.quorum.fetch.timeout.ms=300
		offsets.topic.replication.factor=1 transaction.state.log.min.isr=1 share.coordinator.state.topic.min.isr=1
		log.retention.check.interval.ms=9223372036854775807 cluster.id=AAAAAAAAAAAAAAAAAAAAAQ`)})
	if err != nil {
		t.Fatal(err)
	}
	check := func(name string, got, want any) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	check("node id", b.NodeID, int32(7))
	check("roles", []bool{b.BrokerRole, b.ControllerRole}, []bool{true, false})
	check("voters", b.Quorum.Voters, []Voter{{1, "a", 9093}, {2, "::1", 9094}})
	check("voter's address", b.Quorum.Voters[1].Address(), "[::1]:9094")
	check("listeners", b.Listeners, []Listener{{"INTERNAL", "", 9092}, {"EXT", "10.0.0.1", 9095}})
	check("advertised", b.Advertised, []Listener{{"INTERNAL", "a", 9092}, {"EXT", "b.example", 9095}})
	check("inter-broker listener", b.InterBrokerListener, "INTERNAL")
	check("log dirs", b.LogDirs, []string{"/d1", "/d2"})
	check("metadata dir", b.MetadataLogDir, "/m")
	check("rack, durability, admin", []string{b.Rack, b.Durability.String(), b.AdminListener}, []string{"r1", "replicated", ""})
	check("per IP", b.Network.MaxConnectionsPerIPOverrides, map[string]int{"10.0.0.1": 5, "::1": 6})
	check("idle", b.Network.MaxIdle, -time.Millisecond)
	check("election", []time.Duration{b.Quorum.ElectionTimeout, b.Quorum.FetchTimeout}, []time.Duration{200 * time.Millisecond, 300 * time.Millisecond})
	check("offsets topic", b.OffsetsTopic, InternalTopic{Partitions: 50, ReplicationFactor: 1, ReplicationFactorSet: true, SegmentBytes: 104857600})
	check("min isr", []int32{b.TransactionsTopic.MinInSyncCount, b.ShareStateTopic.MinInSyncCount}, []int32{1, 1})
	check("the longest time", b.Logs.RetentionCheckInterval, time.Duration(1<<63-1))
	check("cluster id", b.ClusterID, "AAAAAAAAAAAAAAAAAAAAAQ")
}

func TestBrokerListeners(t *testing.T) {
	b, _, err := Load(Sources{Set: []string{"listeners=PLAINTEXT://:9092,CONTROLLER://:9093", "controller.listener.names=controller"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Listener{{"PLAINTEXT", "", 9092}}, b.BrokerListeners()); diff != "" {
		t.Error(diff)
	}
	if !b.IsControllerListener("CONTROLLER") || b.IsControllerListener("PLAINTEXT") {
		t.Error("IsControllerListener")
	}
}

func TestProblemsNameTheFirstAndCountTheRest(t *testing.T) {
	one := Problem{"server.properties", "num.partitions", "0", "must be at least 1"}
	if got, want := (Problems{one}).Error(), "server.properties: num.partitions: 0: must be at least 1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := (Problems{one, one, one}).Error(), "server.properties: num.partitions: 0: must be at least 1 (and 2 more)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	spaced := Problem{"--set", "num.partitions", "a\nb", "must be a 32-bit integer"}
	if got := spaced.Error(); strings.Contains(got, "\n") {
		t.Errorf("%q is more than one line", got)
	}
}

// A listener has the limits of the broker unless it has its own, which may change while the
// broker runs.
func TestListenerLimits(t *testing.T) {
	b := loaded(t, "max.connections=100", "listener.name.out.max.connections=7", "listener.name.OUT.max.connection.creation.rate=3")
	limits := func(b *Broker, listener string) [2]int32 {
		connections, rate := b.ListenerLimits(listener)
		return [2]int32{connections, rate}
	}
	const none = 1<<31 - 1
	if got := limits(b, "IN"); got != [2]int32{100, none} {
		t.Errorf("IN has %v", got)
	}
	if got := limits(b, "OUT"); got != [2]int32{7, none} { // Kafka, too, knows names of small letters alone
		t.Errorf("OUT has %v", got)
	}
	b = with(t, b, Dynamic{
		All: map[string]string{"listener.name.out.max.connections": "8", "max.connection.creation.rate": "50"},
		Own: map[string]string{"listener.name.in.max.connection.creation.rate": "9"},
	})
	if got := limits(b, "OUT"); got != [2]int32{8, 50} {
		t.Errorf("OUT has %v after a change", got)
	}
	if got := limits(b, "IN"); got != [2]int32{100, 9} {
		t.Errorf("IN has %v after a change", got)
	}
	if _, _, err := Load(Sources{Set: []string{"listener.name.out.max.connections=x"}}); err == nil || !strings.Contains(err.Error(), "listener.name.out.max.connections") {
		t.Errorf("a limit that is no number: %v", err)
	}
}
