package java

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Quick is Command for what ends after seconds: its virtual machine spends its time on
// starting instead of on getting fast.
func Quick(class string, args ...string) (*exec.Cmd, error) {
	return CommandJVM(quick(), class, args...)
}

func quick() []string {
	return []string{"-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"}
}

// Process is a running program whose lines are kept. It ends with the test.
type Process struct {
	t      testing.TB
	name   string
	cmd    *exec.Cmd
	exited chan struct{}

	mu    sync.Mutex
	lines []string
	wake  chan struct{} // closed and replaced at each line
}

const (
	processPatience = 90 * time.Second // for a line of a program on a loaded machine
	shownLines      = 60               // of a program that fails
)

// Run starts a class of Kafka's, or a source file.
func Run(t testing.TB, name, class string, args ...string) *Process {
	t.Helper()
	lib, err := Jars()
	if err != nil {
		t.Fatal(err)
	}
	return run(t, name, command(lib, quick(), class, args))
}

// RunConnect starts a class of Connect's.
func RunConnect(t testing.TB, name, class string, args ...string) *Process {
	t.Helper()
	lib, err := ConnectJars()
	if err != nil {
		t.Fatal(err)
	}
	// What its log says without a configuration of it.
	flags := append(quick(), "-Dorg.apache.logging.log4j.level=WARN")
	return run(t, name, command(lib, flags, class, args))
}

func run(t testing.TB, name string, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{t: t, name: name, cmd: cmd, exited: make(chan struct{}), wake: make(chan struct{})}
	read, write := io.Pipe()
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.follow(read)
	go func() {
		_ = cmd.Wait() // how it ended shows in what it did
		_ = write.Close()
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Log(p)
		}
	})
	return p
}

func (p *Process) follow(out io.Reader) {
	in := bufio.NewScanner(out)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		p.mu.Lock()
		p.lines = append(p.lines, in.Text())
		close(p.wake)
		p.wake = make(chan struct{})
		p.mu.Unlock()
	}
	close(p.exited)
}

// Lines are what the program has printed.
func (p *Process) Lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines)
}

// Await waits for a line that matches.
func (p *Process) Await(pattern string) {
	p.t.Helper()
	limit := time.NewTimer(processPatience)
	defer limit.Stop()
	for {
		p.mu.Lock()
		wake := p.wake
		p.mu.Unlock()
		if slices.ContainsFunc(p.Lines(), regexp.MustCompile(pattern).MatchString) {
			return
		}
		select {
		case <-wake:
		case <-p.exited:
			p.t.Fatalf("%s has ended and never said %s", p.name, pattern)
		case <-limit.C:
			p.t.Fatalf("%s does not say %s within %s", p.name, pattern, processPatience)
		}
	}
}

// Stop ends the program with SIGTERM, and waits until it is gone.
func (p *Process) Stop() { p.signal(syscall.SIGTERM) }

// Kill ends it with SIGKILL.
func (p *Process) Kill() { p.signal(syscall.SIGKILL) }

func (p *Process) signal(s syscall.Signal) {
	p.t.Helper()
	_ = p.cmd.Process.Signal(s) // it may have ended by itself
	select {
	case <-p.exited:
	case <-time.After(processPatience):
		_ = p.cmd.Process.Kill()
		p.t.Errorf("%s does not end within %s", p.name, processPatience)
		<-p.exited
	}
}

func (p *Process) String() string {
	lines := p.Lines()
	return fmt.Sprintf("%s, %d lines:\n    %s", p.name, len(lines), strings.Join(lines[max(0, len(lines)-shownLines):], "\n    "))
}
