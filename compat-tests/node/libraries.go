package node

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/klamm-mq/klamm/compat-tests/groups"
)

// libraries is a folder with the client libraries, and with the Node.js that they need: in
// the checkout's compat-tests/.cache, made again when package-lock.json has changed.
var libraries = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(groups.Cache(), "node")
	sources := filepath.Join(groups.Dir(), "members", "node")
	wanted, err := os.ReadFile(filepath.Join(sources, "package-lock.json"))
	if err != nil {
		return "", err
	}
	// npm writes this file last, and it differs: it is only looked at whether it is there.
	_, err = os.Stat(filepath.Join(dir, "node_modules", ".package-lock.json"))
	if have, notThere := os.ReadFile(filepath.Join(dir, "package-lock.json")); err == nil && notThere == nil && bytes.Equal(have, wanted) {
		return dir, nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for _, file := range []string{"package.json", "package-lock.json"} {
		content, err := os.ReadFile(filepath.Join(sources, file))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o644); err != nil {
			return "", err
		}
	}
	return dir, groups.Each(exec.Command("npm", "ci", "--silent", "--no-fund", "--no-audit", "--prefix", dir))
})

// command runs a program with the libraries.
func command(dir, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(interpreter(dir), append([]string{program}, args...)...)
	cmd.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(dir, "node_modules"), "LIBRARIES="+filepath.Join(dir, "package.json"))
	return cmd
}

// interpreter is the Node.js that came with the libraries, or where npm has none for the
// system the one on PATH.
func interpreter(dir string) string {
	names := map[string]string{"amd64": "x64"}
	arch := runtime.GOARCH
	if name, found := names[arch]; found {
		arch = name
	}
	bundled := filepath.Join(dir, "node_modules", "node-"+runtime.GOOS+"-"+arch, "bin", "node")
	if _, err := os.Stat(bundled); err == nil {
		return bundled
	}
	return "node"
}
