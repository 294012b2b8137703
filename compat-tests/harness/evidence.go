package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Commit is the commit of the checkout, marked if it is changed.
func Commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// Evidence logs a line that begins with the date, and appends it to the file that the
// environment variable EVIDENCE names, if it does.
func Evidence(t testing.TB, format string, args ...any) {
	t.Helper()
	line := time.Now().UTC().Format(time.DateOnly) + " " + fmt.Sprintf(format, args...)
	t.Log(line)
	name := os.Getenv("EVIDENCE")
	if name == "" {
		return
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintln(f, line)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}
