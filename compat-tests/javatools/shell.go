package javatools

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/compat-tests/java"
)

// patience is how long one tool may take on a loaded machine.
const patience = time.Minute

// shell is a JVM in which tools run one after the other (see ToolShell.java).
type shell struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Reader
	errs  strings.Builder
	ended sync.Once
}

func startShell(t testing.TB) *shell {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	cmd, err := java.Quick(filepath.Join(filepath.Dir(file), "ToolShell.java"))
	if err != nil {
		t.Fatal(err)
	}
	s := &shell{cmd: cmd}
	cmd.Stderr = &s.errs
	if s.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.out = bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.stdin.Close() // it ends by itself then
		s.end()
	})
	return s
}

// end kills the process if it has not ended a moment after its input.
func (s *shell) end() {
	s.ended.Do(func() {
		kill := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() })
		defer kill.Stop()
		_ = s.cmd.Wait() // its exit code says nothing
	})
}

// run has a tool run, and returns its exit code and what it has printed.
func (s *shell) run(class, stdin string, args []string) (code int, printed string, err error) {
	slow := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() })
	defer func() {
		if !slow.Stop() {
			s.end()
			err = errors.Join(fmt.Errorf("%s has not ended within %s\n%s", class, patience, s.errs.String()), err)
		}
	}()
	words := append([]string{class, base64.StdEncoding.EncodeToString([]byte(stdin))}, args...)
	if _, err := fmt.Fprintln(s.stdin, strings.Join(words, "\t")); err != nil {
		return 0, "", err
	}
	head, err := s.out.ReadString('\n')
	if err != nil {
		return 0, "", err
	}
	var size int
	if _, err := fmt.Sscanf(head, "%d %d\n", &code, &size); err != nil {
		return 0, "", fmt.Errorf("the shell says %q: %w", head, err)
	}
	out := make([]byte, size)
	_, err = io.ReadFull(s.out, out)
	return code, string(out), err
}

// class is the main class behind the name of one of Kafka's scripts.
func class(tool string) (string, bool) {
	name, found := map[string]string{
		"kafka-acls":                 "AclCommand",
		"kafka-broker-api-versions":  "BrokerApiVersionsCommand",
		"kafka-client-metrics":       "ClientMetricsCommand",
		"kafka-cluster":              "ClusterTool",
		"kafka-configs":              "ConfigCommand",
		"kafka-console-consumer":     "consumer.ConsoleConsumer",
		"kafka-console-producer":     "ConsoleProducer",
		"kafka-consumer-groups":      "consumer.group.ConsumerGroupCommand",
		"kafka-consumer-perf-test":   "ConsumerPerformance",
		"kafka-delegation-tokens":    "DelegationTokenCommand",
		"kafka-delete-records":       "DeleteRecordsCommand",
		"kafka-e2e-latency":          "EndToEndLatency",
		"kafka-features":             "FeatureCommand",
		"kafka-get-offsets":          "GetOffsetShell",
		"kafka-groups":               "GroupsCommand",
		"kafka-leader-election":      "LeaderElectionCommand",
		"kafka-log-dirs":             "LogDirsCommand",
		"kafka-metadata-quorum":      "MetadataQuorumCommand",
		"kafka-producer-perf-test":   "ProducerPerformance",
		"kafka-reassign-partitions":  "reassign.ReassignPartitionsCommand",
		"kafka-streams-reset":        "StreamsResetter",
		"kafka-topics":               "TopicCommand",
		"kafka-transactions":         "TransactionsCommand",
		"kafka-verifiable-consumer":  "VerifiableConsumer",
		"kafka-verifiable-producer":  "VerifiableProducer",
		"kafka-client-compatibility": "ClientCompatibilityTest",
	}[tool]
	return "org.apache.kafka.tools." + name, found
}
