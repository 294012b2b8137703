package suites

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/klamm-mq/klamm/compat-tests/suites/verdict"
)

const (
	// alonePatience is how long a test that is expected to fail may take: some would wait
	// for what never comes.
	alonePatience = 2 * time.Minute
	// outputLines are kept of each test.
	outputLines = 60
)

// Result is how the tests of a run came out.
type Result struct {
	Verdicts map[verdict.Test]verdict.Verdict
	output   map[verdict.Test][]string
}

func (r Result) add(more Result) {
	verdict.Merge(r.Verdicts, more.Verdicts)
	for t, lines := range more.output {
		r.output[t] = append(slices.Clip(r.output[t]), lines...)
	}
}

// Output is the end of what a test has printed.
func (r Result) Output(t verdict.Test) string { return strings.Join(r.output[t], "") }

func newResult() Result {
	return Result{map[verdict.Test]verdict.Verdict{}, map[verdict.Test][]string{}}
}

// Together runs all tests but for those that run apart, those of a package in one process.
// Their environment says where the broker is.
func (s Suite) Together(ctx context.Context, programs Programs, env []string, apart []verdict.Test) (Result, error) {
	r := newResult()
	for _, pkg := range s.Packages {
		var skip []string
		for _, t := range apart {
			if t.Package == pkg {
				skip = append(skip, pattern(t))
			}
		}
		program := programs[pkg]
		if err := s.process(ctx, r, program, env, pkg, s.Patience, "-test.run="+program.Run, "-test.skip="+strings.Join(skip, "|")); err != nil {
			return r, err
		}
	}
	return r, nil
}

// Alone runs each of the tests in a process of its own: some end it, some never end.
func (s Suite) Alone(ctx context.Context, programs Programs, env []string, apart []verdict.Test) (Result, error) {
	r := newResult()
	for _, t := range apart {
		if err := s.process(ctx, r, programs[t.Package], env, t.Package, alonePatience, "-test.run="+pattern(t)); err != nil {
			return r, err
		}
	}
	return r, nil
}

// pattern matches a test and nothing else.
func pattern(t verdict.Test) string {
	parts := strings.Split(t.Name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// process runs a compiled test under test2json and adds its verdicts. That tests fail is
// no error here.
func (s Suite) process(ctx context.Context, r Result, program Program, env []string, pkg string, patience time.Duration, which ...string) error {
	args := append([]string{"tool", "test2json", program.Path, "-test.v=test2json", "-test.timeout=" + patience.String()}, which...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = program.Dir, append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run the tests of %s: %w", pkg, err)
	}
	verdicts, readErr := r.read(out, pkg)
	verdict.Merge(r.Verdicts, verdicts)
	_ = cmd.Wait() // fails when a test has
	return readErr
}

// read collects the verdicts of one process. What has begun and not ended, because the
// process did, has failed.
func (r Result) read(in io.Reader, pkg string) (map[verdict.Test]verdict.Verdict, error) {
	verdicts := map[verdict.Test]verdict.Verdict{}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return verdicts, nil
		}
		if err != nil {
			return verdicts, err
		}
		var event struct{ Action, Test, Output string }
		if json.Unmarshal(line, &event) != nil {
			continue // what a program prints by itself
		}
		t := verdict.Test{Package: pkg, Name: event.Test}
		switch event.Action {
		case "run":
			verdicts[t] = verdict.Fail
		case "pass", "fail", "skip":
			verdicts[t] = verdict.Verdict(event.Action)
		case "output":
			kept := append(r.output[t], event.Output)
			r.output[t] = kept[max(0, len(kept)-outputLines):]
		}
		if event.Test == "" {
			delete(verdicts, t) // of the package
		}
	}
}
