package javatools

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// step is one command of a session and what it prints.
type step struct {
	line string // as it stands in the file
	want string
}

// isAction are the lines that do something without printing.
var isAction = regexp.MustCompile(`^(write|kill|start|until) `)

// parse reads a session.
func parse(text string) (steps []step) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "$") || strings.HasPrefix(line, "#") || isAction.MatchString(line) {
			steps = append(steps, step{line: line})
			continue
		}
		if len(steps) > 0 {
			steps[len(steps)-1].want += line
		}
	}
	return steps
}

// session is a broker and the shell that talks to it.
type session struct {
	t       *testing.T
	shell   *shell
	addr    string
	nodes   []node // of a cluster
	dir     string // of the broker's logs
	more    string // a second one, for a broker that has two
	tmp     string
	rewrite bool
}

// play runs the commands of a file.
func (s *session) play(file string) {
	s.t.Helper()
	path := filepath.Join("testdata", file)
	text, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	var now strings.Builder
	for _, step := range parse(string(text)) {
		begin := time.Now()
		got := s.step(step)
		s.t.Logf("%5d ms  %s", time.Since(begin).Milliseconds(), strings.TrimSpace(step.line))
		fmt.Fprint(&now, step.line, got)
		if got != step.want && !s.rewrite {
			s.t.Errorf("%s: %sprints\n%s\nand on Kafka\n%s", file, step.line, got, step.want)
		}
	}
	if s.rewrite {
		if err := os.WriteFile(path, []byte(now.String()), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
}

// step does what a line asks for, and returns what is printed.
func (s *session) step(step step) string {
	s.t.Helper()
	verb, rest, _ := strings.Cut(strings.TrimSuffix(step.line, "\n"), " ")
	switch verb {
	case "write":
		name, text, _ := strings.Cut(rest, " ")
		text = strings.ReplaceAll(s.places().Replace(text), `\n`, "\n")
		if err := os.WriteFile(filepath.Join(s.tmp, name), []byte(text), 0o644); err != nil {
			s.t.Fatal(err)
		}
	case "kill":
		s.nodeOf(rest).process.Kill()
	case "start":
		if err := s.nodeOf(rest).process.TryStart(); err != nil {
			s.t.Fatal(err)
		}
	case "until":
		pattern, line, _ := strings.Cut(rest, " $ ")
		s.until(pattern, line)
	case "$":
		return s.command(rest)
	case "$#":
		return regexp.MustCompile(`\d+([.,:]\d+)*`).ReplaceAllString(s.command(rest), "N")
	case "$~":
		return s.eventually(rest, step.want)
	}
	return ""
}

// eventually gives a command again until it prints what is wanted.
func (s *session) eventually(line, want string) string {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		got := s.command(line)
		if got == want || time.Now().After(deadline) || s.rewrite {
			return got
		}
		<-again.C
	}
}

// until gives a command until what it prints has a pattern.
func (s *session) until(pattern, line string) {
	s.t.Helper()
	got := ""
	deadline := time.Now().Add(patience)
	for !regexp.MustCompile("(?m)" + pattern).MatchString(got) {
		if time.Now().After(deadline) {
			s.t.Fatalf("%s prints\n%s\nand never %s", line, got, pattern)
		}
		got = s.command(line)
	}
}

func (s *session) places() *strings.Replacer {
	return strings.NewReplacer(append(s.names(), "BROKER", s.addr, "DIR", s.dir, "TMP", s.tmp)...)
}

func (s *session) command(line string) string {
	s.t.Helper()
	line, stdin, _ := strings.Cut(line, " <<< ")
	words := strings.Fields(s.places().Replace(line))
	class, found := class(words[0])
	if !found {
		s.t.Fatalf("there is no tool %s", words[0])
	}
	code, printed, err := s.shell.run(class, strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(stdin), words[1:])
	if err != nil {
		s.t.Fatalf("%s: %v", line, err)
	}
	return s.blur(code, printed)
}

// blurs are what differs between two brokers that do the same.
func blurs() []struct{ pattern, with string } {
	return []struct{ pattern, with string }{
		{`(?m)^\tat .*\n`, ""},           // stacks of Java
		{`(?m)^\t\.\.\. \d+ more\n`, ""}, //
		{`(Exception): .*`, "$1"},        // the kind of an error stays, its sentence goes
		{`(Error while executing .* command :? ?).*`, "$1"},
		{`(?m)^(Can not upgrade \S+ to \d+\.).*`, "$1"},
		{`(?m)^(Could not [^.]*\.) .*`, "$1"},
		{`(?m)^(Error reassigning partition\(s\):\n\S+: ).*`, "$1"},
		{`(?m)^  durability=.*\n`, ""}, // of --all: docs/divergence.md, topic-durability
		{`(TopicId: |ClusterId: +|Cluster ID: )\S+`, "${1}ID"},
		{`(?m)^(N|\d+)( +\t)[\w-]{22}`, "$1${2}ID"}, // kafka-metadata-quorum
		{`\b1\d{12}\b`, "TIME"},
		{`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`, "UUID"},
		{`console-consumer-\d+`, "console-consumer-N"},
		{`127\.0\.0\.1 \d+ `, "127.0.0.1 PORT "},
		{`(?m)[ \t]+$`, ""},
	}
}

// isrText is a set of replicas in sync, whose order means nothing.
var isrText = regexp.MustCompile(`\bIsr: [\d,]+`)

func sortedISR(text string) string {
	ids := strings.Split(strings.TrimPrefix(text, "Isr: "), ",")
	slices.Sort(ids)
	return "Isr: " + strings.Join(ids, ",")
}

// blur replaces them.
func (s *session) blur(code int, printed string) string {
	if len(s.nodes) == 0 {
		printed = strings.NewReplacer(s.addr, "BROKER", s.dir, "DIR", s.tmp, "TMP").Replace(printed)
	} else {
		printed = s.namesOfNodes().Replace(printed)
	}
	printed = isrText.ReplaceAllStringFunc(printed, sortedISR)
	for _, b := range blurs() {
		printed = regexp.MustCompile(b.pattern).ReplaceAllString(printed, b.with)
	}
	if printed != "" && !strings.HasSuffix(printed, "\n") {
		printed += "\n"
	}
	if code != 0 {
		printed += fmt.Sprintf("= %d\n", code)
	}
	return printed
}
