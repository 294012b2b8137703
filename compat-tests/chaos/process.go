package chaos

import (
	"bufio"
	"io"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// process is a running client. What it prints is taken line by line.
type process struct {
	name   string
	cmd    *exec.Cmd
	exited chan struct{}
	events atomic.Int64 // acknowledgements of a producer, records of a member

	mu    sync.Mutex
	lines []string // the newest that take does not know
}

// keptLines is how much of a client's output a failure shows.
const keptLines = 30

// start runs a client; take says whether it knows a line, and whether that is progress.
func start(t testing.TB, name string, cmd *exec.Cmd, take func(line string) (known, progress bool)) *process {
	t.Helper()
	p := &process{name: name, cmd: cmd, exited: make(chan struct{})}
	var followed sync.WaitGroup
	var ends []*io.PipeWriter
	for _, stream := range []*io.Writer{&cmd.Stdout, &cmd.Stderr} {
		read, write := io.Pipe()
		*stream, ends = write, append(ends, write)
		followed.Go(func() { p.follow(read, take) })
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		_ = cmd.Wait() // the caller looks at the state
		for _, end := range ends {
			_ = end.Close()
		}
		followed.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() { p.end(syscall.SIGKILL) })
	return p
}

func (p *process) follow(stream io.Reader, take func(line string) (known, progress bool)) {
	in := bufio.NewScanner(stream)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		known, progress := take(in.Text())
		if progress {
			p.events.Add(1)
		}
		if known {
			continue
		}
		p.mu.Lock()
		p.lines = append(p.lines, time.Now().Format("15:04:05.000 ")+in.Text())
		p.lines = p.lines[max(0, len(p.lines)-keptLines):]
		p.mu.Unlock()
	}
}

func (p *process) gone() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// end sends a signal and waits until the process is gone.
func (p *process) end(s syscall.Signal) {
	_ = p.cmd.Process.Signal(s) // it may have ended by itself
	<-p.exited
}

// story is the end of what it has said.
func (p *process) story() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.name + ":\n  " + strings.Join(p.lines, "\n  ")
}
