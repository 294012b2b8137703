package confined

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// controlGroups is where the kernel has them.
const controlGroups = "/sys/fs/cgroup"

// controlGroup limits the processes that enter it. With version 1 each controller has a
// tree of its own.
type controlGroup struct {
	t    testing.TB
	dirs map[string]string // by controller
	two  bool              // version 2
}

// newControlGroup makes one with so much memory, without swap, and so many hundredths of a
// core. It goes when the test ends.
func newControlGroup(t testing.TB, memory int64, percent int) *controlGroup {
	t.Helper()
	g := &controlGroup{t: t, dirs: map[string]string{}}
	_, err := os.Stat(filepath.Join(controlGroups, "cgroup.controllers"))
	g.two = err == nil
	name := fmt.Sprintf("klamm-test-%d", os.Getpid())
	if g.two {
		write(t, filepath.Join(controlGroups, "cgroup.subtree_control"), "+memory +cpu")
		dir := g.makeDir("", name)
		g.dirs["memory"], g.dirs["cpu"] = dir, dir
		write(t, filepath.Join(dir, "memory.max"), strconv.FormatInt(memory, 10))
		_ = os.WriteFile(filepath.Join(dir, "memory.swap.max"), []byte("0"), 0o600) // not there without swap
		write(t, filepath.Join(dir, "cpu.max"), fmt.Sprintf("%d 100000", percent*1000))
		return g
	}
	g.dirs["memory"], g.dirs["cpu"] = g.makeDir("memory", name), g.makeDir("cpu", name)
	write(t, filepath.Join(g.dirs["memory"], "memory.limit_in_bytes"), strconv.FormatInt(memory, 10))
	write(t, filepath.Join(g.dirs["cpu"], "cpu.cfs_period_us"), "100000")
	write(t, filepath.Join(g.dirs["cpu"], "cpu.cfs_quota_us"), strconv.Itoa(percent*1000))
	return g
}

func (g *controlGroup) makeDir(controller, name string) string {
	g.t.Helper()
	dir := filepath.Join(controlGroups, controller, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		g.t.Fatalf("a control group (this needs root): %v", err)
	}
	g.t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			g.t.Error(err)
		}
	})
	return dir
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// prefix has a process enter the group and then become another.
func (g *controlGroup) prefix() []string {
	var script strings.Builder
	for _, dir := range g.dirs {
		fmt.Fprintf(&script, "echo $$ > %s/cgroup.procs && ", dir)
	}
	return []string{"sh", "-c", script.String() + `exec "$@"`, "sh"}
}

// killed is how many processes of the group the kernel has killed for their memory.
func (g *controlGroup) killed() int {
	g.t.Helper()
	file := "memory.oom_control"
	if g.two {
		file = "memory.events"
	}
	text, err := os.ReadFile(filepath.Join(g.dirs["memory"], file))
	if err != nil {
		g.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if n, found := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); found {
			killed, err := strconv.Atoi(n)
			if err != nil {
				g.t.Fatal(err)
			}
			return killed
		}
	}
	g.t.Fatalf("no oom_kill in %s:\n%s", file, text)
	return 0
}
