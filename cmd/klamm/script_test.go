package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"klamm": main, "klamm-on-terminal": mainOnTerminal})
}

// mainOnTerminal is klamm with its standard error on the script's terminal.
func mainOnTerminal() {
	tty, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0)
	if err != nil {
		panic(err)
	}
	os.Stderr = tty
	main()
}

// TestScripts plays testdata/script/*.txt. Beside testscript's own commands they know
//
//	broker NAME [key=value...]   start one, wait until it is ready, set $BOOTSTRAP
//	                             ($UNUSED, $FIRST, $SECOND, $CONTROLLER, $CONTROLLER2, $CONTROLLER3 are free addresses)
//	end NAME                     SIGTERM; it must end with exit code 0
//	crash NAME                   SIGKILL
//	pause NAME                   SIGSTOP
//	said NAME TEXT               TEXT is in what the broker NAME has said
//	content NAME                 the broker NAME has warned of nothing but a slow machine
//	eased NAME                   the broker NAME has the timer slack that suits one
//	exitcode N PROGRAM ARG...    exec, with an exit code that is expected
//	until REGEXP PROGRAM ARG...  exec again and again until its output matches; with ! until it does not
//	member GROUP TOPIC           join a group as the client "reader", wait until it reads
//	leave GROUP                  have that member leave
//
// A broker's data is in $WORK/NAME, and is found there again by the next of that name.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			for _, name := range []string{"UNUSED", "FIRST", "CONTROLLER", "SECOND", "CONTROLLER2", "CONTROLLER3"} {
				env.Setenv(name, fmt.Sprintf("127.0.0.1:%d", freePort(env.T())))
			}
			env.Values[brokersKey{}] = brokers{}
			env.Values[membersKey{}] = map[string]*kgo.Client{}
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"broker": func(ts *testscript.TestScript, neg bool, args []string) { startBroker(ts, args[0], args[1:]) },
			"end":    func(ts *testscript.TestScript, neg bool, args []string) { endBroker(ts, args[0], syscall.SIGTERM, 0) },
			"pause": func(ts *testscript.TestScript, neg bool, args []string) {
				ts.Check(runningBroker(ts, args[0]).Process.Signal(syscall.SIGSTOP))
			},
			"crash":    func(ts *testscript.TestScript, neg bool, args []string) { endBroker(ts, args[0], syscall.SIGKILL, -1) },
			"said":     said,
			"content":  content,
			"eased":    eased,
			"exitcode": exitCode,
			"until":    until,
			"member":   joinGroup,
			"leave":    leaveGroup,
		},
	})
}

type brokersKey struct{}

// brokers are the running brokers of a script, by name.
type brokers map[string]*exec.Cmd

// startPatience is how long a start may take on a loaded machine.
const startPatience = time.Minute

func startBroker(ts *testscript.TestScript, name string, settings []string) {
	addr := fmt.Sprintf("127.0.0.1:%d", freePort(ts))
	ts.Setenv("BOOTSTRAP", addr)
	args := []string{"start", "--set", "listeners=PLAINTEXT://" + addr, "--set", "admin.listener=", "--set", "log.dirs=" + ts.MkAbs(name)}
	for _, s := range settings {
		args = append(args, "--set", s)
	}
	cmd := exec.Command("klamm", args...)
	cmd.Dir = ts.MkAbs(".")
	stderr, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	log, err := os.Create(ts.MkAbs(name + ".log"))
	ts.Check(err)
	ready, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer log.Close()
		follow(io.TeeReader(stderr, log), ready)
	}()
	ts.Defer(func() {
		_ = cmd.Process.Kill() // it may have ended long ago
		<-ended
		_ = cmd.Wait()
	})
	select {
	case <-ready:
	case <-ended:
		ts.Fatalf("broker %s ended before it was ready:\n%s", name, ts.ReadFile(name+".log"))
	case <-time.After(startPatience):
		ts.Fatalf("broker %s is not ready after %s", name, startPatience)
	}
	ts.Value(brokersKey{}).(brokers)[name] = cmd
}

// follow reads lines, and closes ready at the one that says so.
func follow(lines io.Reader, ready chan<- struct{}) {
	for in := bufio.NewScanner(lines); in.Scan(); {
		if ready != nil && strings.Contains(in.Text(), "klamm ready") {
			close(ready)
			ready = nil
		}
	}
}

