package broker_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol"
	"github.com/klamm-mq/klamm/protocol/uuid"
	"github.com/klamm-mq/klamm/protocol/wire/memnet"
)

// oldestKnows is what the oldest release that works together with this one (that of `make
// upgrade`) takes from other nodes: the highest version of each request, by kind of listener.
// Whatever is above that, or missing here, waits for a level of klamm.metadata. What it knows
// of records stands in testdata/records-level-1 of cluster/metadata.
var oldestKnows = map[protocol.Listener]map[int16]int16{
	protocol.BrokerListener: {1: 18, 2: 11, 3: 13, 18: 5, 23: 4},
	protocol.ControllerListener: {
		18: 5, 56: 3, 58: 0, 60: 2, 62: 4, 63: 2, 67: 0, 70: 0, 73: 0,
	},
}

// oldestPreface is the version of the preface of Raft's connections that it knows.
const oldestPreface = 1

// said is what nodes have begun to say to each other.
type said struct {
	mu       sync.Mutex
	requests map[string]int
	faults   map[string]bool
}

// tap watches a connection that a node has dialled.
type tap struct {
	*memnet.Conn
	said     *said
	listener protocol.Listener

	head  []byte // of the frame, or preface, that is on its way
	skip  int    // what comes before the next one
	other bool   // what follows is not requests
}

func (s *said) watch(address string, c net.Conn) net.Conn {
	t := &tap{Conn: c.(*memnet.Conn), said: s, listener: protocol.BrokerListener}
	if strings.HasSuffix(address, ":9093") {
		t.listener = protocol.ControllerListener
	}
	return t
}

func (t *tap) Write(b []byte) (int, error) {
	t.said.mu.Lock()
	t.listen(b)
	t.said.mu.Unlock()
	return t.Conn.Write(b)
}

// frameHead is the size of a frame, the key of its request and the version.
const frameHead = 4 + 2 + 2

func (t *tap) listen(b []byte) {
	for len(b) > 0 && !t.other {
		n := min(t.skip, len(b))
		t.skip, b = t.skip-n, b[n:]
		n = min(frameHead-len(t.head), len(b))
		t.head, b = append(t.head, b[:n]...), b[n:]
		switch {
		case len(t.head) >= 4 && t.head[0] >= 0x80: // no frame can be so large
			t.other = true
			t.said.note("preface", t.head[3] == oldestPreface, fmt.Sprintf("%x", t.head[:4]))
		case len(t.head) == frameHead:
			key, version := int16(binary.BigEndian.Uint16(t.head[4:])), int16(binary.BigEndian.Uint16(t.head[6:]))
			api, _ := protocol.Lookup(key)
			most, known := oldestKnows[t.listener][key]
			t.said.note(fmt.Sprintf("%d %s", key, api.Name), known && version <= most, fmt.Sprintf("version %d on listener %d", version, t.listener))
			t.skip = int(binary.BigEndian.Uint32(t.head)) - (frameHead - 4)
			t.head = t.head[:0]
		}
	}
}

func (s *said) note(what string, known bool, how string) {
	s.requests[what]++
	if !known {
		s.faults[what+": "+how] = true
	}
}

// All that nodes send each other is known to the oldest release that works together with this
// one: it would close the connection, or refuse, and a rolling upgrade would stand still.
func TestOldNodesKnowWhatTheyAreSent(t *testing.T) {
	heard := &said{requests: map[string]int{}, faults: map[string]bool{}}
	clusterTest(t, threeCombined, func(c *nodes) {
		for _, m := range c.all {
			m.Machine.Tap = heard.watch
			m.Machine.Settings = append(m.Machine.Settings, "log.dirs=/data,/more")
		}
		c.start(1, 2, 3)
		c.liveALittle()
	})
	heard.mu.Lock()
	defer heard.mu.Unlock()
	for _, fault := range slices.Sorted(maps.Keys(heard.faults)) {
		t.Errorf("no old node knows %s", fault)
	}
	for _, want := range []string{
		"preface", "1 Fetch", "2 ListOffsets", "56 AlterPartition", "58 Envelope", "62 BrokerRegistration",
		"63 BrokerHeartbeat", "67 AllocateProducerIds", "70 ControllerRegistration", "73 AssignReplicasToDirs",
	} {
		if heard.requests[want] == 0 {
			t.Errorf("%s was never sent: the test sees too little", want)
		}
	}
	t.Log(heard.requests)
}

// liveALittle has nodes send each other everything that they have to say.
func (c *nodes) liveALittle() {
	c.t.Helper()
	for id := range c.all { // all but one ask another
		c.createTopic(id, fmt.Sprintf("made-by-%d", id), 3)
		c.newProducerID(id)
	}
	c.send(1, "made-by-1", 0, 100)
	c.admin(1, func(ctx context.Context, adm *kadm.Client) {
		cut := kadm.Offsets{}
		for p := range int32(3) {
			cut.AddOffset("made-by-1", p, -1, -1)
		}
		if _, err := adm.DeleteRecords(ctx, cut); err != nil {
			c.t.Error(err)
		}
	})
	c.moveWithin(1, "made-by-2", "/data", "/more")
	c.kill(3)
	c.eventually("the dead one is out of service", 10*time.Second, func() bool { return len(c.inService(1)) == 2 })
	c.all[3].replaceDisk() // its replicas begin anew, below where the leaders' logs begin
	c.start(3)
	c.inSync(1, "made-by-1")
}

// newProducerID gets one from a node, which has to have some.
func (c *nodes) newProducerID(id int32) {
	c.t.Helper()
	client := c.client(id)
	defer client.Close()
	resp, err := kmsg.NewPtrInitProducerIDRequest().RequestWith(context.Background(), client.Broker(int(id)))
	if err != nil || resp.ErrorCode != 0 {
		c.t.Errorf("a producer id of node %d: %+v, %v", id, resp, err)
	}
}

// moveWithin has a broker move its replicas of a topic between its directories, wherever they
// are.
func (c *nodes) moveWithin(id int32, topic string, directories ...string) {
	c.t.Helper()
	for _, dir := range directories {
		c.admin(id, func(ctx context.Context, adm *kadm.Client) {
			req := kadm.AlterReplicaLogDirsReq{}
			req.Add(dir, kadm.TopicsSet{topic: {0: {}, 1: {}, 2: {}}})
			answers, err := adm.AlterBrokerReplicaLogDirs(ctx, id, req)
			answers.Each(func(r kadm.AlterReplicaLogDirsResponse) { err = errors.Join(err, r.Err) })
			if err != nil {
				c.t.Error(err)
			}
		})
		c.eventually("all replicas are in "+dir, 10*time.Second, func() bool {
			at := map[uuid.UUID]bool{}
			for _, p := range c.partitions(id, topic) {
				at[p.Directories[slices.Index(p.Replicas, id)]] = true
			}
			return len(at) == 1
		})
	}
}
