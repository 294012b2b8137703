package python

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/groups"
)

// interpreter is a Python that has the client library: a virtual environment in the
// checkout's compat-tests/.cache, made once.
var interpreter = sync.OnceValues(func() (string, error) {
	sources := filepath.Join(groups.Dir(), "members", "python")
	venv := filepath.Join(groups.Cache(), "python")
	python := filepath.Join(venv, "bin", "python")
	if err := exec.Command(python, "-c", "import kafka").Run(); err == nil {
		return python, nil
	}
	if err := os.MkdirAll(groups.Cache(), 0o755); err != nil {
		return "", err
	}
	return python, groups.Each(
		exec.Command("python3", "-m", "venv", venv),
		exec.Command(python, "-m", "pip", "install", "-q", "-r", filepath.Join(sources, "requirements.txt")),
	)
})

func TestGroup(t *testing.T) {
	python, err := interpreter()
	if err != nil {
		t.Fatal(err)
	}
	groups.Run(t, groups.Program{Name: "kafka-python", Command: func(_ testing.TB, m groups.Member) *exec.Cmd {
		return exec.Command(python, append([]string{filepath.Join(groups.Dir(), "members", "python", "member.py")}, m.Args()...)...)
	}})
}
