package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// defaultSlack is the timer slack that Linux gives a process, ns: by how much a sleep may
	// be longer than asked for.
	defaultSlack = 50_000
	// easySlack is a broker's. The monitor thread of Go's runtime asks for 20 µs while
	// anything goes on, at each of which it looks for threads that the system holds up: with
	// the default slack it wakes up 14,000 times a second, for a tenth of the CPU that a
	// busy broker takes, with this one 3,000 times. Whoever waits for a thread of the runtime
	// that waits for the disk gets another one so much later; timers of the broker are in
	// whole milliseconds anyway.
	easySlack = 300_000
	// easedMark is in the environment of a process that has been here.
	easedMark = "_KLAMM_TIMERS=eased"
)

// easeTimers gives all threads of this process the timer slack of a broker, unless somebody
// (systemd's TimerSlackNSec) has set one. A thread has it from the one that made it, and the
// runtime's threads are there before main: so the program is executed once more, in the same
// process. Where that cannot be, everything stays as it is.
func easeTimers() {
	for _, v := range os.Environ() {
		if v == easedMark {
			_ = os.Unsetenv("_KLAMM_TIMERS") // it is for this process only
			return
		}
	}
	path, err := os.Executable()
	if slack, slackErr := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0); err != nil || slackErr != nil || slack != defaultSlack {
		return
	}
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, easySlack, 0, 0, 0); err != nil {
		return
	}
	_ = syscall.Exec(path, os.Args, append(os.Environ(), easedMark)) // returns only if it fails
}
