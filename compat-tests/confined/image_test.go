package confined

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// image is what deploy/Dockerfile makes: nothing but its files, and how they are run.
type image struct {
	t                       testing.TB
	root, user              string
	volumes                 []string
	entrypoint, cmd, health []string
}

// build does what the Dockerfile says without a container engine: its own command builds
// the binary, and its files go into an empty directory.
func build(t testing.TB) *image {
	t.Helper()
	stage := t.TempDir()
	out := func(file string) string { return strings.ReplaceAll(file, "/out/", stage+"/") }
	img := &image{t: t, root: openDir(t)}
	for _, i := range instructions(t) {
		switch i.word {
		case "RUN":
			if !strings.Contains(i.rest, "go build") {
				continue // what fetches modules
			}
			cmd := exec.Command("sh", "-ec", out(i.rest))
			cmd.Dir, cmd.Env = repository(), append(os.Environ(), "VERSION=of-a-test")
			if text, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", cmd, err, text)
			}
		case "COPY":
			img.copy(strings.Fields(i.rest), out)
		case "VOLUME":
			img.volumes = append(img.volumes, i.rest)
		case "USER":
			img.user = i.rest
		case "ENTRYPOINT":
			img.entrypoint = words(t, i.rest)
		case "CMD":
			img.cmd = words(t, i.rest)
		case "HEALTHCHECK":
			img.health = words(t, i.rest)
		}
	}
	write(t, filepath.Join(img.root, "etc", "hosts"), "127.0.0.1 localhost broker\n") // as every container has it
	if err := os.Chmod(filepath.Join(img.root, "etc", "hosts"), 0o644); err != nil {
		t.Fatal(err)
	}
	return img
}

// copy does a COPY of the last stage: --from=build /out/a b, or a b of the repository.
func (img *image) copy(args []string, out func(string) string) {
	img.t.Helper()
	owner, from := "0:0", ""
	for strings.HasPrefix(args[0], "--") {
		option, value, _ := strings.Cut(args[0], "=")
		switch option {
		case "--chown":
			owner = value
		case "--from":
			from = value
		}
		args = args[1:]
	}
	to := args[len(args)-1]
	if !path.IsAbs(to) {
		return // into the stage that builds
	}
	source := filepath.Join(repository(), args[0])
	if from != "" {
		source = out(args[0])
	}
	target := filepath.Join(img.root, to)
	for _, argv := range [][]string{
		{"mkdir", "-p", filepath.Dir(target)}, {"cp", "-r", source, target}, {"chown", "-R", owner, target},
	} {
		if text, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			img.t.Fatalf("%s: %v\n%s", argv, err, text)
		}
	}
}

// command is a program in the image, as its user, behind what a prefix does first.
func (img *image) command(prefix []string, env []string, argv ...string) *exec.Cmd {
	line := append(append([]string{}, prefix...), "chroot", "--userspec="+img.user, img.root)
	line = append(line, argv...)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	return cmd
}

// composed are the variables with which Kafka's own example of Docker Compose starts one
// node (single-node/plaintext), the directory being that of the volume.
var composed = []string{
	"KAFKA_NODE_ID=1",
	"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
	"KAFKA_ADVERTISED_LISTENERS=PLAINTEXT_HOST://localhost:9092,PLAINTEXT://broker:19092",
	"KAFKA_PROCESS_ROLES=broker,controller",
	"KAFKA_CONTROLLER_QUORUM_VOTERS=1@broker:29093",
	"KAFKA_LISTENERS=CONTROLLER://:29093,PLAINTEXT_HOST://:9092,PLAINTEXT://:19092",
	"KAFKA_INTER_BROKER_LISTENER_NAME=PLAINTEXT",
	"KAFKA_CONTROLLER_LISTENER_NAMES=CONTROLLER",
	"CLUSTER_ID=4L6g3nShT-eMCtK--X86sw",
	"KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR=1",
	"KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS=0",
	"KAFKA_TRANSACTION_STATE_LOG_MIN_ISR=1",
	"KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR=1",
	"KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR=1",
	"KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR=1",
	"KAFKA_HEAP_OPTS=-Xmx1G",
	"KAFKA_NUM_PARTITIONS=5",
}

