package groups

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Dir is the folder of this package: the members' sources are below.
func Dir() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}

// builds are the members in Go that this test process has built, by name.
type builds struct {
	mu   sync.Mutex
	bins map[string]string
}

// Go is a member in Go, members/NAME, built when it is first needed.
func Go(name string, args ...string) Program {
	built := &builds{bins: map[string]string{}}
	return Program{Name: name, Command: func(t testing.TB, m Member) *exec.Cmd {
		t.Helper()
		return exec.Command(built.get(t, name), append(m.flags(), args...)...)
	}}
}

func (b *builds) get(t testing.TB, name string) string {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bins[name] != "" {
		return b.bins[name]
	}
	bin := filepath.Join(t.TempDir(), name)
	build := exec.Command("go", "build", "-o", bin, "./members/"+name)
	build.Dir = Dir()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the member %s: %v\n%s", name, err, out)
	}
	b.bins[name] = bin
	return bin
}

// flags are the command line of members in Go.
func (m Member) flags() []string {
	return []string{
		"-bootstrap", m.Bootstrap, "-topic", m.Topic, "-group", m.Group, "-name", m.Name, "-instance", m.Instance,
		"-session", (time.Duration(m.SessionTimeoutMs) * time.Millisecond).String(),
	}
}

// Args is a member's command line in the languages that read --name=value.
func (m Member) Args(more ...string) []string {
	return append([]string{
		"--bootstrap=" + m.Bootstrap, "--topic=" + m.Topic, "--group=" + m.Group, "--name=" + m.Name,
		"--instance=" + m.Instance, "--session-ms=" + strconv.Itoa(m.SessionTimeoutMs),
	}, more...)
}