func runningBroker(ts *testscript.TestScript, name string) *exec.Cmd {
	cmd := ts.Value(brokersKey{}).(brokers)[name]
	if cmd == nil {
		ts.Fatalf("there is no broker %s", name)
	}
	return cmd
}

func endBroker(ts *testscript.TestScript, name string, signal syscall.Signal, want int) {
	cmd := runningBroker(ts, name)
	ts.Check(cmd.Process.Signal(signal))
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		ts.Fatalf("broker %s: %v", name, err)
	}
	if code := cmd.ProcessState.ExitCode(); code != want {
		ts.Fatalf("broker %s: exit code %d, want %d\n%s", name, code, want, ts.ReadFile(name+".log"))
	}
}

func content(ts *testscript.TestScript, neg bool, args []string) {
	for line := range strings.Lines(ts.ReadFile(args[0] + ".log")) {
		warns := strings.Contains(line, `"level":"WARN"`) && !strings.Contains(line, `"the start is slow: `)
		if warns || strings.Contains(line, `"level":"ERROR"`) {
			ts.Fatalf("broker %s has warned: %s", args[0], line)
		}
	}
}

func said(ts *testscript.TestScript, neg bool, args []string) {
	if text := ts.ReadFile(args[0] + ".log"); strings.Contains(text, args[1]) == neg {
		ts.Fatalf("broker %s has said:\n%s", args[0], text)
	}
}

func exitCode(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || fmt.Sprint(exit.ExitCode()) != args[0] {
		ts.Fatalf("exit code %s expected: %v", args[0], err)
	}
}

func until(ts *testscript.TestScript, neg bool, args []string) {
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	for deadline := time.Now().Add(startPatience); ; <-pause.C {
		ts.Check(ts.Exec(args[1], args[2:]...))
		switch {
		case want.MatchString(ts.ReadFile("stdout")) != neg:
			return
		case time.Now().After(deadline):
			ts.Fatalf("%s prints %s: it should be %v", strings.Join(args[1:], " "), want, !neg)
		}
	}
}

type membersKey struct{}

func joinGroup(ts *testscript.TestScript, _ bool, args []string) {
	client, err := kgo.NewClient(kgo.SeedBrokers(ts.Getenv("BOOTSTRAP")), kgo.ClientID("reader"),
		kgo.ConsumerGroup(args[0]), kgo.ConsumeTopics(args[1]), kgo.Balancers(kgo.RangeBalancer()), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ts.Check(err)
	ts.Defer(client.Close)
	ts.Value(membersKey{}).(map[string]*kgo.Client)[args[0]] = client
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	if fetches := client.PollFetches(ctx); fetches.Empty() {
		ts.Fatalf("the member of %s reads nothing: %v", args[0], fetches.Err())
	}
}

func leaveGroup(ts *testscript.TestScript, _ bool, args []string) {
	ts.Value(membersKey{}).(map[string]*kgo.Client)[args[0]].Close()
}

// fataler is what testscript's kinds of T have in common.
type fataler interface {
	Fatalf(format string, args ...any)
}

// freePort finds a port that nobody listens on, outside the range from which the system
// picks ports for outgoing connections: there a client that polls could meet itself.
func freePort(t any) int {
	for range 100 {
		port := 20000 + rand.IntN(12000)
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = l.Close() // it was only tried
			return port
		}
	}
	if f, ok := t.(fataler); ok {
		f.Fatalf("no free port between 20000 and 32000")
	}
	return 0
}

// Each command has an example in its help, and each example is one of klamm's commands.
func TestEveryCommandHasAnExample(t *testing.T) {
	commands := newRoot(streams{}).Commands()
	for i := 0; i < len(commands); i++ {
		cmd := commands[i]
		commands = append(commands, cmd.Commands()...)
		if cmd.Hidden || cmd.Name() == "help" {
			continue
		}
		if !strings.Contains(cmd.Example, cmd.CommandPath()) {
			t.Errorf("%s has no example of itself:\n%s", cmd.CommandPath(), cmd.Example)
		}
		if cmd.Short == "" {
			t.Errorf("%s does not say what it does", filepath.Base(cmd.CommandPath()))
		}
	}
}
