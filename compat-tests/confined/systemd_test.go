package confined

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/harness"
)

// systemd finds nothing wrong with the unit, once its program exists.
func TestSystemdUnit(t *testing.T) {
	bin, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(repository(), "deploy", "klamm.service"))
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(t.TempDir(), "klamm.service")
	write(t, unit, strings.ReplaceAll(string(text), "/usr/bin/klamm", bin))
	if out, err := exec.Command("systemd-analyze", "verify", unit).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze: %v\n%s", err, out)
	}
}
