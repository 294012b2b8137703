package scenarios

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

// keptQuotas show what becomes of a client that is above its quota. Each scenario has a
// client id of its own, and quotas for it so small that any use exceeds them by seconds.
func keptQuotas() []conform.Scenario {
	return []conform.Scenario{
		{Name: "keptquotas/produce", Key: 49, Run: quotaOfProduce},
		{Name: "keptquotas/fetch", Key: 49, Run: quotaOfFetch},
		{Name: "keptquotas/requests", Key: 49, Needs: []int16{10, 60}, Run: quotaOfRequests},
		{Name: "keptquotas/partitions", Key: 49, Needs: []int16{37}, Run: quotaOfPartitions},
		{Name: "keptquotas/whose", Key: 49, Invasive: true, Alone: true, Run: whoseQuota},
	}
}

// limited is a client with a quota. It needs a connection for each request, since one whose
// client was told to pause is not heard for that time.
type limited struct {
	*conform.R
	id      string
	entity  []part
	key     string
	connect int
}

// limit gives a client a quota, and waits until it is kept.
func limit(r *conform.R, id, key string, value float64) *limited {
	l := &limited{R: r, id: r.Name(id), key: key}
	l.entity = []part{{"client-id", &l.id}}
	r.Quiet(quotas(1, l.entity, setQuota(key, value)))
	awaitKept(r)
	return l
}

// awaitKept waits until the quotas that were set so far are kept: they are in the order in
// which they were set, and the last is one that its client notices.
func awaitKept(r *conform.R) {
	probe := r.Name("probe")
	entity := []part{{"client-id", &probe}}
	r.Quiet(quotas(1, entity, setQuota("request_percentage", 1e-9)))
	r.ClientID(&probe)
	r.Until("quotas are kept", func() kmsg.Request { return metadataOf(7) }, func(resp kmsg.Response) bool {
		return resp.(*kmsg.MetadataResponse).ThrottleMillis > 0
	})
	r.ClientID(of("conform"))
	r.Disconnect("quiet")
	r.Quiet(quotas(1, entity, removeQuota("request_percentage")))
}

// metadataOf is a request for brokers alone.
func metadataOf(version int16) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.Topics = version, []kmsg.MetadataRequestTopic{}
	return req
}

// conn is a new connection.
func (l *limited) conn() string {
	l.connect++
	return fmt.Sprint("limited", l.connect)
}

// as runs fn with requests that are the client's.
func (l *limited) as(fn func()) {
	l.ClientID(&l.id)
	fn()
	l.ClientID(of("conform"))
}

// send sends one request of the client.
func (l *limited) send(title string, req kmsg.Request) (resp kmsg.Response) {
	conn := l.conn()
	l.as(func() { resp = l.SendOn(conn, label(req.GetVersion(), "%s", title), req) })
	l.Disconnect(conn)
	return resp
}

// muted notes whether a connection is heard, and closes it.
func (l *limited) muted(conn, title string) {
	l.as(func() {
		heard := l.Start(conn, "", metadataOf(7)).Within(700 * time.Millisecond)
		l.Note(title+": the next request is answered at once", "%v", heard)
	})
	l.Disconnect(conn)
}

// remove takes the quota away.
func (l *limited) remove() { l.Quiet(quotas(1, l.entity, removeQuota(l.key))) }

func manyBytes(r *conform.R) []byte {
	return conform.Batch{Records: r.Values(strings.Repeat("x", 20_000))}.Bytes()
}

func quotaOfProduce(r *conform.R) {
	r.CreateTopic("t", 1)
	l := limit(r, "c", "producer_byte_rate", 1000)
	for _, v := range conform.Versions(0) {
		l.send("above", r.ProduceTo(v, "t", 0, manyBytes(r)))
	}
	l.send("unknown topic", r.ProduceTo(9, "no-such", 0, manyBytes(r)))
	conn := l.conn()
	l.as(func() { r.SendOn(conn, "answered", r.ProduceTo(9, "t", 0, manyBytes(r))) })
	l.muted(conn, "answered")
	silent := r.ProduceTo(9, "t", 0, manyBytes(r))
	silent.Acks = 0
	conn = l.conn()
	l.as(func() { r.SendWithoutAnswer(conn, "acks=0", silent) })
	l.muted(conn, "acks=0")
	l.send("a request without bytes", metadataOf(7))
	r.Send("another client", r.ProduceTo(9, "t", 0, manyBytes(r)))
	l.remove()
}

