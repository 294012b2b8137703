package metalog

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klamm-mq/klamm/protocol/uuid"
	"github.com/klamm-mq/klamm/protocol/wire/memnet"
)

// doorPair is a door on host "b" and one that dials from host "a".
func doorPair(t *testing.T, test func(t *testing.T, a, b *Door)) {
	synctest.Test(t, func(t *testing.T) {
		network := memnet.New()
		door := func(id int32, host string) *Door {
			return NewDoor(DoorOptions{NodeID: id, Address: host + ":1", Dial: func(ctx context.Context, address string) (net.Conn, error) {
				return network.Host(host).DialContext(ctx, "tcp", address)
			}})
		}
		a, b := door(1, "a"), door(2, "b")
		ln, err := network.Listen("b:1")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				go b.Take(conn)
			}
		}()
		test(t, a, b)
		_, _, _ = ln.Close(), a.Close(), b.Close()
	})
}

// TestClosedDoorEndsDials: who stops does not wait for nodes that cannot be reached.
func TestClosedDoorEndsDials(t *testing.T) {
	for name, dial := range map[string]func(context.Context) (net.Conn, error){
		"nobody is there": func(ctx context.Context) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"nobody answers": func(context.Context) (net.Conn, error) {
			here, there := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, there) }()
			return here, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := NewDoor(DoorOptions{NodeID: 1, Address: "a:1", Dial: func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }})
				failed := make(chan error)
				go func() {
					_, err := d.Dial("2/x", "b:1", time.Minute)
					failed <- err
				}()
				synctest.Wait()
				begin := time.Now()
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
				if err := <-failed; err == nil || time.Since(begin) > 0 {
					t.Errorf("%v, %v after the close", err, time.Since(begin))
				}
			})
		})
	}
}

func TestProbe(t *testing.T) {
	doorPair(t, func(t *testing.T, a, b *Door) {
		if _, err := a.Probe(t.Context(), "b:1"); err == nil || !strings.Contains(err.Error(), "just started") {
			t.Errorf("before it is open: %v", err)
		}
		want := State{NodeID: 2, DirectoryID: uuid.UUID{15: 2}, ClusterID: "c", Empty: true, HasPartitions: true, Lineage: uuid.UUID{7}, Votes: true}
		b.Open(func() State { return want })
		if got, err := a.Probe(t.Context(), "b:1"); err != nil || got != want {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := a.Probe(t.Context(), "c:1"); err == nil {
			t.Error("somebody answers where nobody is")
		}
	})
}

// Raft's connections reach only the node that is meant, in its cluster.
func TestDoorChecksIdentity(t *testing.T) {
	self := string(serverID(Voter{NodeID: 2, DirectoryID: uuid.UUID{15: 2}}))
	for _, c := range []struct {
		name, id, cluster, want string
	}{
		{"right", self, "c", ""},
		{"no cluster yet", self, "", ""},
		{"other disk", string(serverID(Voter{NodeID: 2, DirectoryID: uuid.UUID{15: 9}})), "c", "this node is " + self},
		{"other node", string(serverID(Voter{NodeID: 3, DirectoryID: uuid.UUID{15: 2}})), "c", "this node is " + self},
		{"other cluster", self, "d", "belongs to cluster c, not to d"},
	} {
		t.Run(c.name, func(t *testing.T) {
			doorPair(t, func(t *testing.T, a, b *Door) {
				a.Open(func() State { return State{NodeID: 1, DirectoryID: uuid.UUID{15: 1}, ClusterID: c.cluster} })
				b.Open(func() State { return State{NodeID: 2, DirectoryID: uuid.UUID{15: 2}, ClusterID: "c"} })
				accepted := make(chan net.Conn, 1)
				go func() {
					if conn, err := b.Accept(); err == nil {
						accepted <- conn
					}
				}()
				conn, err := a.Dial(c.id, "b:1", time.Second)
				if c.want != "" {
					if err == nil || !strings.Contains(err.Error(), c.want) {
						t.Errorf("%v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				far := <-accepted
				if _, err := conn.Write([]byte("raft")); err != nil {
					t.Fatal(err)
				}
				got := make([]byte, 4)
				if _, err := far.Read(got); err != nil || string(got) != "raft" {
					t.Errorf("%q, %v", got, err)
				}
				_, _ = conn.Close(), far.Close()
			})
		})
	}
}

// Who connects and falls silent is not waited for.
func TestSilentPreface(t *testing.T) {
	doorPair(t, func(t *testing.T, _, b *Door) {
		near, far := net.Pipe()
		begin := time.Now()
		b.Take(far)
		if took := time.Since(begin); took != prefaceTimeout {
			t.Errorf("after %v", took)
		}
		_ = near.Close()
	})
}

func FuzzPreface(f *testing.F) {
	near, far := net.Pipe()
	go func() { _ = writePreface(near, preface{kind: kindRaft, from: "1/a", to: "2/b", clusterID: "c"}) }()
	good := make([]byte, 20)
	n, err := far.Read(good)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good[:n])
	f.Add([]byte{prefaceFirst, 'k', 'm', prefaceVersion, kindProbe, 0xff, 0xff})
	f.Add([]byte{answerRefused, 0, 3, 'w', 'h', 'y'})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := readPreface(bytes.NewReader(b))
		if err == nil && len(p.from)+len(p.to)+len(p.clusterID) > len(b) {
			t.Error("more text than bytes")
		}
		_, _ = readState(bytes.NewReader(b))
	})
}
