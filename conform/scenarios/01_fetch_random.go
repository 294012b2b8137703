package scenarios

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

// fetchRandom makes scenarios of sessions with drawn requests, the same in every run:
// what no list of cases thinks of.
func fetchRandom() (all []conform.Scenario) {
	for seed := range uint64(8) {
		all = append(all, conform.Scenario{
			Name: fmt.Sprintf("fetch/session-drawn-%d", seed), Key: 1,
			Run: func(r *conform.R) { drawSession(r, rand.New(rand.NewPCG(seed, 1))) },
		})
	}
	return all
}

// drawn is a session whose requests are drawn.
type drawn struct {
	*talk
	rnd    *rand.Rand
	topics []string
}

func drawSession(r *conform.R, rnd *rand.Rand) {
	versions := sessionVersions()
	d := drawn{rnd: rnd, topics: []string{"a", "b", "nope"}}
	r.CreateTopic("a", 3)
	r.CreateTopic("b", 1)
	version := versions[rnd.IntN(len(versions))]
	d.talk = openTalk(r, version, "open", d.places()...)
	for i := range 40 {
		d.step(i)
	}
}

// place is a partition that may exist, or not.
func (d *drawn) place() place {
	return place{d.topics[d.rnd.IntN(len(d.topics))], int32(d.rnd.IntN(4))}
}

func (d *drawn) places() (all []from) {
	for range d.rnd.IntN(4) {
		p := d.place()
		all = append(all, from{p.topic, p.partition, int64(d.rnd.IntN(6))})
	}
	return all
}

// step writes records, sends the next request, or one that does not fit.
func (d *drawn) step(i int) {
	switch d.rnd.IntN(10) {
	case 0, 1, 2:
		p := data{d.topics[d.rnd.IntN(2)], int32(d.rnd.IntN(3)), batchOf(d.r, strings.Repeat("v", 30+d.rnd.IntN(40)))}
		d.r.Send(label(9, "%d: produce to %s/%d", i, p.topic, p.partition), produceOf(d.r, 9, p))
	case 3:
		d.at(fmt.Sprintf("%d: epoch %d ahead", i, d.rnd.IntN(3)), d.epoch+1+int32(d.rnd.IntN(3)), d.places()...)
	case 4:
		if d.rnd.IntN(4) == 0 {
			d.talk = openTalk(d.r, d.version, fmt.Sprintf("%d: open another", i), d.places()...)
		}
	default:
		d.send(fmt.Sprintf("%d: next", i), d.request())
	}
}

// request is one of the session, with drawn limits, fences and forgotten partitions.
func (d *drawn) request() *kmsg.FetchRequest {
	req := fetchOf(d.r, d.version, d.places()...)
	for t := range req.Topics {
		for i := range req.Topics[t].Partitions {
			d.limit(&req.Topics[t].Partitions[i])
		}
	}
	if d.rnd.IntN(3) == 0 {
		req.MaxBytes = int32(d.rnd.IntN(400))
	}
	if d.rnd.IntN(4) == 0 {
		forget(d.r, req, d.place(), d.place())
	}
	req.IsolationLevel = int8(d.rnd.IntN(2))
	return req
}

func (d *drawn) limit(p *kmsg.FetchRequestTopicPartition) {
	switch d.rnd.IntN(8) {
	case 0, 1:
		p.PartitionMaxBytes = int32(d.rnd.IntN(300))
	case 2:
		p.CurrentLeaderEpoch = int32(d.rnd.IntN(3)) - 1
	case 3:
		p.LastFetchedEpoch = int32(d.rnd.IntN(3)) - 1
	case 4:
		p.LogStartOffset = int64(d.rnd.IntN(3)) - 1
	}
}
