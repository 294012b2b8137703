package groups

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Member is what a program is told.
type Member struct {
	Bootstrap, Topic, Group string
	Name                    string // its client id
	Instance                string // group.instance.id, "" for a dynamic member
	SessionTimeoutMs        int
}

// Program is one client library.
type Program struct {
	Name    string
	Command func(t testing.TB, m Member) *exec.Cmd
	// Parse reads a line; nil reads what package groups asks for.
	Parse func(line string) (Event, bool)
	// GoesBack says that the library itself may commit an older offset after a newer one.
	GoesBack bool
	// Stalls says why the broker is not killed in this life: the library may not go on
	// afterwards, whatever the broker.
	Stalls string
	// Drops is how many records the program itself loses when it is told to leave.
	Drops int
	// Late is how many records it has printed, but does not commit, when it is told to leave.
	Late int
}

// Event is what a member has printed.
type Event struct {
	Assigned  bool    // else it is a record
	Partition []int32 // all that are assigned, or the record's one
	Offset    int64
	Value     string
}

// Read is Parse, or package groups' own way to read a line.
func (p Program) Read(line string) (Event, bool) {
	if p.Parse != nil {
		return p.Parse(line)
	}
	return parse(line)
}

func parse(line string) (Event, bool) {
	if list, found := strings.CutPrefix(line, "assigned"); found {
		parts, ok := Partitions(strings.TrimSpace(list))
		return Event{Assigned: true, Partition: parts}, ok
	}
	var e Event
	var p int32
	n, _ := fmt.Sscanf(line, "record %d %d %s", &p, &e.Offset, &e.Value)
	e.Partition = []int32{p}
	return e, n == 3
}

// Partitions reads numbers with commas between them.
func Partitions(list string) (parts []int32, ok bool) {
	if list == "" {
		return nil, true
	}
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32)
		if err != nil {
			return nil, false
		}
		parts = append(parts, int32(n))
	}
	slices.Sort(parts)
	return parts, true
}

// process is a running member.
type process struct {
	Member
	drops  int
	late   int
	cmd    *exec.Cmd
	exited chan struct{}

	mu       sync.Mutex
	assigned []int32
	changes  int // of assigned
	records  int
	lines    []string // the newest
}

// keptLines is how much of a member's output a failure shows.
const keptLines = 40

func (l *life) start(program Program, name, instance string) *process {
	l.t.Helper()
	m := Member{
		Bootstrap: l.cluster.Address(), Topic: l.topic, Group: l.group, Name: name, Instance: instance,
		SessionTimeoutMs: int(l.session.Milliseconds()),
	}
	l.goesBack = l.goesBack || program.GoesBack
	p := &process{Member: m, drops: program.Drops, late: program.Late, cmd: program.Command(l.t, m), exited: make(chan struct{})}
	var followed sync.WaitGroup
	var ends []*io.PipeWriter
	// Each stream has a pipe of its own: what is said on one must not fall into the middle
	// of a line of the other.
	for _, stream := range []*io.Writer{&p.cmd.Stdout, &p.cmd.Stderr} {
		read, write := io.Pipe()
		*stream, ends = write, append(ends, write)
		followed.Go(func() { l.follow(p, program.Read, read) })
	}
	if err := p.cmd.Start(); err != nil {
		l.t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended shows in what it did
		for _, end := range ends {
			_ = end.Close()
		}
		followed.Wait()
		close(p.exited)
		l.changed()
	}()
	l.t.Cleanup(p.kill)
	l.members = append(l.members, p)
	return p
}

func (l *life) follow(p *process, parse func(string) (Event, bool), stream io.Reader) {
	in := bufio.NewScanner(stream)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		l.line(p, parse, in.Text())
	}
}

func (l *life) line(p *process, parse func(string) (Event, bool), text string) {
	e, ok := parse(text)
	p.mu.Lock()
	switch {
	case ok && e.Assigned:
		p.assigned, p.changes = e.Partition, p.changes+1
	case ok:
		p.records++
	}
	if !ok || e.Assigned {
		p.lines = append(p.lines, text)
		p.lines = p.lines[max(0, len(p.lines)-keptLines):]
	}
	p.mu.Unlock()
	if ok && !e.Assigned {
		l.seen.add(e)
	}
	l.changed()
}

func (p *process) partitions() []int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.assigned)
}

// rebalances counts how often the member has told its partitions.
func (p *process) rebalances() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changes
}

// said tells whether the member has printed a word, in whatever case.
func (p *process) said(word string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.lines, func(line string) bool { return strings.Contains(strings.ToLower(line), word) })
}

func (p *process) read() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.records
}

func (p *process) gone() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

func (p *process) kill() { p.signal(syscall.SIGKILL) }

// leave asks a member to leave the group, and waits until it is gone.
func (l *life) leave(p *process) {
	l.drops += p.drops
	l.late += int64(p.late)
	p.signal(syscall.SIGTERM)
}

func (p *process) signal(s syscall.Signal) {
	_ = p.cmd.Process.Signal(s) // it may have ended by itself
	<-p.exited
}

func (p *process) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("%s: assigned %v, %d records, gone %v\n    %s", p.Name, p.assigned, p.records, p.gone(), strings.Join(p.lines, "\n    "))
}
