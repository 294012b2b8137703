package verdict

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Verdict is what a test said in the end.
type Verdict string

const (
	Pass Verdict = "pass"
	Fail Verdict = "fail"
	Skip Verdict = "skip"
	// Chance is in lists alone: the test passes at times and fails at others, which is no
	// verdict on Klamm unless it is one on Kafka.
	Chance Verdict = "chance"
)

// Broker is one of the two that a list speaks of.
type Broker int

const (
	Klamm Broker = iota
	Kafka
)

// Test names a test, or with slashes in its name a subtest, as package testing does.
type Test struct {
	Package string // as "./pkg/kgo"
	Name    string
}

func (t Test) String() string { return t.Package + " " + t.Name }

// Parent is the test that t is a subtest of.
func (t Test) Parent() (Test, bool) {
	i := strings.LastIndexByte(t.Name, '/')
	if i < 0 {
		return Test{}, false
	}
	return Test{t.Package, t.Name[:i]}, true
}

// Line is what a list says of one test.
type Line struct {
	Test
	On     [2]Verdict // by Broker
	Reason string     // empty if the test passes on both
}

// List is a parsed file, in its order.
type List []Line

// Parse reads a list, and returns every mistake that it finds in it.
func Parse(r io.Reader) (List, error) {
	var (
		list   List
		errs   []error
		pkg    string
		seen   = map[Test]bool{}
		in     = bufio.NewScanner(r)
		number = 0
	)
	for in.Scan() {
		number++
		text := strings.TrimSpace(in.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		if name, ok := strings.CutPrefix(text, "package "); ok {
			pkg = strings.TrimSpace(name)
			continue
		}
		line, err := parseLine(text)
		line.Package = pkg
		switch {
		case err != nil:
		case pkg == "":
			err = errors.New("no package before it")
		case seen[line.Test]:
			err = errors.New("second line of this test")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %q: %w", number, text, err))
			continue
		}
		seen[line.Test] = true
		list = append(list, line)
	}
	return list, errors.Join(append(errs, in.Err())...)
}

func parseLine(text string) (Line, error) {
	text, reason, _ := strings.Cut(text, " # ")
	words := strings.Fields(text)
	if len(words) != 3 {
		return Line{}, errors.New("not two verdicts and a name")
	}
	line := Line{Test: Test{Name: words[2]}, Reason: strings.TrimSpace(reason)}
	for i := range line.On {
		line.On[i] = Verdict(words[i])
		switch line.On[i] {
		case Pass, Fail, Skip, Chance:
		default:
			return Line{}, fmt.Errorf("no verdict: %s", words[i])
		}
	}
	if line.On[Klamm] == Chance && line.On[Kafka] != Chance {
		return Line{}, errors.New("chance on Klamm alone")
	}
	if exception := line.On != [2]Verdict{Pass, Pass}; exception != (line.Reason != "") {
		return Line{}, errors.New("a reason is what an exception has, and nothing else")
	}
	return line, nil
}

// Apart are the tests that are expected to fail on a broker, or leave it to chance, without
// those that do so only because a subtest of theirs does.
func (l List) Apart(on Broker) []Test {
	apart := func(line Line) bool { return line.On[on] == Fail || line.On[on] == Chance }
	because := map[Test]bool{}
	for _, line := range l {
		if parent, ok := line.Parent(); ok && apart(line) {
			because[parent] = true
		}
	}
	var tests []Test
	for _, line := range l {
		if apart(line) && !because[line.Test] {
			tests = append(tests, line.Test)
		}
	}
	return tests
}
