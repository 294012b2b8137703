package kfake

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/klamm-mq/klamm/conform"
	"github.com/klamm-mq/klamm/conform/scenarios"
	"github.com/klamm-mq/klamm/conform/transcripts"
)

// The least that must be found. kfake differs in many more steps; a comparison that sees
// only these has gone blind.
const (
	leastAPIs  = 6
	leastSteps = 500
)

// judged are APIs whose scenarios do not wait for long.
var judged = []int16{2, 3, 20, 21, 22, 23, 29, 37}

// patience with the scenarios of one API: the fake leaves some requests without an answer.
const patience = 10 * time.Second

// served is set in the environment of a process that is to be the fake: some requests of
// the scenarios end it by a panic.
const served = "KLAMM_SERVE_KFAKE"

func TestMain(m *testing.M) {
	if os.Getenv(served) == "" {
		os.Exit(m.Run())
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ClusterID("fake"))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(cluster.ListenAddrs()[0])
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends
	cluster.Close()
}

// serve starts a fake and returns its address.
func serve(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), served+"=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait() // which may have ended by itself
	})
	addr, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the fake says %q: %v", addr, err)
	}
	return strings.TrimSpace(addr)
}

func TestFakeIsFoundToDiffer(t *testing.T) {
	reference, err := transcripts.Load()
	if err != nil {
		t.Fatal(err)
	}
	differ, steps, same := 0, 0, 0
	for _, key := range judged {
		report := judge(t, key, reference)
		api, _ := conform.Lookup(key)
		t.Logf("%2d %-22s %4d steps, %4d same, %4d different, %d scenarios cut short",
			key, api.Name, report.Steps, report.Same, report.Different, len(report.Failures))
		steps += report.Different
		same += report.Same
		if report.Different > 0 {
			differ++
		}
	}
	if differ < leastAPIs || steps < leastSteps {
		t.Errorf("%d steps of %d APIs differ, at least %d of %d must", steps, differ, leastSteps, leastAPIs)
	}
	if same < steps/10 {
		t.Errorf("only %d steps are the same: the comparison, or the fake, is broken", same)
	}
}

// judge asks a fresh fake the scenarios of one API.
func judge(t *testing.T, key int16, reference map[string]conform.Transcript) conform.Report {
	t.Helper()
	var list []conform.Scenario
	for _, s := range scenarios.All() {
		if s.Key == key {
			list = append(list, s)
		}
	}
	target, err := conform.Connect(t.Context(), serve(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	outcomes, err := conform.Run(ctx, target, list, conform.Options{Parallel: 8})
	if err != nil {
		t.Logf("%d: %v", key, err)
	}
	return conform.Judge(target, outcomes, reference, nil)
}