// The image starts as it is, and with the variables of apache/kafka; its health check
// works, it is on Kafka's port, and ends with 0 when it is stopped.
func TestImage(t *testing.T) {
	img := build(t)
	for name, c := range map[string]struct {
		env        []string
		bootstrap  []string // all answer
		id         string   // of the cluster, if it is given
		partitions string   // of a topic that is created without a number
	}{
		"as it is": {nil, []string{"localhost:9092"}, "", "1"},
		"composed": {composed, []string{"localhost:9092", "localhost:19092"}, "4L6g3nShT-eMCtK--X86sw", "5"},
	} {
		t.Run(name, func(t *testing.T) {
			run := img.run(t, c.env)
			if out, err := run.inside(img.health...); err != nil || out != "ready\n" {
				t.Errorf("health check: %q, %v", out, err)
			}
			if c.id != "" && !strings.Contains(run.ready, c.id) {
				t.Errorf("ready without the cluster id %s: %s", c.id, run.ready)
			}
			klamm := img.entrypoint[0]
			if out, err := run.inside(klamm, "topic", "create", "orders", "--bootstrap", c.bootstrap[0]); err != nil {
				t.Errorf("create a topic: %v\n%s", err, out)
			}
			for _, bootstrap := range c.bootstrap {
				out, err := run.inside(klamm, "topic", "describe", "orders", "--bootstrap", bootstrap, "--output", "json")
				if err != nil || strings.Count(out, `"leader"`) != atoi(t, c.partitions) {
					t.Errorf("describe by %s, want %s partitions: %v\n%s", bootstrap, c.partitions, err, out)
				}
			}
			run.stop()
		})
	}
}

func atoi(t testing.TB, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// container is a running image, in a network of its own.
type container struct {
	t     testing.TB
	image *image
	env   []string
	cmd   *exec.Cmd
	ready string // the line
}

func (img *image) run(t testing.TB, env []string) *container {
	t.Helper()
	img.emptyVolumes()
	ownNetwork := []string{"unshare", "-n", "sh", "-c", `ip link set lo up && exec "$@"`, "sh"}
	c := &container{t: t, image: img, env: env, cmd: img.command(ownNetwork, env, append(append([]string{}, img.entrypoint...), img.cmd...)...)}
	pipe, err := c.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.cmd.Process.Kill() }) // it may have ended
	c.awaitReady(pipe)
	return c
}

// emptyVolumes gives a container new ones.
func (img *image) emptyVolumes() {
	img.t.Helper()
	for _, volume := range img.volumes {
		files, err := os.ReadDir(filepath.Join(img.root, volume))
		if err != nil {
			img.t.Fatal(err)
		}
		for _, f := range files {
			if err := os.RemoveAll(filepath.Join(img.root, volume, f.Name())); err != nil {
				img.t.Fatal(err)
			}
		}
	}
}

func (c *container) awaitReady(stderr io.Reader) {
	c.t.Helper()
	found := make(chan string, 1)
	go func() {
		in := bufio.NewScanner(stderr)
		var all strings.Builder
		for in.Scan() {
			all.WriteString(in.Text() + "\n")
			if strings.Contains(in.Text(), "klamm ready") {
				found <- in.Text()
				_, _ = io.Copy(io.Discard, stderr) // the pipe must not fill up
				return
			}
		}
		found <- all.String()
	}()
	select {
	case c.ready = <-found:
	case <-time.After(time.Minute):
		c.t.Fatal("not ready after a minute")
	}
	if !strings.Contains(c.ready, "klamm ready") {
		c.t.Fatalf("ended before it was ready:\n%s", c.ready)
	}
}

// inside runs a program as `docker exec` does.
func (c *container) inside(argv ...string) (string, error) {
	cmd := c.image.command([]string{"nsenter", "-t", strconv.Itoa(c.cmd.Process.Pid), "-n"}, c.env, argv...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (c *container) stop() {
	c.t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
	_ = c.cmd.Wait() // the exit code tells
	if code := c.cmd.ProcessState.ExitCode(); code != 0 {
		c.t.Errorf("exit code %d when it was stopped", code)
	}
}
