package python

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/klamm-mq/klamm/compat-tests/groups"
)

// interpreter is a Python that has the client libraries: a virtual environment in the
// checkout's compat-tests/.cache, made again when requirements.txt has changed.
var interpreter = sync.OnceValues(func() (string, error) {
	venv := filepath.Join(groups.Cache(), "python")
	python := filepath.Join(venv, "bin", "python")
	requirements := filepath.Join(groups.Dir(), "members", "python", "requirements.txt")
	installed := filepath.Join(venv, "requirements.txt")
	wanted, err := os.ReadFile(requirements)
	if err != nil {
		return "", err
	}
	if have, err := os.ReadFile(installed); err == nil && bytes.Equal(have, wanted) {
		return python, nil
	}
	if err := os.MkdirAll(groups.Cache(), 0o755); err != nil {
		return "", err
	}
	err = groups.Each(
		exec.Command("python3", "-m", "venv", "--clear", venv),
		exec.Command(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary", ":all:", "-r", requirements),
	)
	if err != nil {
		return "", err
	}
	return python, os.WriteFile(installed, wanted, 0o644)
})
