package harness

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// readyTimeout is how long a start may take on a loaded machine.
const readyTimeout = 60 * time.Second

// Binary builds klamm once per test process and returns its path. KLAMM_BINARY names one
// that exists already.
var Binary = sync.OnceValues(func() (string, error) {
	if bin := os.Getenv("KLAMM_BINARY"); bin != "" {
		return bin, nil
	}
	dir, err := os.MkdirTemp("", "klamm-compat-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // also for brokers of other users
		return "", err
	}
	bin := filepath.Join(dir, "klamm")
	build := exec.Command("go", "build", "-o", bin, "./cmd/klamm")
	build.Dir = moduleRoot()
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build klamm: %w\n%s", err, out)
	}
	return bin, nil
})

func moduleRoot() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// Broker is one klamm process after the other on the same data directory and port.
type Broker struct {
	t    testing.TB
	bin  string
	Dir  string
	Addr string // of the client listener
	// OnLine is given each line that the processes print; set it before Start.
	OnLine func(line string)
	// Prefix is a program with arguments that runs the broker, by exec; set it before
	// Start. Env are variables for it beside those of the test.
	Prefix, Env []string
	args        []string

	cmd    *exec.Cmd
	exited chan struct{} // closed when the process is gone
	ready  chan struct{} // closed when it has printed its ready line
	stderr *tail
}

// New prepares a broker in a directory of the test's own. Settings are key=value pairs.
func New(t testing.TB, settings ...string) *Broker {
	t.Helper()
	bin, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	b := &Broker{t: t, bin: bin, Dir: t.TempDir(), Addr: fmt.Sprintf("127.0.0.1:%d", FreePort(t))}
	settings = append([]string{
		"listeners=PLAINTEXT://" + b.Addr,
		"log.dirs=" + filepath.Join(b.Dir, "data"),
		"admin.listener=",
	}, settings...)
	b.args = []string{"start"}
	b.Set(settings...)
	t.Cleanup(b.Kill)
	return b
}

// Start prepares a broker and waits until it is ready.
func Start(t testing.TB, settings ...string) *Broker {
	t.Helper()
	b := New(t, settings...)
	b.Start()
	return b
}

// given are the ports that FreePort has found in this process. Who was given one may not have
// opened it yet.
var given sync.Map

// FreePort finds a free port outside the range from which the system picks ports for
// outgoing connections: there a client that polls could connect to itself.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 20000 + rand.IntN(12000)
		if _, twice := given.LoadOrStore(port, true); twice {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = l.Close() // it was only tried
			return port
		}
	}
	t.Fatal("no free port between 20000 and 32000")
	return 0
}

// Start starts a process and waits for its ready line.
func (b *Broker) Start() {
	b.t.Helper()
	if err := b.TryStart(); err != nil {
		b.t.Fatal(err)
	}
}

// TryStart is Start with the failure as an error.
func (b *Broker) TryStart() error {
	if err := b.Launch(); err != nil {
		return err
	}
	return b.WaitReady()
}

// Launch starts a process and does not wait.
func (b *Broker) Launch() error {
	argv := slices.Concat(b.Prefix, []string{b.bin}, b.args)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), b.Env...)
	pipe, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	b.cmd, b.stderr = cmd, &tail{also: b.OnLine}
	ready, exited := make(chan struct{}), make(chan struct{})
	b.ready, b.exited = ready, exited
	stderr := b.stderr
	go func() {
		stderr.follow(bufio.NewScanner(pipe), ready)
		_ = cmd.Wait()
		close(exited)
	}()
	return nil
}

// WaitReady waits until the launched process has printed its ready line.
func (b *Broker) WaitReady() error {
	deadline := time.NewTimer(readyTimeout)
	defer deadline.Stop()
	select {
	case <-b.ready:
		return nil
	case <-b.exited:
		return fmt.Errorf("klamm exited before it was ready:\n%s", b.stderr)
	case <-deadline.C:
		b.Kill()
		return fmt.Errorf("klamm was not ready after %s:\n%s", readyTimeout, b.stderr)
	}
}

// Pid is the id of the running process.
func (b *Broker) Pid() int { return b.cmd.Process.Pid }

// Stderr is the end of what the process has said.
func (b *Broker) Stderr() string { return b.stderr.String() }

// Gone tells whether the process has ended.
func (b *Broker) Gone() bool {
	select {
	case <-b.exited:
		return true
	default:
		return false
	}
}

// Kill ends the process with SIGKILL.
func (b *Broker) Kill() { b.signal(syscall.SIGKILL) }

// Stop ends the process with SIGTERM and returns its exit code.
func (b *Broker) Stop() int {
	b.signal(syscall.SIGTERM)
	return b.cmd.ProcessState.ExitCode()
}

func (b *Broker) signal(s syscall.Signal) {
	if b.cmd == nil || b.cmd.Process == nil {
		return
	}
	if err := b.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		b.t.Errorf("signal %s: %v", s, err)
	}
	<-b.exited
}

// tail keeps the last lines of a stream.
type tail struct {
	also  func(line string)
	mu    sync.Mutex
	lines []string
}

const tailLines = 200

func (t *tail) follow(in *bufio.Scanner, ready chan<- struct{}) {
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		line := in.Text()
		if t.also != nil {
			t.also(line)
		}
		t.mu.Lock()
		t.lines = append(t.lines, line)
		if len(t.lines) > tailLines {
			t.lines = t.lines[1:]
		}
		t.mu.Unlock()
		if ready != nil && strings.Contains(line, "klamm ready") {
			close(ready)
			ready = nil
		}
	}
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}
