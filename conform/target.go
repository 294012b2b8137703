package conform

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Target is a broker under test and what had to be known about it before.
type Target struct {
	addr       string
	dial       Dialer
	clusterID  string
	nodes      []int32
	addrs      map[string]string
	advertised map[int16][2]int16
	listeners  map[int32]string // of the nodes, host:port
	processes  Nodes            // nil if nobody can make them fail
}

// Connect asks the broker at addr (host:port) what it is: its nodes and which APIs it
// advertises.
func Connect(ctx context.Context, addr string) (*Target, error) {
	return ConnectBy(ctx, new(net.Dialer).DialContext, addr)
}

// ConnectBy is Connect over connections that d opens.
func ConnectBy(ctx context.Context, d Dialer, addr string) (*Target, error) {
	c, err := dial(ctx, d, addr)
	if err != nil {
		return nil, err
	}
	defer c.close()
	t := &Target{
		addr: addr, dial: d, listeners: map[int32]string{}, addrs: map[string]string{addr: hostPort}, advertised: map[int16][2]int16{},
	}
	versions := kmsg.NewPtrApiVersionsRequest()
	resp, err := ask(ctx, c, versions)
	if err != nil {
		return nil, fmt.Errorf("ask %s for its API versions: %w", addr, err)
	}
	for _, api := range resp.(*kmsg.ApiVersionsResponse).ApiKeys {
		t.advertised[api.ApiKey] = [2]int16{api.MinVersion, api.MaxVersion}
	}
	if resp, err = ask(ctx, c, metadataOf(nil)); err != nil {
		return nil, fmt.Errorf("ask %s for its metadata: %w", addr, err)
	}
	t.learn(resp.(*kmsg.MetadataResponse))
	if len(t.nodes) == 0 {
		return nil, fmt.Errorf("%s knows of no broker", addr)
	}
	return t, nil
}

func metadataOf(topics []string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 4
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		req.Topics = append(req.Topics, topic)
	}
	return req
}

func (t *Target) learn(m *kmsg.MetadataResponse) {
	if m.ClusterID != nil {
		t.clusterID = *m.ClusterID
	}
	for _, b := range m.Brokers {
		t.nodes = append(t.nodes, b.NodeID)
	}
	slices.Sort(t.nodes)
	for _, b := range m.Brokers {
		t.addrs[b.Host] = "host"
		addr := net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
		t.addrs[addr] = hostPort
		t.listeners[b.NodeID] = addr
	}
}

// Size is how many nodes the broker knew of when it was asked.
func (t *Target) Size() int { return len(t.nodes) }

// Control says who can make the nodes fail.
func (t *Target) Control(n Nodes) { t.processes = n }

// Advertises reports whether ApiVersions names key.
func (t *Target) Advertises(key int16) bool {
	_, ok := t.advertised[key]
	return ok
}

func ask(ctx context.Context, c *Conn, req kmsg.Request) (kmsg.Response, error) {
	id := "conform"
	correlation, err := c.send(req, &id)
	if err != nil {
		return nil, err
	}
	b, err := c.receive(ctx, answerWait)
	if err != nil {
		return nil, err
	}
	return decode(req, correlation, b)
}
