package scenarios

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func wire() []conform.Scenario {
	return []conform.Scenario{
		{Name: "wire/frame-sizes", Key: 18, Run: wireFrameSizes},
		{Name: "wire/headers", Key: 18, Run: wireHeaders},
		{Name: "wire/header-tags", Key: 18, Run: wireHeaderTags},
		{Name: "wire/unknown-keys", Key: 18, Run: wireUnknownKeys},
		{Name: "wire/bodies", Key: 2, Run: wireBodies},
		{Name: "wire/flexible-bodies", Key: 2, Run: wireFlexibleBodies},
		{Name: "wire/body-tags", Key: 3, Run: wireBodyTags},
		{Name: "wire/pieces", Key: 18, Run: wirePieces},
		{Name: "wire/pipeline", Key: 18, Run: wirePipeline},
		{Name: "wire/after-a-bad-one", Key: 18, Run: wireAfterBad},
		{Name: "wire/client-ids", Key: 18, Run: wireClientIDs},
	}
}

// listNothingFrame is a ListOffsets of no topics, which any broker answers alike, in a
// frame; parts of its header are as given.
func listNothingFrame(version int16, clientID *string, headerTags []byte) []byte {
	req := listNothing(version)
	header := conform.Header(2, version, 7, clientID, false)
	if req.IsFlexible() {
		header = append(header, headerTags...)
	}
	return conform.Frame(header, req.AppendTo(nil))
}

// alive checks that the connection still answers.
func alive(r *conform.R, conn, label string) { r.SendOn(conn, label+", then", listNothing(7)) }

// wireFrameSizes sends sizes that no frame has, each on a new connection.
func wireFrameSizes(r *conform.R) {
	for _, c := range []struct {
		title string
		size  []byte
	}{
		{"0", []byte{0, 0, 0, 0}},
		{"-1", []byte{0xff, 0xff, 0xff, 0xff}},
		{"least", []byte{0x80, 0, 0, 0}},
		{"largest", []byte{0x7f, 0xff, 0xff, 0xff}},
		{"one above 100 MiB", []byte{0x06, 0x40, 0, 1}},
		{"of HTTP", []byte("GET / HTTP/1.1\r\n\r\n")},
		{"of TLS", []byte{0x16, 0x03, 0x01, 0x02, 0, 1, 0, 1, 0xfc, 3, 3}},
	} {
		r.Raw("size", "size "+c.title, c.size)
	}
	for n := 1; n <= 9; n++ {
		body := listNothingFrame(2, nil, nil)[4 : 4+n]
		r.Raw("short", fmt.Sprintf("frame of %d bytes", n), conform.Frame(body))
	}
}

// wireHeaders sends headers byte by byte; where a body is needed it is that of a
// ListOffsets for no topics.
func wireHeaders(r *conform.R) {
	body := listNothing(2).AppendTo(nil)
	id := func(client ...byte) []byte {
		return conform.Frame([]byte{0, 2, 0, 2, 0, 0, 0, 7}, client, body)
	}
	for _, c := range []struct {
		title string
		frame []byte
	}{
		{"client id null", id(0xff, 0xff)},
		{"client id empty", id(0, 0)},
		{"client id one byte", id(0, 1, 'x')},
		{"client id of length -2", id(0xff, 0xfe)},
		{"client id of length -32768", id(0x80, 0)},
		{"client id beyond the frame", id(0x7f, 0xff)},
		{"client id just beyond the frame", id(0, byte(len(body)+1))},
		{"client id takes the body", id(0, byte(len(body)))},
		{"client id not UTF-8", id(0, 2, 0xff, 0xfe)},
		{"client id with zero bytes", id(0, 2, 0, 0)},
		{"client id cut", conform.Frame([]byte{0, 2, 0, 2, 0, 0, 0, 7, 0})},
		{"negative correlation id", conform.Frame([]byte{0, 2, 0, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, body)},
		{"no body", conform.Frame([]byte{0, 2, 0, 2, 0, 0, 0, 7, 0xff, 0xff})},
		{"key of 4 bytes", conform.Frame([]byte{0, 0, 0, 2, 0, 2, 0, 0, 0, 7, 0xff, 0xff}, body)},
	} {
		r.Raw("header", c.title, c.frame)
	}
}

// wireHeaderTags sends tagged fields in the header of a flexible request.
func wireHeaderTags(r *conform.R) {
	for _, c := range []struct {
		title string
		tags  []byte
	}{
		{"none", []byte{0}},
		{"one", []byte{1, 5, 1, 9}},
		{"one empty", []byte{1, 5, 0}},
		{"known to no one", []byte{1, 0xff, 0xff, 0xff, 0xff, 0x07, 2, 1, 2}},
		{"two ascending", []byte{2, 5, 0, 6, 1, 1}},
		{"twice the same", []byte{2, 5, 0, 5, 0}},
		{"descending", []byte{2, 6, 0, 5, 0}},
		{"size beyond the frame", []byte{1, 5, 100}},
		{"count beyond the frame", []byte{100, 5, 0}},
		{"largest count", []byte{0xff, 0xff, 0xff, 0xff, 0x07}},
		{"negative count", []byte{0xff, 0xff, 0xff, 0xff, 0x0f}},
		{"negative size", []byte{1, 5, 0xff, 0xff, 0xff, 0xff, 0x0f}},
		{"varint of 6 bytes", []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0}},
		{"varint of 5 bytes for 0", []byte{0x80, 0x80, 0x80, 0x80, 0}},
		{"varint that is too large", []byte{0xff, 0xff, 0xff, 0xff, 0x7f}},
		{"none at all", nil},
	} {
		r.Raw("tags", c.title, listNothingFrame(7, of("conform"), c.tags))
	}
}

