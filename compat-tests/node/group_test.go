package node

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/groups"
)

// modules is a folder with the client library, in the checkout's compat-tests/.cache.
var modules = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(groups.Cache(), "node")
	library := filepath.Join(dir, "node_modules")
	if _, err := os.Stat(filepath.Join(library, "kafkajs", "package.json")); err == nil {
		return library, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	wanted, err := os.ReadFile(filepath.Join(groups.Dir(), "members", "node", "package.json"))
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), wanted, 0o644); err != nil {
		return "", err
	}
	return library, groups.Each(exec.Command("npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", dir))
})

func TestGroup(t *testing.T) {
	library, err := modules()
	if err != nil {
		t.Fatal(err)
	}
	groups.Run(t, groups.Program{Name: "kafkajs", Command: func(_ testing.TB, m groups.Member) *exec.Cmd {
		cmd := exec.Command("node", append([]string{filepath.Join(groups.Dir(), "members", "node", "member.js")}, m.Args()...)...)
		cmd.Env = append(os.Environ(), "NODE_PATH="+library)
		return cmd
	}})
}
