package confined

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/harness"
)

// user is somebody who is not root.
const user = "1000"

// asUser has a program run as somebody else.
var asUser = []string{"setpriv", "--reuid", user, "--regid", user, "--clear-groups"}

// openDir is a directory of the test's that other users may enter.
func openDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// 64 MB and half a core carry three times as much data as there is memory, and five
// hundred topics.
func TestSixtyFourMegabytes(t *testing.T) {
	group := newControlGroup(t, 64<<20, 50)
	broker := harness.New(t)
	broker.Prefix = group.prefix()
	broker.Start()
	createTopics(t, broker.Addr, 500)
	carry(t, broker.Addr, 4, 200_000)
	if code := broker.Stop(); code != 0 {
		t.Errorf("exit code %d\n%s", code, broker.Stderr())
	}
	if n := group.killed(); n > 0 {
		t.Errorf("the kernel killed %d processes for their memory", n)
	}
}

// 20,000 partitions fit in 1 GB, under load, and when the broker comes back after it was
// killed (redpanda#3809, #6199, #9309, #17914, AutoMQ#139).
func TestTwentyThousandPartitions(t *testing.T) {
	const topics, partitions = 40, 500
	group := newControlGroup(t, 1<<30, 100*runtime.NumCPU())
	broker := harness.New(t)
	broker.Prefix = group.prefix()
	broker.Start()
	for i := range topics {
		createTopic(t, broker.Addr, fmt.Sprintf("wide-%d", i), partitions)
	}
	carry(t, broker.Addr, 4, 200_000)
	broker.Kill()
	broker.Start()
	createTopic(t, broker.Addr, "one-more", 1)
	if n := group.killed(); n > 0 {
		t.Errorf("the kernel killed %d processes for their memory", n)
	}
}

// Everything is read-only but the data directory, which is a tmpfs; the user is not root.
func TestReadOnlyRootAndTmpfs(t *testing.T) {
	broker := harness.New(t)
	data := filepath.Join(broker.Dir, "data")
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	openAbove(t, broker.Dir)
	broker.Prefix = append(readOnly(data), asUser...)
	broker.Start()
	carry(t, broker.Addr, 2, 20_000)
	if code := broker.Stop(); code != 0 {
		t.Errorf("exit code %d\n%s", code, broker.Stderr())
	}
}

func openAbove(t testing.TB, dir string) {
	t.Helper()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
}

// readOnly has a program see a root that is read-only, with a tmpfs on data.
func readOnly(data string) []string {
	return []string{"unshare", "-m", "sh", "-c", fmt.Sprintf(`
		mount --make-rprivate / &&
		mount -t tmpfs -o size=256m,uid=%s,gid=%s tmpfs "$1" &&
		mount -o remount,ro,bind / &&
		shift && exec "$@"`, user, user), "sh", data}
}

// What cannot work is said in a line that names the place, and who klamm runs as.
func TestWhatIsSaidWhereNothingMayBeWritten(t *testing.T) {
	bin, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	dir := openDir(t)
	write(t, filepath.Join(dir, "file"), "")
	write(t, filepath.Join(dir, "secret.properties"), "")
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	me := "; klamm runs as user " + user + ", group " + user
	for name, c := range map[string]struct {
		prefix []string
		args   []string
		code   int
		want   string
	}{
		"somebody else's directory": {asUser, []string{"--set", "log.dirs=" + dir + "/empty"}, 1, dir + "/empty/.lock: permission denied" + me},
		"in somebody else's":        {asUser, []string{"--set", "log.dirs=" + dir + "/new"}, 1, "mkdir " + dir + "/new: permission denied" + me},
		"a file":                    {asUser, []string{"--set", "log.dirs=" + dir + "/file"}, 1, dir + "/file"},
		"below a file":              {asUser, []string{"--set", "log.dirs=" + dir + "/file/x"}, 1, dir + "/file/x: not a directory"},
		"a read-only root":          {readOnly(dir + "/empty"), []string{"--set", "log.dirs=" + dir + "/new"}, 1, "read-only file system: log.dirs must be where klamm may write"},
		"a configuration of root's": {asUser, []string{"--config", dir + "/secret.properties"}, 2, dir + "/secret.properties: cannot be read: permission denied"},
		"a port of root's":          {asUser, []string{"--set", "listeners=PLAINTEXT://127.0.0.1:80", "--set", "log.dirs=" + dir + "/empty"}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			argv := append(append(append([]string{}, c.prefix...), bin, "start", "--set", "admin.listener=",
				"--set", fmt.Sprintf("listeners=PLAINTEXT://127.0.0.1:%d", harness.FreePort(t))), c.args...)
			cmd := exec.Command(argv[0], argv[1:]...)
			var errs bytes.Buffer
			cmd.Stderr = &errs
			_ = cmd.Run() // the exit code tells
			lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
			last := lines[len(lines)-1]
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.HasPrefix(last, "klamm: ") || !strings.Contains(last, c.want) {
				t.Errorf("exit code %d, %q, want %d and %q", code, last, c.code, c.want)
			}
		})
	}
}