// wireUnknownKeys sends keys that no client may use: of brokers and controllers among
// themselves, of the time of ZooKeeper, and none at all.
func wireUnknownKeys(r *conform.R) {
	for _, key := range []int16{4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82, 95, 96, 127, 128, 255, 256, 1000, 32767, -1, -2, -32768} {
		for _, version := range []int16{-1, 0, 1, 3} {
			header := conform.Header(key, version, 7, of("conform"), false)
			r.Raw("unknown", fmt.Sprintf("key %d v%d", key, version), conform.Frame(header, make([]byte, 64)))
		}
	}
	alive(r, "unknown", "a new connection")
}

// wireBodies changes the body of a ListOffsets of version 2: replica id, isolation level,
// topics.
func wireBodies(r *conform.R) {
	topics := func(b ...byte) []byte { return append([]byte{0xff, 0xff, 0xff, 0xff, 0}, b...) }
	name := []byte{0, 0, 0, 1, 0, 1, 'x'}
	for _, c := range []struct {
		title string
		body  []byte
	}{
		{"no topics", topics(0, 0, 0, 0)},
		{"a byte behind", topics(0, 0, 0, 0, 9)},
		{"a thousand bytes behind", append(topics(0, 0, 0, 0), make([]byte, 1000)...)},
		{"cut by one byte", topics(0, 0, 0)},
		{"without topics", topics()},
		{"null topics", topics(0xff, 0xff, 0xff, 0xff)},
		{"-2 topics", topics(0xff, 0xff, 0xff, 0xfe)},
		{"least number of topics", topics(0x80, 0, 0, 0)},
		{"more topics than bytes", topics(0, 0, 0, 1)},
		{"a million topics", topics(0, 0x0f, 0x42, 0x40)},
		{"largest number of topics", topics(0x7f, 0xff, 0xff, 0xff)},
		{"name beyond the frame", topics(0, 0, 0, 1, 0x7f, 0xff, 'x')},
		{"no partitions", topics(append(name, 0, 0, 0, 0)...)},
		{"without partitions", topics(name...)},
		{"more partitions than bytes", topics(append(name, 0, 0, 0, 2, 0, 0, 0, 0)...)},
		{"largest number of partitions", topics(append(name, 0x7f, 0xff, 0xff, 0xff)...)},
	} {
		r.RawRequest("main", c.title, listNothing(2), c.body)
	}
}

// wireFlexibleBodies does so in version 7, where lengths are varints of one more.
func wireFlexibleBodies(r *conform.R) {
	topics := func(b ...byte) []byte { return append([]byte{0xff, 0xff, 0xff, 0xff, 0}, b...) }
	for _, c := range []struct {
		title string
		body  []byte
	}{
		{"no topics", topics(1, 0)},
		{"a byte behind", topics(1, 0, 9)},
		{"without tags", topics(1)},
		{"without topics", topics()},
		{"more topics than bytes", topics(2)},
		{"largest number of topics", topics(0xff, 0xff, 0xff, 0xff, 0x07)},
		{"negative number of topics", topics(0xff, 0xff, 0xff, 0xff, 0x0f)},
		{"number of 6 bytes", topics(0x81, 0x80, 0x80, 0x80, 0x80, 0, 0)},
		{"number of 5 bytes for none", topics(0x81, 0x80, 0x80, 0x80, 0, 0)},
		{"name beyond the frame", topics(2, 100, 'x')},
		{"no partitions", topics(2, 2, 'x', 1, 0, 0)},
		{"without partitions", topics(2, 2, 'x')},
		{"no tags of a topic", topics(2, 2, 'x', 1)},
		{"a tag of a topic", topics(2, 2, 'x', 1, 1, 7, 2, 1, 2, 0)},
		{"a tag twice", topics(1, 2, 7, 0, 7, 0)},
		{"tags descending", topics(1, 2, 8, 0, 7, 0)},
		{"tag beyond the frame", topics(1, 1, 7, 50)},
		{"more tags than bytes", topics(1, 50, 7, 0)},
	} {
		r.RawRequest("main", c.title, listNothing(7), c.body)
	}
}

