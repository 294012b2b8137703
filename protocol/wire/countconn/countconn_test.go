package countconn

import (
	"context"
	"net"
	"syscall"
	"testing"

	"github.com/klamm-mq/klamm/protocol/wire/memnet"
)

func TestCountsOnMemory(t *testing.T) {
	network := memnet.New()
	inner, err := network.Listen("b:1")
	if err != nil {
		t.Fatal(err)
	}
	ln := Listen(inner)
	defer ln.Close()
	client, err := network.Dial(context.Background(), "b:1")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	_, _ = client.Write([]byte("hello"))
	if err := server.(interface{ WaitReadable() error }).WaitReadable(); err != nil {
		t.Fatal(err)
	}
	_, _ = server.Read(make([]byte, 10))
	_, _ = server.Write([]byte("hi"))
	c := &ln.Counts
	got := [4]int64{c.Reads.Load(), c.Writes.Load(), c.BytesRead.Load(), c.BytesWritten.Load()}
	if got != [4]int64{1, 1, 5, 2} {
		t.Errorf("reads, writes, bytes read, bytes written: %v", got)
	}
}

func TestCountsOnASocket(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := Listen(inner)
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	raw, err := server.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	first := true
	c := &ln.Counts
	_ = raw.Write(func(uintptr) bool { return true })
	_ = raw.Read(func(uintptr) bool {
		if n := c.Reads.Load(); n != 0 {
			t.Errorf("%d reads counted while nothing was read", n)
		}
		if first {
			first = false
			_, _ = client.Write([]byte("x")) // makes the socket readable
			return false
		}
		return true
	})
	got := [3]int64{c.Reads.Load(), c.ReadWaits.Load(), c.Writes.Load()}
	if got != [3]int64{1, 1, 1} {
		t.Errorf("reads, waits, writes: %v", got)
	}
}
