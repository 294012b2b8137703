package broker

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/cluster/metalog"
	"github.com/klamm-mq/klamm/configs"
)

func brokerWith(t *testing.T, settings ...string) *Broker {
	t.Helper()
	cfg, _, err := configs.Load(configs.Sources{Set: settings})
	if err != nil {
		t.Fatal(err)
	}
	b := &Broker{cfg: cfg, dynamic: &dynamicConfig{}}
	b.dynamic.current.Store(cfg)
	return b
}

// What is set of replica.fetch.* is what the fetchers are told.
func TestReplicationKeysReachTheFetchers(t *testing.T) {
	f := brokerWith(t, "num.replica.fetchers=3", "replica.fetch.max.bytes=1001", "replica.fetch.response.max.bytes=1002",
		"replica.fetch.min.bytes=1003", "replica.fetch.wait.max.ms=104", "replica.fetch.backoff.ms=105").following()
	if f.PartitionMaxBytes != 1001 || f.MaxBytes != 1002 || f.MinBytes != 1003 ||
		f.MaxWait != 104*time.Millisecond || f.Backoff != 105*time.Millisecond || f.Fetchers() != 3 {
		t.Errorf("%+v", f)
	}
}

// The quorum's timeouts are Raft's.
func TestQuorumKeysReachRaft(t *testing.T) {
	q := brokerWith(t, "controller.quorum.fetch.timeout.ms=4000", "controller.quorum.election.timeout.ms=5000").cfg.Quorum
	timing := metalog.TimingForQuorum().WithTimeouts(q.FetchTimeout, q.ElectionTimeout)
	if timing.HeartbeatTimeout != 4*time.Second || timing.ElectionTimeout != 5*time.Second || timing.LeaderLease > timing.HeartbeatTimeout {
		t.Errorf("%+v", timing)
	}
}

// sizedConn remembers the receive buffer that it was given.
type sizedConn struct {
	net.Conn
	bytes int
}

func (c *sizedConn) SetReadBuffer(bytes int) error {
	c.bytes = bytes
	return nil
}

// The receive buffer of a follower's connection is the system's unless it is set.
func TestFollowersReceiveBuffer(t *testing.T) {
	for setting, want := range map[string]int{
		"node.id=1":                                 0,
		"replica.socket.receive.buffer.bytes=-1":    0,
		"replica.socket.receive.buffer.bytes=65536": 65536,
	} {
		conn := &sizedConn{}
		b := brokerWith(t, setting)
		b.env.Dial = func(context.Context, string, string) (net.Conn, error) { return conn, nil }
		if got, err := b.dialLeader(t.Context(), "x"); err != nil || got != net.Conn(conn) || conn.bytes != want {
			t.Errorf("%s: %d bytes, want %d; %v", setting, conn.bytes, want, err)
		}
	}
}
