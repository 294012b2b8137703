package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// eased checks that a broker was executed with easy timers, unless those of the tests are of
// somebody's choice.
func eased(ts *testscript.TestScript, neg bool, args []string) {
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	ts.Check(err)
	cmd := ts.Value(brokersKey{}).(brokers)[args[0]]
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", cmd.Process.Pid))
	ts.Check(err)
	if got := strings.Contains(string(env), easedMark); got == neg && slack == defaultSlack {
		ts.Fatalf("broker %s has easy timers: %v", args[0], got)
	}
}
