package kcat

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/harness"
)

// kcat runs kcat against the broker and returns what it printed.
func kcat(t *testing.T, b *harness.Broker, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "kcat", append([]string{"-b", b.Addr}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("kcat %v: %v\n%s\nbroker:\n%s", args, err, &errs, b.Stderr())
	}
	return out.String()
}

func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d of the file\n", i)
	}
	return b.String()
}

func TestDefaults(t *testing.T) {
	b := harness.Start(t)
	want := lines(20000)
	kcat(t, b, want, "-P", "-t", "lines")
	if got := kcat(t, b, "", "-C", "-t", "lines", "-o", "beginning", "-e", "-q"); got != want {
		t.Fatalf("read back %d bytes, wrote %d", len(got), len(want))
	}
}

func TestKeysHeadersAndOffsets(t *testing.T) {
	b := harness.Start(t)
	kcat(t, b, "a:1\nb:2\nc:3\n", "-P", "-t", "keys", "-K", ":", "-H", "h=v")
	got := kcat(t, b, "", "-C", "-t", "keys", "-o", "1", "-c", "2", "-q", "-f", `%o %k %s %h\n`)
	if want := "1 b 2 h=v\n2 c 3 h=v\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := kcat(t, b, "", "-Q", "-t", "keys:0:-1"); !strings.Contains(got, "offset 3") {
		t.Errorf("latest offset: %q", got)
	}
	if got := kcat(t, b, "", "-L"); !strings.Contains(got, `topic "keys" with 1 partitions`) {
		t.Errorf("metadata: %q", got)
	}
}