// wireBodyTags sends unknown tagged fields at every level of requests.
func wireBodyTags(r *conform.R) {
	r.CreateTopic("t", 1)
	for _, v := range conform.Versions(3) {
		req := metadataFor(r, "t")
		req.Version = v
		unknownTags(&req.UnknownTags)
		unknownTags(&req.Topics[0].UnknownTags)
		r.Send(label(v, "Metadata"), req)
	}
	for _, v := range conform.Versions(1) {
		req := r.FetchFrom(v, "t", 0, 0)
		req.MaxWaitMillis = 0
		unknownTags(&req.UnknownTags)
		unknownTags(&req.Topics[0].UnknownTags)
		unknownTags(&req.Topics[0].Partitions[0].UnknownTags)
		r.Send(label(v, "Fetch"), req)
	}
}

// wirePieces sends one frame in several writes, and several frames in one.
func wirePieces(r *conform.R) {
	frame := listNothingFrame(7, of("conform"), []byte{0})
	for _, cut := range []int{1, 3, 4, 5, 8, 12, len(frame) - 1} {
		r.Write("pieces", frame[:cut])
		r.Raw("pieces", fmt.Sprintf("cut behind %d bytes", cut), frame[cut:])
	}
	for i := range frame[:len(frame)-1] {
		r.Write("pieces", frame[i:i+1])
	}
	r.Raw("pieces", "byte by byte", frame[len(frame)-1:])
	r.Write("pieces", slices.Concat(frame, frame[:6]))
	r.Raw("pieces", "one frame and a part of the next", nil)
	r.Raw("pieces", "the rest of the next", frame[6:])
	r.Write("pieces", slices.Concat(frame, frame, frame))
	for i := range 3 {
		r.Raw("pieces", fmt.Sprintf("three frames in one write, answer %d", i+1), nil)
	}
}

// wirePipeline sends many requests before it reads the first answer.
func wirePipeline(r *conform.R) {
	r.CreateTopic("t", 1)
	var pending []*conform.Pending
	start := func(label string, req kmsg.Request) {
		pending = append(pending, r.Start("pipeline", label, req))
	}
	slow := r.FetchFrom(12, "t", 0, 0)
	slow.MaxWaitMillis = 100
	start("fetch that waits", slow)
	for i := range 20 {
		start(fmt.Sprintf("list offsets %d", i), listNothing(int16(1+i%11)))
		start(fmt.Sprintf("cluster %d", i), kmsg.NewPtrDescribeClusterRequest())
		start(fmt.Sprintf("metadata %d", i), metadataFor(r, "t"))
	}
	start("unsupported version", &kmsg.ApiVersionsRequest{Version: 50})
	start("a produce", r.ProduceTo(9, "t", 0, conform.Batch{Records: r.Values("x")}.Bytes()))
	start("fetch of it", r.FetchFrom(12, "t", 0, 0))
	for _, p := range pending {
		p.Wait()
	}
}

// wireAfterBad sends a good request, then bad bytes, then another good one, before it
// reads: the first is answered, the last is not.
func wireAfterBad(r *conform.R) {
	good := listNothingFrame(7, of("conform"), []byte{0})
	for _, c := range []struct {
		title string
		bad   []byte
	}{
		{"unknown key", conform.Frame(conform.Header(1000, 0, 1, nil, false))},
		{"unknown version", conform.Frame(conform.Header(2, 100, 1, nil, false))},
		{"cut body", conform.Frame(conform.Header(2, 2, 1, nil, false), []byte{1, 2})},
		{"size 0", []byte{0, 0, 0, 0}},
		{"negative size", []byte{0xff, 0, 0, 0}},
	} {
		r.Write("bad", good)
		r.Raw("bad", c.title+": before", nil)
		r.Raw("bad", c.title, slices.Concat(c.bad, good))
		alive(r, "bad", c.title)
	}
}

// wireClientIDs sends requests of each header version under several client ids.
func wireClientIDs(r *conform.R) {
	for _, c := range []struct {
		title string
		id    *string
	}{{"null", nil}, {"empty", of("")}, {"one", of("x")}, {"long", of(longName)}, {"not ASCII", of("ü→")}} {
		r.ClientID(c.id)
		for _, v := range []int16{1, 5, 6, 11} {
			r.Send(label(v, "%s", c.title), listNothing(v))
		}
	}
}
