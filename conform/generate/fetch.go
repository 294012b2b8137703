package generate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// reading is one partition of a Fetch.
type reading struct {
	at                  place
	from                position
	epoch, fetchedEpoch int32
	maxBytes            int32
}

func (f reading) String() string {
	text := fmt.Sprintf("%v from %s", f.at, f.from)
	if f.maxBytes != 1<<20 {
		text += fmt.Sprintf(" %d bytes", f.maxBytes)
	}
	if f.epoch != -1 || f.fetchedEpoch != -1 {
		text += fmt.Sprintf(" epochs %d %d", f.epoch, f.fetchedEpoch)
	}
	return text
}

func (d dice) readings(least int) (all []reading, text string) {
	var texts []string
	for range least + pick(d, 0, 0, 1, 2) {
		f := reading{at: d.place(), from: d.position(), epoch: -1, fetchedEpoch: -1, maxBytes: 1 << 20}
		if d.in(15) {
			f.epoch = pick(d, int32(0), 0, 1, -2)
		}
		if d.in(8) {
			f.fetchedEpoch = pick(d, int32(0), 1)
		}
		if d.in(25) {
			f.maxBytes = pick(d, int32(0), 1, 100, 1000, -1)
		}
		all = append(all, f)
		texts = append(texts, f.String())
	}
	return all, strings.Join(texts, ", ")
}

// limits of a whole Fetch.
type limits struct {
	waitMillis, minBytes, maxBytes int32
	isolation                      int8
}

func (d dice) limits() limits {
	l := limits{pick(d, int32(0), 0, 20), pick(d, int32(0), 1, 1), 1 << 20, int8(d.IntN(2))}
	if d.in(20) {
		l.maxBytes = pick(d, int32(0), 1, 200, 2000)
	}
	return l
}

func (l limits) String() string {
	return fmt.Sprintf("wait %d min %d max %d isolation %d", l.waitMillis, l.minBytes, l.maxBytes, l.isolation)
}

func (l limits) request(version int16) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.IsolationLevel = version, l.waitMillis, l.minBytes, l.maxBytes, l.isolation
	req.ReplicaID, req.SessionEpoch = -1, -1
	return req
}

// add adds a partition to the request: partitions of one topic stand together.
func (f reading) add(p *player, req *kmsg.FetchRequest) {
	part := kmsg.NewFetchRequestTopicPartition()
	part.Partition, part.FetchOffset, part.PartitionMaxBytes = f.at.partition, p.offset(f.at, f.from), f.maxBytes
	part.CurrentLeaderEpoch, part.LastFetchedEpoch = f.epoch, f.fetchedEpoch
	if p.recoded[f.at.topic] { // how many of its bytes fit is a matter of the library
		part.PartitionMaxBytes, req.MaxBytes = 1<<20, 1<<20
	}
	topic := kmsg.NewFetchRequestTopic()
	if req.Version >= 13 {
		topic.TopicID = p.r.TopicID(f.at.topic)
	} else {
		topic.Topic = p.r.Name(f.at.topic)
	}
	for i := range req.Topics {
		if req.Topics[i].Topic == topic.Topic && req.Topics[i].TopicID == topic.TopicID {
			req.Topics[i].Partitions = append(req.Topics[i].Partitions, part)
			return
		}
	}
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
}

// drawFetch reads outside of sessions.
func drawFetch(d dice) Step {
	version, limits := d.version(1), d.limits()
	all, text := d.readings(1)
	return Step{Text: fmt.Sprintf("fetch v%d %v: %s", version, limits, text), do: func(p *player, label string) {
		req := limits.request(version)
		for _, f := range all {
			f.add(p, req)
		}
		p.r.Send(label, req)
	}}
}

// drawSessionFetch opens one of two sessions, goes on with it, changes it, or uses it
// wrongly.
func drawSessionFetch(d dice) Step {
	which := d.IntN(2)
	how := pick(d, "open", "next", "next", "next", "next", "next", "close", "epoch ahead", "epoch behind", "unknown id", "negative epoch")
	version, limits := d.version(1), d.limits()
	if d.in(85) { // a session that goes on in one version's way of naming topics
		version = []int16{12, 16}[which]
	}
	var added, forgotten []reading
	texts := [2]string{}
	if how == "open" || d.in(50) {
		added, texts[0] = d.readings(1)
	}
	if how == "next" && d.in(30) {
		forgotten, texts[1] = d.readings(1)
	}
	text := fmt.Sprintf("fetch v%d session %d %s %v: add %s; forget %s", version, which, how, limits, texts[0], texts[1])
	return Step{Text: text, do: func(p *player, label string) {
		req := limits.request(version)
		for _, f := range added {
			f.maxBytes = roomy(f.maxBytes)
			f.add(p, req)
		}
		if slices.Contains(slices.Collect(maps.Values(p.recoded)), true) {
			req.MaxBytes = roomy(req.MaxBytes)
		}
		forget(p, req, forgotten)
		s := &p.sessions[which]
		s.use(req, how)
		resp, ok := p.r.Send(label, req).(*kmsg.FetchResponse)
		if ok && resp.ErrorCode == 0 && (how == "open" || how == "next") {
			s.learn(resp.SessionID, how)
		}
	}}
}

// roomy is a limit that does not depend on how well a library compresses: a session may
// hold a topic for whose successor it does.
func roomy(limit int32) int32 {
	if limit <= 1 {
		return limit
	}
	return 1 << 20
}

func (s *session) use(req *kmsg.FetchRequest, how string) {
	req.SessionID, req.SessionEpoch = s.id, s.epoch
	switch how {
	case "open":
		req.SessionID, req.SessionEpoch = 0, 0
	case "close":
		req.SessionEpoch = -1
	case "epoch ahead":
		req.SessionEpoch += 3
	case "epoch behind":
		req.SessionEpoch = max(1, req.SessionEpoch-1)
	case "negative epoch":
		req.SessionEpoch = -5
	case "unknown id":
		req.SessionID, req.SessionEpoch = 1, 1 // ids are random numbers of 31 bits
	}
}

func (s *session) learn(id int32, how string) {
	if how == "open" {
		s.id, s.epoch = id, 0
	}
	s.epoch++
}

func forget(p *player, req *kmsg.FetchRequest, all []reading) {
	for _, f := range all {
		topic := kmsg.NewFetchRequestForgottenTopic()
		if req.Version >= 13 {
			topic.TopicID = p.r.TopicID(f.at.topic)
		} else {
			topic.Topic = p.r.Name(f.at.topic)
		}
		topic.Partitions = []int32{f.at.partition}
		req.ForgottenTopics = append(req.ForgottenTopics, topic)
	}
}
