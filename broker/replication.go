package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/cluster/node"
	"github.com/klamm-mq/klamm/cluster/peer"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// membership is what the replicas need of this broker's node, which is made after them.
type membership struct {
	node atomic.Pointer[node.Node] // nil: there is none yet
}

func (m *membership) set(n *node.Node) { m.node.Store(n) }

// epoch is that of the broker's registration.
func (m *membership) epoch() int64 {
	if n := m.node.Load(); n != nil {
		return n.BrokerEpoch()
	}
	return -1
}

// withoutNode is how long a change of an ISR waits that comes before there is a node.
const withoutNode = 50 * time.Millisecond

// AlterPartition implements replica.AlterPartitionSender.
func (m *membership) AlterPartition(change *replica.ISRChange, done func(replica.ISRResult)) {
	if n := m.node.Load(); n != nil {
		n.AlterPartition(change, done)
		return
	}
	time.AfterFunc(withoutNode, func() { done(replica.ISRResult{Err: kafkaerr.NotController}) })
}

// following is how replicas are fetched that other brokers lead.
func (b *Broker) following() replica.Following {
	r := &b.cfg.Replication
	return replica.Following{
		Leaders: leaders{b}, BrokerEpoch: b.membership.epoch,
		Fetchers:          func() int { return int(b.dynamic.get().Replication.Fetchers) },
		PartitionMaxBytes: r.FetchMaxBytes, MaxBytes: r.FetchResponseMaxBytes, MinBytes: r.FetchMinBytes,
		MaxWait: r.FetchWaitMax, Backoff: r.FetchBackoff,
	}
}

// leaders are the ways to other brokers, through the listeners that brokers use among
// themselves.
type leaders struct{ b *Broker }

// Leader implements replica.Leaders.
func (l leaders) Leader(broker int32) replica.LeaderClient {
	b := l.b
	return peer.NewClient(peer.Options{
		Dial: b.dialLeader, ClientID: "broker-" + strconv.Itoa(int(b.cfg.NodeID)) + "-fetcher", Timeout: b.cfg.Replication.SocketTimeout, Direct: true,
		// A fetch is nearly always under way: nobody hears of a death sooner.
		Lost:   func() { b.suspects.Lost(broker) },
		Logger: b.loggers.logger("klamm.replica"), Registerer: b.env.Registry,
	}, func() (string, bool) { return b.brokerAddress(broker) })
}

// dialLeader opens a connection on which records come in. Its receive buffer is the system's,
// as that of clients' connections, unless somebody sets it.
func (b *Broker) dialLeader(ctx context.Context, address string) (net.Conn, error) {
	conn, err := b.dial(ctx, address)
	if err != nil {
		return nil, err
	}
	sized, ok := conn.(interface{ SetReadBuffer(bytes int) error })
	if n := b.cfg.Replication.ReceiveBufferBytes; ok && n > 0 && b.cfg.IsSet("replica.socket.receive.buffer.bytes") {
		if err := sized.SetReadBuffer(int(n)); err != nil {
			return nil, errors.Join(fmt.Errorf("receive buffer of %s: %w", address, err), conn.Close())
		}
	}
	return conn, nil
}

func (b *Broker) makeSuspects() {
	b.suspects = peer.NewSuspects(peer.SuspectsOptions{
		Dial: b.dial, Address: b.brokerAddress, Image: b.published.get,
		Logger: b.loggers.logger("klamm.node"), Registerer: b.env.Registry,
	})
	b.published.suspects = b.suspects
	b.onStop("suspects", func(context.Context) error {
		b.suspects.Close()
		return nil
	})
}

// brokerAddress is where other brokers reach one, by the newest metadata.
func (b *Broker) brokerAddress(id int32) (address string, known bool) {
	r := b.metalog.Image().Broker(id)
	if r == nil {
		return "", false
	}
	return b.reachedAt(r), true
}

// reachedAt is the address of the listener that brokers use among themselves, else of the
// first one.
func (b *Broker) reachedAt(r *metadata.Broker) string {
	i := slices.IndexFunc(r.Listeners, func(l metadata.Endpoint) bool { return l.Name == b.cfg.InterBrokerListener })
	l := r.Listeners[max(i, 0)]
	return net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port)))
}
