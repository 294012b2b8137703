package javatools

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/compat-tests/java"
)

// expect runs a command and wants a pattern in what it prints.
func (s *session) expect(want, line string) {
	s.t.Helper()
	begin := time.Now()
	got := s.command(line)
	s.t.Logf("%5d ms  %s", time.Since(begin).Milliseconds(), line)
	if !regexp.MustCompile("(?m)" + want).MatchString(got) {
		s.t.Errorf("%s prints\n%s\nwant %s", line, got, want)
	}
}

// groupWithAMember: a group that has a member is described with it, and not touched.
func (s *session) groupWithAMember() {
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(s.addr), kgo.DefaultProduceTopic("orders"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(ctx, 1, 1, nil, "orders"); err != nil {
		s.t.Fatal(err)
	}
	if err := client.ProduceSync(ctx, kgo.StringRecord("one"), kgo.StringRecord("two")).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
	member, err := kgo.NewClient(kgo.SeedBrokers(s.addr), kgo.ClientID("reader"), kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("orders"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.Balancers(kgo.RangeBalancer()), kgo.DisableAutoCommit())
	if err != nil {
		s.t.Fatal(err)
	}
	defer member.Close()
	for n := 0; n < 2; {
		n += member.PollFetches(ctx).NumRecords()
		if ctx.Err() != nil {
			s.t.Fatal("the member reads nothing")
		}
	}
	if err := member.CommitUncommittedOffsets(ctx); err != nil {
		s.t.Fatal(err)
	}

	const groups = "kafka-consumer-groups --bootstrap-server BROKER "
	s.expect(`^billing +Stable`, groups+"--list --state")
	s.expect(`^billing +orders +0 +2 +2 +0 +reader-\S+ +/127\.0\.0\.1 +reader`, groups+"--describe --group billing")
	s.expect(`^billing +BROKER +\(1\) +range +Stable +1`, groups+"--describe --group billing --state")
	s.expect(`^billing +reader-\S+ +/127\.0\.0\.1 +reader +1 +- +orders:0 `, groups+"--describe --group billing --members --verbose")
	s.expect(`the current state is Stable`, groups+"--reset-offsets --group billing --topic orders --to-earliest --execute")
	s.expect(`GroupSubscribedToTopicException`, groups+"--delete-offsets --group billing --topic orders:0")
	s.expect(`GroupNotEmptyException`, groups+"--delete --group billing")
	s.expect(`IllegalStateException`, "kafka-streams-reset --bootstrap-server BROKER --application-id billing --input-topics orders")
	s.expect(`^Topic: orders Partition: 0 Offset: 0$`, "kafka-streams-reset --bootstrap-server BROKER --application-id billing --input-topics orders --force")
}

// apiVersions: what is served is served in Kafka's versions, and the tool knows all that is left out.
func (s *session) apiVersions() {
	wanted, err := os.ReadFile("testdata/api-versions")
	if err != nil {
		s.t.Fatal(err)
	}
	served := 0
	got := strings.Split(s.command("kafka-broker-api-versions --bootstrap-server BROKER"), "\n")
	for want := range strings.Lines(string(wanted)) {
		want = strings.TrimSuffix(want, "\n")
		api, _, _ := strings.Cut(want, ":")
		i := slices.IndexFunc(got, func(line string) bool { return strings.HasPrefix(line, api+":") })
		switch {
		case i < 0:
			s.t.Errorf("%q is not printed", want)
		case strings.TrimSuffix(got[i], ",") == want:
			served++
		case !strings.Contains(got[i], "UNSUPPORTED"):
			s.t.Errorf("%q, and on Kafka %q", got[i], want)
		}
	}
	if served < 40 {
		s.t.Errorf("only %d are served:\n%s", served, strings.Join(got, "\n"))
	}
}

// descriptions: what depends on which broker it is has at least the right shape.
func (s *session) descriptions() {
	s.expect(`^LeaderId: +1$`, "kafka-metadata-quorum --bootstrap-server BROKER describe --status")
	s.expect(`^CurrentVoters: +\[\{"id": 1, "directoryId": "[\w-]{22}", "endpoints": \["\w+://[^"]+"\]\}\]$`, "kafka-metadata-quorum --bootstrap-server BROKER describe --status")
	s.expect(`^Feature: \S+\s+SupportedMinVersion: .*\s+FinalizedVersionLevel: `, "kafka-features --bootstrap-server BROKER describe")
	s.expect(`^\(id: 1 rack: null isFenced: false\)|^BROKER \(id: 1 rack: null`, "kafka-broker-api-versions --bootstrap-server BROKER")
	s.expect(`^  advertised.listeners=`, "kafka-configs --bootstrap-server BROKER --describe --all --entity-type brokers --entity-name 1")
	s.expect(`^  root=`, "kafka-configs --bootstrap-server BROKER --describe --entity-type broker-loggers --entity-name 1")
}

// directories: a partition moves from one log directory to the other, with what is in it.
func (s *session) directories() {
	s.command("kafka-topics --bootstrap-server BROKER --create --topic words")
	s.command(`kafka-console-producer --bootstrap-server BROKER --topic words <<< one\ntwo\nthree\n`)
	file := filepath.Join(s.tmp, "plan.json")
	for _, dir := range []string{s.dir, s.more, s.dir} {
		plan := fmt.Sprintf(`{"version":1,"partitions":[{"topic":"words","partition":0,"replicas":[1],"log_dirs":[%q]}]}`, dir)
		if err := os.WriteFile(file, []byte(plan), 0o644); err != nil {
			s.t.Fatal(err)
		}
		s.expect(`^Successfully started partition reassignment for words-0$`, "kafka-reassign-partitions --bootstrap-server BROKER --execute --reassignment-json-file "+file)
		const moved = `Status of partition reassignment:
Reassignment of partition words-0 is completed.
Reassignment of replica words-0-1 completed successfully.
Clearing broker-level throttles on broker 1
Clearing topic-level throttles on topic words
`
		if got := s.eventually("kafka-reassign-partitions --bootstrap-server BROKER --verify --reassignment-json-file "+file, moved); got != moved {
			s.t.Errorf("it has not moved:\n%s", got)
		}
		if got := s.directoryOf("words-0"); got != dir {
			s.t.Errorf("it is in %s, and should be in %s", got, dir)
		}
	}
	s.expect(`^one\ntwo\nthree\n`, "kafka-console-consumer --bootstrap-server BROKER --topic words --partition 0 --offset earliest --max-messages 3 --timeout-ms 20000")
}

// directoryOf is where kafka-log-dirs finds the only replica of a partition.
func (s *session) directoryOf(partition string) (found string) {
	s.t.Helper()
	code, printed, err := s.shell.run("org.apache.kafka.tools.LogDirsCommand", "", []string{"--bootstrap-server", s.addr, "--describe"})
	if err != nil || code != 0 {
		s.t.Fatalf("code %d, %v:\n%s", code, err, printed)
	}
	var answer struct {
		Brokers []struct {
			LogDirs []struct {
				LogDir     string
				Partitions []struct{ Partition string }
			}
		}
	}
	if err := json.Unmarshal([]byte(printed[strings.Index(printed, "{"):]), &answer); err != nil {
		s.t.Fatalf("%v:\n%s", err, printed)
	}
	for _, dir := range answer.Brokers[0].LogDirs {
		for _, p := range dir.Partitions {
			if p.Partition == partition {
				found += dir.LogDir
			}
		}
	}
	return found
}

// verifiableClients: these two print while their process ends, so each has one of its own.
func (s *session) verifiableClients() {
	s.process("org.apache.kafka.tools.VerifiableProducer", []string{"--topic", "counted", "--max-messages", "100", "--acks", "-1", "--value-prefix", "7"},
		`"name":"producer_send_success","key":null,"value":"7.99","offset":99`, `"name":"tool_data","sent":100,"acked":100,`)
	s.process("org.apache.kafka.tools.VerifiableConsumer", []string{"--topic", "counted", "--group-id", "readers", "--max-messages", "100", "--reset-policy", "earliest"},
		`"name":"records_consumed","count":100,`, `"name":"offsets_committed","offsets":\[\{"topic":"counted","partition":0,"offset":100\}\],"success":true`, `"name":"shutdown_complete"`)
}

// process runs a tool in a process of its own, and wants patterns in what it prints.
func (s *session) process(class string, args []string, want ...string) {
	s.t.Helper()
	cmd, err := java.Quick(class, append([]string{"--bootstrap-server", s.addr}, args...)...)
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	for _, pattern := range want {
		if err != nil || !regexp.MustCompile(pattern).Match(out) {
			s.t.Errorf("%s %v: %v, want %s:\n%s", class, args, err, pattern, out)
		}
	}
}
