package java

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startPatience is how long Kafka may take to open its port on a loaded machine.
const startPatience = 5 * time.Minute

// Broker is a running Kafka of one node, controller and broker in one process.
type Broker struct {
	Addr string
	Logs string // its log directory
	// JVM are flags of its virtual machine; nil: 512 MB of heap.
	JVM  []string
	t    testing.TB
	file string // its configuration
	cmd  *exec.Cmd
	log  *lockedBuffer

	failed error // why it did not open its port
}

// StartBroker formats a directory and starts Kafka with its defaults on two free ports
// of the loopback interface. Further settings are lines key=value. It ends with the test.
func StartBroker(t testing.TB, port, controllerPort int, settings ...string) *Broker {
	t.Helper()
	b := NewBroker(t, port, controllerPort, settings...)
	b.Start()
	return b
}

// ScriptJVM are the flags that kafka-server-start.sh gives the virtual machine.
func ScriptJVM() []string {
	return []string{
		"-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:MaxInlineLevel=15",
		"-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
	}
}

// NewBroker is StartBroker without the start.
func NewBroker(t testing.TB, port, controllerPort int, settings ...string) *Broker {
	t.Helper()
	return newBroker(t, port, controllerPort, []string{"--standalone"}, append([]string{
		"node.id=1", fmt.Sprintf("controller.quorum.bootstrap.servers=127.0.0.1:%d", controllerPort),
		"offsets.topic.replication.factor=1", "transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1",
	}, settings...))
}

// newBroker formats a directory; form says of what the quorum consists.
func newBroker(t testing.TB, port, controllerPort int, form, settings []string) *Broker {
	t.Helper()
	dir := t.TempDir()
	b := &Broker{Addr: fmt.Sprintf("127.0.0.1:%d", port), t: t, file: filepath.Join(dir, "server.properties"), Logs: filepath.Join(dir, "data")}
	lines := append([]string{
		"process.roles=broker,controller",
		"listeners=PLAINTEXT://" + b.Addr + fmt.Sprintf(",CONTROLLER://127.0.0.1:%d", controllerPort),
		"controller.listener.names=CONTROLLER", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"log.dirs=" + b.Logs,
	}, settings...)
	if err := os.WriteFile(b.file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"format", "-t", "4L6g3nShT-eMCtK--X86sw", "-c", b.file}, form...)
	format, err := Quick("kafka.tools.StorageTool", args...)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := format.CombinedOutput(); err != nil {
		t.Fatalf("format Kafka's directory: %v\n%s", err, out)
	}
	t.Cleanup(b.Kill)
	return b
}

// Set adds settings, which come after those that it was made with.
func (b *Broker) Set(settings ...string) {
	b.t.Helper()
	f, err := os.OpenFile(b.file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	_, err = f.WriteString(strings.Join(settings, "\n") + "\n")
	if err := errors.Join(err, f.Close()); err != nil {
		b.t.Fatal(err)
	}
}

// Start starts a process, and waits until it has opened its port.
func (b *Broker) Start() {
	b.t.Helper()
	if err := b.TryStart(); err != nil {
		b.t.Fatal(err)
	}
}

// TryStart is Start with the failure as an error.
func (b *Broker) TryStart() error {
	b.launch()
	b.await()
	return b.failed
}

// Log is what the process has printed.
func (b *Broker) Log() string { return b.log.String() }

func (b *Broker) launch() {
	b.t.Helper()
	flags := b.JVM
	if flags == nil {
		flags = []string{"-Xmx512m"}
	}
	cmd, err := CommandJVM(flags, "kafka.Kafka", b.file)
	if err != nil {
		b.t.Fatal(err)
	}
	b.cmd, b.log, b.failed = cmd, &lockedBuffer{}, nil
	b.cmd.Stdout, b.cmd.Stderr = b.log, b.log
	if err := b.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
}

// await waits until the launched process has opened its port, or notes that it does not.
func (b *Broker) await() {
	if err := awaitPort(b.t.Context(), b.Addr); err != nil {
		b.Kill()
		b.failed = fmt.Errorf("port %s of Kafka does not open: %w\n%s", b.Addr, err, b.log.String())
	}
}

// Pid is the id of the process.
func (b *Broker) Pid() int { return b.cmd.Process.Pid }

// Dir is the directory of its partitions.
func (b *Broker) Dir() string { return filepath.Join(filepath.Dir(b.file), "data") }

// Stop ends the process with SIGTERM, as its users do, and waits until it is gone.
func (b *Broker) Stop() {
	b.t.Helper()
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		b.t.Fatal(err)
	}
	_ = b.cmd.Wait() // Java's exit code is 143 after this signal
	b.cmd = nil
}

// Kill ends the process with SIGKILL.
func (b *Broker) Kill() {
	if b.cmd == nil {
		return
	}
	_ = b.cmd.Process.Kill() // it may have ended
	_ = b.cmd.Wait()
}

func awaitPort(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

// lockedBuffer is read while a process writes it.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
