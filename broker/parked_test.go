package broker_test

import (
	"bytes"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/broker"
	"github.com/klamm-mq/klamm/broker/brokertest"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// joinAndWait sends a JoinGroup that has to wait for its group: the first member of an
// empty one waits for more of them (group.initial.rebalance.delay.ms).
func joinAndWait(t *testing.T, m *brokertest.Machine) net.Conn {
	t.Helper()
	conn, err := m.Dial(t.Context(), "tcp", m.Addr())
	if err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.ProtocolType = 3, "g", "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 30_000, 30_000
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: bytes.Repeat([]byte("m"), 100_000)}}
	if _, err := conn.Write(frame(req, 7)); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return conn
}

// withCoordinator starts a broker whose groups have a place already.
func withCoordinator(t *testing.T, m *brokertest.Machine) (*broker.Broker, *prometheus.Registry) {
	t.Helper()
	m.Settings = append(m.Settings, "group.initial.rebalance.delay.ms=20000")
	env := m.Env()
	b, err := broker.Start(t.Context(), brokertest.Config(t, m.Settings...), env)
	if err != nil {
		t.Fatal(err)
	}
	client := newClient(t, m)
	produce(t, client, "t", "x")
	commitAt(t, m, "other", "t", 0)
	client.Close()
	return b, env.Registry
}

// A broker that stops tells those that wait for their group to look for it elsewhere.
func TestStopAnswersWhoWaitsForItsGroup(t *testing.T) {
	inBubble(t, func(t *testing.T, m *brokertest.Machine) {
		b, _ := withCoordinator(t, m)
		conn := joinAndWait(t, m)
		answer := make(chan []byte, 1)
		go func() {
			body, err := readFrame(conn)
			if err != nil {
				t.Errorf("no answer: %v", err)
			}
			answer <- body
		}()
		began := time.Now()
		brokertest.Stop(t, b)
		resp := kmsg.NewPtrJoinGroupResponse()
		resp.Version = 3
		if err := resp.ReadFrom((<-answer)[4:]); err != nil {
			t.Fatal(err)
		}
		if c := resp.ErrorCode; c != kafkaerr.NotCoordinator.Code && c != kafkaerr.CoordinatorNotAvailable.Code {
			t.Errorf("error %d", c)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the stop took %s", took)
		}
	})
}

// The wait of a client that has gone ends with that of its group at the latest (on a TCP
// socket after ten seconds: wire.Limits.GonePatience), and its member when the session does.
func TestClientThatWaitsForItsGroupGoesAway(t *testing.T) {
	inBubble(t, func(t *testing.T, m *brokertest.Machine) {
		b, registry := withCoordinator(t, m)
		defer brokertest.Stop(t, b)
		conn := joinAndWait(t, m)
		if n := value(t, registry, "klamm_network_requests_in_flight"); n != 1 {
			t.Errorf("%v requests wait", n)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if n := members(t, m); n != 1 {
			t.Errorf("%d members while the session lasts", n)
		}
		time.Sleep(20 * time.Second)
		if n := value(t, registry, "klamm_network_requests_in_flight"); n != 0 {
			t.Errorf("%v requests wait for a client that has gone", n)
		}
		time.Sleep(2 * time.Minute)
		if n := members(t, m); n != 0 {
			t.Errorf("%d members after the session", n)
		}
	})
}

func members(t *testing.T, m *brokertest.Machine) int {
	t.Helper()
	client := newClient(t, m)
	defer client.Close()
	described, err := kadm.NewClient(client).DescribeGroups(t.Context(), "g")
	if err != nil {
		t.Fatal(err)
	}
	return len(described["g"].Members)
}
