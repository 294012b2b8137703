package conform

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a broker that answers ApiVersions and Metadata as a cluster of one node, and
// everything else with the zero answer. Edit, if set, changes what goes out: an encoded
// answer behind its header; nil closes the connection instead.
type fake struct {
	l    net.Listener
	edit func(req kmsg.Request, resp kmsg.Response, answer []byte) []byte

	mu     sync.Mutex
	topics map[string]bool
	wg     sync.WaitGroup
}

func newFake(t *testing.T, edit func(kmsg.Request, kmsg.Response, []byte) []byte) *fake {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{l: l, edit: edit, topics: map[string]bool{}}
	f.wg.Go(f.accept)
	t.Cleanup(func() { _ = l.Close(); f.wg.Wait() })
	return f
}

func (f *fake) addr() string { return f.l.Addr().String() }

func (f *fake) accept() {
	for {
		c, err := f.l.Accept()
		if err != nil {
			return
		}
		f.wg.Go(func() {
			defer func() { _ = c.Close() }()
			for f.one(c) == nil {
			}
		})
	}
}

var errEnough = errors.New("the connection ends here")

// one answers one request.
func (f *fake) one(c net.Conn) error {
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c, b); err != nil {
		return err
	}
	req := kmsg.RequestForKey(int16(binary.BigEndian.Uint16(b)))
	req.SetVersion(int16(binary.BigEndian.Uint16(b[2:])))
	correlation, body := b[4:8], b[10+binary.BigEndian.Uint16(b[8:]):]
	head := correlation
	if req.IsFlexible() {
		body = body[1:]
		if req.Key() != int16(kmsg.ApiVersions) {
			head = append(head[:4:4], 0)
		}
	}
	if err := req.ReadFrom(body); err != nil {
		return err
	}
	resp := f.answer(req)
	out := resp.AppendTo(nil)
	if f.edit != nil {
		if out = f.edit(req, resp, out); out == nil {
			return errEnough
		}
	}
	_, err := c.Write(Frame(head, out))
	return err
}

func (f *fake) answer(req kmsg.Request) kmsg.Response {
	resp := req.ResponseKind()
	f.mu.Lock()
	defer f.mu.Unlock()
	switch resp := resp.(type) {
	case *kmsg.ApiVersionsResponse:
		for _, api := range APIs()[:20] {
			resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: api.Key, MinVersion: api.Min, MaxVersion: api.Max})
		}
	case *kmsg.MetadataResponse:
		f.metadata(resp)
	case *kmsg.CreateTopicsResponse:
		for _, topic := range req.(*kmsg.CreateTopicsRequest).Topics {
			f.topics[topic.Topic] = true
		}
	case *kmsg.DeleteTopicsResponse:
		for _, name := range req.(*kmsg.DeleteTopicsRequest).TopicNames {
			delete(f.topics, name)
		}
	}
	return resp
}

func (f *fake) metadata(resp *kmsg.MetadataResponse) {
	host, cluster := "127.0.0.1", "fake"
	resp.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 7, Host: host, Port: int32(f.l.Addr().(*net.TCPAddr).Port)}}
	resp.ClusterID, resp.ControllerID = &cluster, 7
	for name := range f.topics {
		topic := kmsg.NewMetadataResponseTopic()
		topic.Topic = &name
		topic.Partitions = []kmsg.MetadataResponseTopicPartition{{Leader: 7, Replicas: []int32{7}}, {Partition: 1, Leader: 7}}
		resp.Topics = append(resp.Topics, topic)
	}
}

func (f *fake) has(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.topics[name]
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.topics)
}
