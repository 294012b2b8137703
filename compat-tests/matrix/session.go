package matrix

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/matrix/programs"
)

// Session carries out commands with one client library. It calls each for every line of
// the answer but the last.
type Session interface {
	Do(ctx context.Context, c programs.Command, each func(programs.Line)) error
}

// Process is the session of a program, which is started when it is first needed, and
// again after it has died.
func Process(t testing.TB, command func() *exec.Cmd) Session {
	p := &process{command: command}
	t.Cleanup(p.end)
	return p
}

type process struct {
	command func() *exec.Cmd

	cmd   *exec.Cmd // nil: not running
	stdin io.WriteCloser
	lines chan string // of standard output; closed at its end
	said  *tail       // what else it has printed
}

func (p *process) start() error {
	cmd := p.command()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	p.said = &tail{}
	cmd.Stderr = p.said
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd, p.stdin, p.lines = cmd, stdin, make(chan string)
	go func(lines chan<- string) {
		defer close(lines)
		in := bufio.NewScanner(stdout)
		in.Buffer(nil, 16<<20)
		for in.Scan() {
			lines <- in.Text()
		}
	}(p.lines)
	return nil
}

// end ends the program, which does so by itself at the end of its input.
func (p *process) end() {
	if p.cmd == nil {
		return
	}
	_ = p.stdin.Close()
	_ = p.cmd.Process.Kill() // it has nothing to tell any more
	for range p.lines {
		continue // what it had still printed
	}
	_ = p.cmd.Wait()
	p.cmd = nil
}

func (p *process) Do(ctx context.Context, c programs.Command, each func(programs.Line)) error {
	if p.cmd == nil {
		if err := p.start(); err != nil {
			return err
		}
	}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if _, err := p.stdin.Write(append(text, '\n')); err != nil {
		p.end()
		return fmt.Errorf("the program has ended: %w\n%s", err, p.said)
	}
	for {
		select {
		case line, open := <-p.lines:
			if !open {
				p.end()
				return fmt.Errorf("the program has ended:\n%s", p.said)
			}
			if done, err := p.line(line, each); done {
				return err
			}
		case <-ctx.Done():
			p.end()
			return fmt.Errorf("%w\n%s", ctx.Err(), p.said)
		}
	}
}

// line tells whether it was the last of an answer.
func (p *process) line(text string, each func(programs.Line)) (done bool, err error) {
	var line programs.Line
	if json.Unmarshal([]byte(text), &line) != nil || line.Record == nil && line.Acked == nil && line.Result == nil && !line.Done && line.Error == "" {
		_, err := p.said.Write([]byte(text + "\n"))
		return false, err
	}
	switch {
	case line.Error != "":
		return true, fmt.Errorf("%w\n%s", errors.New(line.Error), p.said)
	case line.Done:
		return true, nil
	}
	each(line)
	return false, nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 8 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	t.text = t.text[max(0, len(t.text)-tailBytes):]
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
