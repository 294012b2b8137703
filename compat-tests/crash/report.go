package crash

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// evidence is a line that says what was tried and what came out.
func (r *run) evidence(passed bool) string {
	slices.Sort(r.starts)
	result := "FAIL"
	if passed {
		result = "pass"
	}
	return fmt.Sprintf("%s commit=%s durability=%s kills=%d seed=%d acked=%d topics=%d starts=%s/%s (median/max) duration=%s result=%s",
		r.begin.UTC().Format(time.DateOnly), commit(), r.durability, r.kills, r.seed, r.acks(),
		len(r.topics.exists)+len(r.topics.gone), r.starts[len(r.starts)/2].Round(time.Millisecond),
		r.starts[len(r.starts)-1].Round(time.Millisecond), time.Since(r.begin).Round(time.Second), result)
}

func (r *run) writeEvidence(file string, passed bool) error {
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, r.evidence(passed))
	return errors.Join(err, f.Close())
}

func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// expected is what a broker may warn of after it was killed: in the middle of a write,
// which leaves half a batch, or of a deletion, which leaves logs of topics that metadata
// does not know.
var expected = []string{
	"torn tail cut off: nobody was promised what it held",
	"partitions that metadata does not place here are set aside",
	"directories that were set aside are left alone",
}

// noise collects what the broker says beyond information.
type noise struct {
	mu    sync.Mutex
	lines []string
}

func (n *noise) line(text string) {
	var entry struct{ Level, Msg string }
	if err := json.Unmarshal([]byte(text), &entry); err == nil {
		if entry.Level == "INFO" || entry.Level == "DEBUG" || slices.Contains(expected, entry.Msg) {
			return
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, text)
}

func (n *noise) unexpected() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lines[:min(len(n.lines), maxFaults)]
}
