package chaos

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/harness"
)

// nodes is how many brokers, controllers all of them, a cluster has, and how many replicas a
// partition. One whose members change has another broker.
const nodes = 3

// server is one of them: a process behind two doors.
type server struct {
	*harness.Broker
	id          int
	clients     *door // of the listener for clients and brokers
	controllers *door // of the one for controllers
	data        string
	disk        *harness.SmallDisk // nil: the machine's
	log         *os.File           // all that its processes say
	away        bool               // it is not to be there now
}

// cluster is three processes with a network between them.
type cluster struct {
	t       testing.TB
	network *network
	nodes   []*server // the node with id i is at i-1
	wounds  []wound   // of files, that nobody has mended yet

	mu     sync.Mutex
	down   map[int]bool
	faults []string // what nodes have said that they never should
}

// newCluster prepares nodes as `make cluster` starts them. The last one has a disk of its
// own if one is to be filled.
func newCluster(t testing.TB, smallDisk bool) *cluster {
	t.Helper()
	c := newNodes(t, nodes)
	var voters []string
	for _, n := range c.nodes {
		voters = append(voters, fmt.Sprintf("%d@%s", n.id, n.controllers.addr))
	}
	c.configure(smallDisk, func(*server) string { return "controller.quorum.voters=" + strings.Join(voters, ",") })
	return c
}

func newNodes(t testing.TB, count int) *cluster {
	t.Helper()
	c := &cluster{t: t, down: map[int]bool{}}
	c.network = newNetwork(t)
	for id := 1; id <= count; id++ {
		n := &server{id: id}
		n.clients, n.controllers = c.newDoor(id), c.newDoor(id)
		c.nodes = append(c.nodes, n)
	}
	return c
}

// configure gives nodes their settings; quorum is who keeps the metadata log.
func (c *cluster) configure(smallDisk bool, quorum func(n *server) string) {
	t := c.t
	t.Helper()
	common := exampleSettings(t)
	for _, n := range c.nodes {
		dir := keptDir(t, fmt.Sprintf("node-%d", n.id))
		n.data = filepath.Join(dir, "data")
		if smallDisk && n.id == nodes {
			n.disk = harness.MountSmall(t, diskMiB)
			n.data = n.disk.Path("data")
		}
		n.log = createFile(t, filepath.Join(dir, "log"))
		settings := append(append([]string{}, common...), quorum(n), fmt.Sprintf("node.id=%d", n.id), "log.dirs="+n.data,
			fmt.Sprintf("listeners=PLAINTEXT://%s,CONTROLLER://%s", n.clients.target, n.controllers.target),
			// Also to controllers: a broker asks one of them for the addresses of the others.
			fmt.Sprintf("advertised.listeners=PLAINTEXT://%s,CONTROLLER://%s", n.clients.addr, n.controllers.addr))
		n.Broker = harness.New(t, settings...)
		n.Broker.OnLine = func(line string) { c.heard(n, line) }
	}
}

func (c *cluster) newDoor(id int) *door {
	local := func() string { return fmt.Sprintf("127.0.0.1:%d", harness.FreePort(c.t)) }
	d := &door{network: c.network, node: id, addr: local(), target: local()}
	c.t.Cleanup(d.shut)
	return d
}

// exampleSettings are those of deploy/cluster/local.properties but for the quorum.
func exampleSettings(t testing.TB) (settings []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir(), "..", "..", "deploy", "cluster", "local.properties"))
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewScanner(strings.NewReader(string(text)))
	for in.Scan() {
		if line := strings.TrimSpace(in.Text()); line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "controller.quorum.voters=") {
			settings = append(settings, line)
		}
	}
	return settings
}

// keptDir is a directory below KEEP, which stays, or one of the test's own.
func keptDir(t testing.TB, name string) string {
	t.Helper()
	keep := os.Getenv("KEEP")
	if keep == "" {
		return t.TempDir()
	}
	dir := filepath.Join(keep, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func createFile(t testing.TB, name string) *os.File {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// unsound is what a node says when something has happened that must not.
var unsound = regexp.MustCompile(`\bpanic\b|fatal error:|invariant|SIGSEGV|SIGBUS|DATA RACE`)

// heard takes a line of a node.
func (c *cluster) heard(n *server, line string) {
	_, _ = fmt.Fprintln(n.log, line)
	if unsound.MatchString(line) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.faults = append(c.faults, fmt.Sprintf("node %d said: %s", n.id, line))
	}
}

// bootstrap are the addresses of all nodes for clients.
func (c *cluster) bootstrap() string {
	var list []string
	for _, n := range c.nodes {
		list = append(list, n.clients.addr)
	}
	return strings.Join(list, ",")
}

// dial connects to nodes without going through their doors.
func (c *cluster) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	for _, n := range c.nodes {
		if n.clients.addr == addr {
			addr = n.clients.target
		}
	}
	return (&net.Dialer{}).DialContext(ctx, network, addr)
}

// start starts nodes, and waits until they are ready.
func (c *cluster) start(list ...*server) {
	c.t.Helper()
	for _, n := range list {
		n.clients.open()
		n.controllers.open()
		if err := n.Launch(); err != nil {
			c.t.Fatal(err)
		}
		c.leaves(n, false)
	}
	for _, n := range list {
		if err := n.WaitReady(); err != nil {
			c.t.Fatalf("node %d: %v", n.id, err)
		}
	}
}

// tryStart starts a node that may not come up; then it is down, and the error has its last line.
func (c *cluster) tryStart(n *server) error {
	n.clients.open()
	n.controllers.open()
	err := n.Launch()
	if err == nil {
		err = n.WaitReady()
	}
	if err != nil {
		n.shut()
	}
	c.leaves(n, err != nil)
	return err
}

// leaves notes whether a node's process may end.
func (c *cluster) leaves(n *server, may bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down[n.id] = may
}

// kill ends a process with SIGKILL.
func (c *cluster) kill(n *server) {
	c.leaves(n, true)
	n.Kill()
	n.shut()
}

// stop ends a process with SIGTERM. Its doors are open while it hands over.
func (c *cluster) stop(n *server) {
	c.t.Helper()
	c.leaves(n, true)
	if code := n.Stop(); code != 0 {
		c.t.Errorf("node %d stopped with exit code %d:\n%s", n.id, code, n.Stderr())
	}
	n.shut()
}

func (n *server) shut() {
	n.clients.shut()
	n.controllers.shut()
}

func (c *cluster) pause(n *server, signal syscall.Signal) {
	c.t.Helper()
	if err := syscall.Kill(n.Pid(), signal); err != nil {
		c.t.Fatalf("%s to node %d: %v", signal, n.id, err)
	}
}

// unsoundness is what nodes have said or done that they never should.
func (c *cluster) unsoundness() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := append([]string{}, c.faults...)
	for _, n := range c.nodes {
		if !c.down[n.id] && n.Gone() {
			found = append(found, fmt.Sprintf("node %d has ended by itself:\n%s", n.id, n.Stderr()))
		}
	}
	return found
}

// present are the nodes that are to be there.
func (c *cluster) present() (list []*server) {
	for _, n := range c.nodes {
		if !n.away {
			list = append(list, n)
		}
	}
	return list
}

// others are the nodes beside one.
func (c *cluster) others(id int) (list []*server) {
	for _, n := range c.nodes {
		if n.id != id {
			list = append(list, n)
		}
	}
	return list
}
