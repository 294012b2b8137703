package chaos

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// conversation is a caller and a node that know each other over a network.
type conversation struct {
	network      *network
	door         *door
	behind       net.Listener // the node's
	caller, node net.Conn
}

// hello is how node 1 begins.
const hello = "\xfbkm\x01\x01\x00\x031/d"

func converse(t *testing.T) *conversation {
	t.Helper()
	behind, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { behind.Close() })
	c := &conversation{network: newNetwork(t), behind: behind}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	c.door = &door{network: c.network, node: 2, addr: free.Addr().String(), target: behind.Addr().String()}
	c.door.open()
	t.Cleanup(c.door.shut)
	if c.caller, err = net.Dial("tcp", c.door.addr); err != nil {
		t.Fatal(err)
	}
	if _, err := c.caller.Write([]byte(hello)); err != nil {
		t.Fatal(err)
	}
	if c.node, err = behind.Accept(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c.node, make([]byte, len(hello))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.caller.Close(); c.node.Close() })
	return c
}

// said sends a byte and tells whether it has come within a while.
func said(t *testing.T, from, to net.Conn) bool {
	t.Helper()
	if _, err := from.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	return heard(t, to, 100*time.Millisecond)
}

func heard(t *testing.T, to net.Conn, within time.Duration) bool {
	t.Helper()
	if err := to.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	_, err := to.Read(make([]byte, 1))
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	return err == nil
}

func TestNetworkCutsOneWay(t *testing.T) {
	c := converse(t)
	if !said(t, c.caller, c.node) || !said(t, c.node, c.caller) {
		t.Fatal("nothing comes through a network that is whole")
	}
	c.network.hold(way{1, 2})
	if said(t, c.caller, c.node) {
		t.Error("a byte came through a cut")
	}
	if !said(t, c.node, c.caller) {
		t.Error("the other direction is cut as well")
	}
	c.network.heal()
	if !heard(t, c.node, 10*time.Second) {
		t.Error("what was held back was lost")
	}
}

func TestNetworkDelays(t *testing.T) {
	c := converse(t)
	c.network.slow(200*time.Millisecond, way{1, 2})
	if said(t, c.caller, c.node) {
		t.Error("a byte came at once")
	}
	if !heard(t, c.node, 10*time.Second) {
		t.Error("it did not come at all")
	}
}

func TestNetworkHoldsTheEndBack(t *testing.T) {
	c := converse(t)
	c.network.hold(way{1, 2})
	c.caller.Close()
	if heard(t, c.node, 100*time.Millisecond) {
		t.Error("a byte that nobody sent")
	}
	c.network.heal()
	if err := c.node.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.node.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the end came as %v", err)
	}
}

func TestNetworkBreaksConnections(t *testing.T) {
	c := converse(t)
	if !said(t, c.caller, c.node) {
		t.Fatal("nothing comes through a network that is whole")
	}
	c.network.breakAll(func(w way) bool { return w == way{1, 2} })
	for name, conn := range map[string]net.Conn{"caller": c.caller, "node": c.node} {
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the %s read %v", name, err)
		}
	}
}

func TestNetworkOpensNoConnectionWhileOneDirectionIsCut(t *testing.T) {
	c := converse(t)
	c.network.hold(way{2, 1})
	late, err := net.Dial("tcp", c.door.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { late.Close() })
	if _, err := late.Write([]byte(hello)); err != nil {
		t.Fatal(err)
	}
	arrived := make(chan error, 1)
	go func() {
		conn, err := c.behind.Accept()
		if err == nil {
			_, err = io.ReadFull(conn, make([]byte, len(hello)))
			conn.Close()
		}
		arrived <- err
	}()
	select {
	case err := <-arrived:
		t.Fatalf("a connection was opened over a network that answers nothing (%v)", err)
	case <-time.After(100 * time.Millisecond):
	}
	c.network.heal()
	if err := <-arrived; err != nil {
		t.Fatal(err)
	}
}

func TestShutDoorRefuses(t *testing.T) {
	c := converse(t)
	c.door.shut()
	if _, err := net.Dial("tcp", c.door.addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a call at a shut door: %v", err)
	}
}

func TestWhoCalls(t *testing.T) {
	for name, c := range map[string]struct {
		bytes string
		want  int
	}{
		"controller":       {"\xfbkm\x01\x01\x00\x082/abcdef\x00\x00more", 2},
		"broker":           {"\x00\x00\x00\x40\x00\x01\x00\x11\x00\x00\x00\x07\x00\x10broker-3-fetcher\x00more", 3},
		"client":           {"\x00\x00\x00\x40\x00\x03\x00\x0c\x00\x00\x00\x07\x00\x04java\x00more", everybody},
		"client, no name":  {"\x00\x00\x00\x40\x00\x03\x00\x0c\x00\x00\x00\x07\xff\xff\x00more", everybody},
		"client, broker-x": {"\x00\x00\x00\x40\x00\x03\x00\x0c\x00\x00\x00\x07\x00\x08broker-x\x00", everybody},
	} {
		t.Run(name, func(t *testing.T) {
			rest := strings.NewReader(c.bytes)
			from, read, err := whoCalls(rest)
			if err != nil || from != c.want {
				t.Errorf("the caller is %d (%v), want %d", from, err, c.want)
			}
			more, err := io.ReadAll(rest)
			if err != nil || string(read)+string(more) != c.bytes {
				t.Errorf("%q and %q is not what was said (%v)", read, more, err)
			}
		})
	}
}
