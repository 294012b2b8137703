package groups

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Cache is where libraries of other languages are kept between runs.
func Cache() string { return filepath.Join(filepath.Dir(Dir()), ".cache") }

// Each runs commands until one fails.
func Each(commands ...*exec.Cmd) error {
	for _, cmd := range commands {
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
		}
	}
	return nil
}

// Kcat is librdkafka's command line. It commits by itself every so often, and when it
// leaves. With -E it outlives a broker that is gone for a while. A record that it has got
// from the library when SIGTERM comes is committed and not printed (consume_cb returns
// when conf.run is 0).
func Kcat(more ...string) Program {
	return Program{Name: "kcat", Parse: parseKcat, Drops: 1, Late: 1, Command: func(_ testing.TB, m Member) *exec.Cmd {
		args := []string{
			"-b", m.Bootstrap, "-E", "-G", m.Group, "-u", "-f", `record %p %o %s\n`,
			"-X", "client.id=" + m.Name, "-X", "session.timeout.ms=" + strconv.Itoa(m.SessionTimeoutMs),
			"-X", "heartbeat.interval.ms=1000", "-X", "auto.commit.interval.ms=200", "-X", "auto.offset.reset=earliest",
		}
		if m.Instance != "" {
			args = append(args, "-X", "group.instance.id="+m.Instance)
		}
		return exec.Command("kcat", append(append(args, more...), m.Topic)...)
	}}
}

// KcatAssigned reads all partitions of a topic with kcat, without a group.
func KcatAssigned(bootstrap, topic string) Program {
	return Program{Name: "kcat", Parse: parse, Command: func(testing.TB, Member) *exec.Cmd {
		return exec.Command("kcat", "-C", "-b", bootstrap, "-E", "-u", "-o", "0", "-f", `record %p %o %s\n`,
			"-X", "auto.offset.reset=error", "-t", topic)
	}}
}

// What kcat says about a rebalance:
//
//	% Group billing rebalanced (memberid a-1c…): assigned: orders [0], orders [1]
//	% Group billing rebalanced (memberid a-1c…): revoked: orders [0], orders [1]
var (
	rebalanced = regexp.MustCompile(`^% Group .* rebalanced \(.*\): (assigned|revoked)`)
	bracketed  = regexp.MustCompile(` \[([0-9]+)\]`)
)

func parseKcat(line string) (Event, bool) {
	m := rebalanced.FindStringSubmatch(line)
	if m == nil {
		return parse(line)
	}
	if m[1] == "revoked" {
		return Event{Assigned: true}, true
	}
	var list []string
	for _, p := range bracketed.FindAllStringSubmatch(line, -1) {
		list = append(list, p[1])
	}
	parts, ok := Partitions(strings.Join(list, ","))
	return Event{Assigned: true, Partition: parts}, ok
}
