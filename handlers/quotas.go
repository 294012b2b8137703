package handlers

import (
	"math"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/quota"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/protocol/wire"
)

// What clients use is counted when their answer is made (KafkaApis, RequestHandlerHelper):
//
//	any request   the time that it was worked on, waits not counted, and later the time of
//	              sending its answer; not for Produce with acks=0, nor what nodes send
//	Produce       the bytes of the request, unless it was refused as a whole
//	Fetch         the bytes of the answer, if it is sent; not for followers
//	CreateTopics, DeleteTopics, CreatePartitions
//	              partitions, by the controller, whose answer says for how long to pause
//
// The longest of the pauses is told to the client, and its connection muted for it. The
// answer leaves at once; that of a Fetch is empty then, and its session learns nothing.

// user is whose quotas count for a request.
func (c call) user() quota.Client {
	_, name, _ := strings.Cut(c.principal(), ":")
	return quota.Client{User: name, ClientID: c.request.ClientID}
}

// percent is a time as quotas of request time have it: of one thread, in a second.
func percent(d time.Duration) float64 { return 100 * d.Seconds() }

// startClock measures the time of a request, if anybody has a quota of it.
func (h *Handlers) startClock(r *wire.Request) {
	if h.quotas.Request.Enabled() {
		r.StartClock()
	}
}

// chargeTime counts the time that a request was worked on, and gives the pause for it.
func (h *Handlers) chargeTime(c call) time.Duration {
	if !h.quotas.Request.Enabled() {
		return 0
	}
	return h.quotas.Request.Record(time.Now(), c.user(), percent(c.request.Worked()))
}

// chargeSending counts the time of sending an answer, for the next request to pay; nil if
// nobody has a quota of it.
func (h *Handlers) chargeSending(c call) func(took time.Duration) {
	if !h.quotas.Request.Enabled() {
		return nil
	}
	client := c.user()
	return func(took time.Duration) { h.quotas.Request.Note(time.Now(), client, percent(took)) }
}

// pause is the longer of two pauses, one for what bytes measures and one for time.
func (h *Handlers) pause(c call, bytes *quota.Manager, forBytes, forTime time.Duration) time.Duration {
	switch {
	case forBytes > forTime:
		bytes.Paused(time.Now(), c.user(), forBytes)
		return forBytes
	case forTime > 0:
		h.quotas.Request.Paused(time.Now(), c.user(), forTime)
	}
	return forTime
}

// paced answers a request whose time counts. The controller may have put a pause into the
// answer already.
func (h *Handlers) paced(c call, resp kmsg.Response) wire.Outcome {
	forTime := h.chargeTime(c)
	pause := forTime
	if told, ok := resp.(kmsg.ThrottleResponse); ok {
		ms, _ := told.Throttle()
		pause = max(pause, time.Duration(ms)*time.Millisecond)
	}
	if pause > 0 {
		if forTime == pause { // that of the controller is in its own metrics
			h.quotas.Request.Paused(time.Now(), c.user(), pause)
		}
		if tells, ok := resp.(kmsg.SetThrottleResponse); ok {
			tells.SetThrottle(throttleMillis(pause))
		}
	}
	return wire.Outcome{Response: encode(c, resp), Mute: pause, Sent: h.chargeSending(c)}
}

func throttleMillis(pause time.Duration) int32 {
	return int32(min(pause.Milliseconds(), math.MaxInt32))
}

// chargeBytes counts a Produce whose partitions were looked at. It does so before the append
// is acknowledged, so that the next request of a client that has several on their way waits.
func (p *produceCall) chargeBytes() {
	if q := p.h.quotas.Produce; q.Enabled() {
		p.forBytes = q.Record(time.Now(), p.call.user(), float64(p.call.request.Size()))
	}
}

// pause is that of a Produce which is about to be answered.
func (p *produceCall) pause() time.Duration {
	var forTime time.Duration
	if p.req.Acks != replica.AcksNone {
		forTime = p.h.chargeTime(p.call)
	}
	return p.h.pause(p.call, p.h.quotas.Produce, p.forBytes, forTime)
}

// charge counts a Fetch that is about to give these answers. If it gives a pause, they are
// not to be sent, and their bytes do not count.
func (f *fetchCall) charge(answers []fetchAnswer) time.Duration {
	h := f.h
	if id, _ := f.replicaID(); id >= 0 || !h.quotas.Fetch.Enabled() && !h.quotas.Request.Enabled() {
		return 0
	}
	forTime, forBytes := h.chargeTime(f.call), time.Duration(0)
	if h.quotas.Fetch.Enabled() {
		now, size := time.Now(), float64(f.answerSize(answers))
		if forBytes = h.quotas.Fetch.Record(now, f.call.user(), size); forBytes+forTime > 0 {
			h.quotas.Fetch.Note(now, f.call.user(), -size)
		}
	}
	return h.pause(f.call, h.quotas.Fetch, forBytes, forTime)
}

// sending is what to tell of the time of sending the answer: nothing to a follower.
func (f *fetchCall) sending() func(took time.Duration) {
	if id, _ := f.replicaID(); id >= 0 {
		return nil
	}
	return f.h.chargeSending(f.call)
}

// answerSize is the length of the answer as Kafka counts it, with the size in front.
func (f *fetchCall) answerSize(answers []fetchAnswer) int {
	f.session.Filter(answers)
	f.resp.Version = f.req.Version
	f.shape(answers)
	skeleton := f.call.request.NewResponse()
	defer skeleton.Release()
	skeleton.Append(f.resp.AppendTo)
	size := 4 + skeleton.Len()
	for i := range answers {
		if !answers[i].Include {
			continue
		}
		n := regionLen(f.results[i].Records)
		if size += n; f.req.Version >= 12 {
			size += uvarintLen(n+1) - 1 // of the length of the records, which is that of none so far
		}
	}
	return size
}

func uvarintLen(n int) (bytes int) {
	for bytes = 1; n >= 1<<7; bytes++ {
		n >>= 7
	}
	return bytes
}

// throttled is the answer to a Fetch whose client has to pause.
func (f *fetchCall) throttled(pause time.Duration) wire.Outcome {
	for i := range f.results {
		if r := f.results[i].Records; r != nil {
			r.Release()
		}
	}
	sessionID, err := f.session.Throttled()
	resp := f.emptyAnswer(err)
	resp.SessionID, resp.ThrottleMillis = sessionID, throttleMillis(pause)
	return wire.Outcome{Response: encode(f.call, resp), Mute: pause, Sent: f.h.chargeSending(f.call)}
}

// mostAtOnce bounds what a consumer can be answered by what would not make it pause for sure.
func (f *fetchCall) mostAtOnce(maxBytes int) int {
	if f.ask.ReplicaID >= 0 {
		return maxBytes
	}
	most, found := f.h.quotas.Fetch.MostAtOnce(f.call.user())
	if !found || most >= float64(maxBytes) {
		return maxBytes
	}
	return int(most)
}