func quotaOfFetch(r *conform.R) {
	r.CreateTopic("t", 1)
	r.Quiet(r.ProduceTo(9, "t", 0, manyBytes(r)))
	l := limit(r, "c", "consumer_byte_rate", 1000)
	for _, v := range conform.Versions(1) {
		l.send("above", r.FetchFrom(v, "t", 0, 0))
	}
	session := func(v int16, id, epoch int32) *kmsg.FetchRequest {
		req := r.FetchFrom(v, "t", 0, 0)
		req.SessionID, req.SessionEpoch = id, epoch
		return req
	}
	l.send("a session", session(12, 0, 0))
	id := r.Send("another client's session", session(12, 0, 0)).(*kmsg.FetchResponse).SessionID
	l.send("within it", session(12, id, 1))
	r.Send("within it, not above", session(12, id, 2))
	l.send("within it, a wrong epoch", session(12, id, 9))
	conn := l.conn()
	l.as(func() { r.SendOn(conn, "answered", r.FetchFrom(11, "t", 0, 0)) })
	l.muted(conn, "answered")
	follower := r.FetchFrom(11, "t", 0, 0)
	follower.ReplicaID = 99
	l.send("a follower, of which there is none", follower)
	l.remove()
}

func quotaOfRequests(r *conform.R) {
	ignoreAdvertised(r)
	l := limit(r, "c", "request_percentage", 1e-9)
	for _, v := range conform.Versions(18) {
		req := apiVersionsRequest()
		req.Version = v
		l.send("ApiVersions", req)
	}
	for _, v := range conform.Versions(3) {
		if v > 0 { // where no topics are all topics
			req := metadataOf(v)
			l.send("Metadata", req)
		}
	}
	for _, v := range conform.Versions(60) {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.Version = v
		l.send("DescribeCluster", req)
	}
	for _, v := range conform.Versions(48) {
		l.send("DescribeClientQuotas", quotasOf(v, true, filter{"client-id", 0, of(r.Name("nobody"))}))
	}
	for _, v := range conform.Versions(49) {
		l.send("AlterClientQuotas", quotasOnlyAsk(v, l.entity, setQuota("producer_byte_rate", 1)))
	}
	unknown := r.FetchFrom(11, "no-such", 0, 0)
	l.send("Fetch", unknown)
	silent := r.ProduceTo(9, "no-such", 0, manyBytes(r))
	l.send("Produce", silent)
	l.remove()
}

// quotaOfPartitions has a client make, grow and delete topics: the first partition uses up
// for a minute what it may do.
func quotaOfPartitions(r *conform.R) {
	l := limit(r, "c", "controller_mutation_rate", 0.01)
	creation := func(v int16, partitions int32, names ...string) *kmsg.CreateTopicsRequest {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version, req.TimeoutMillis = v, 10_000
		for _, name := range names {
			r.Owns(name)
			t := kmsg.NewCreateTopicsRequestTopic()
			t.Topic, t.NumPartitions, t.ReplicationFactor = r.Name(name), partitions, 1
			req.Topics = append(req.Topics, t)
		}
		return req
	}
	r.OnlyConfigs("cleanup.policy")
	l.send("the first, and one above", creation(7, 1, "a", "b"))
	for _, v := range []int16{7, 6} {
		l.send("above", creation(v, 1, "c"))
		only := creation(v, 1, "c")
		only.ValidateOnly = true
		l.send("above, only asked", only)
	}
	for _, v := range []int16{5, 4, 3, 2} {
		l.send("of a client that cannot be refused", creation(v, 1, fmt.Sprint("d", v)))
	}
	r.AwaitTopic("a", 1)
	for _, v := range conform.Versions(37) {
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.Version, req.TimeoutMillis = v, 10_000
		req.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: r.Name("a"), Count: 2 + int32(v)}}
		l.send("growth", req)
	}
	for _, v := range []int16{6, 5, 4} {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Version, req.TimeoutMillis = v, 10_000
		if name := r.Name("d5"); v >= 6 {
			req.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: &name}}
		} else {
			req.TopicNames = []string{name}
		}
		l.send("deletion", req)
	}
	l.send("what changes nothing", metadataOf(7))
	r.Send("another client", creation(7, 1, "e"))
	l.remove()
}

// whoseQuota asks which of several quotas counts. The one of both user and client wins over
// that of the client, and a client without an id has none of its own.
func whoseQuota(r *conform.R) {
	r.CreateTopic("t", 1)
	l := limit(r, "c", "producer_byte_rate", 1000)
	both := []part{{"user", of("ANONYMOUS")}, {"client-id", &l.id}}
	l.send("that of the client", r.ProduceTo(9, "t", 0, manyBytes(r)))
	r.Quiet(quotas(1, both, setQuota("producer_byte_rate", 1e9)))
	awaitKept(r)
	l.send("that of user and client", r.ProduceTo(9, "t", 0, manyBytes(r)))
	r.Quiet(quotas(1, both, removeQuota("producer_byte_rate")))
	awaitKept(r)
	l.send("that of the client again", r.ProduceTo(9, "t", 0, manyBytes(r)))
	r.Quiet(quotas(1, both[:1], setQuota("producer_byte_rate", 1e9)))
	awaitKept(r)
	l.send("that of the user", r.ProduceTo(9, "t", 0, manyBytes(r)))
	r.Quiet(quotas(1, both[:1], removeQuota("producer_byte_rate")))
	awaitKept(r)
	l.remove()
}
