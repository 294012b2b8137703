package scenarios

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func electLeaders() []conform.Scenario {
	return []conform.Scenario{
		{Name: "electleaders/requests", Key: 43, Run: electRequests},
		{Name: "electleaders/all", Key: 43, Run: electAll},
	}
}

// elect asks for elections of partitions of a topic.
func elect(r *conform.R, version int16, kind int8, name string, partitions ...int32) *kmsg.ElectLeadersRequest {
	req := kmsg.NewPtrElectLeadersRequest()
	req.Version, req.ElectionType, req.TimeoutMillis = version, kind, 20_000
	t := kmsg.NewElectLeadersRequestTopic()
	t.Topic, t.Partitions = r.Name(name), partitions
	req.Topics = append(req.Topics, t)
	return req
}

func electRequests(r *conform.R) {
	r.CreateTopic("t", 2)
	for _, v := range conform.Versions(43) {
		for _, kind := range []int8{0, 1, 2, -1, 127} {
			if v == 0 && kind > 0 {
				continue
			}
			send := func(title string, req *kmsg.ElectLeadersRequest) {
				r.Send(label(v, "type %d, %s", kind, title), req)
			}
			send("leaders that are there", elect(r, v, kind, "t", 0, 1))
			send("unknown partition", elect(r, v, kind, "t", 7))
			send("negative partition", elect(r, v, kind, "t", -1))
			send("known and unknown ones", elect(r, v, kind, "t", 1, 7, 0, -1))
			send("a partition twice", elect(r, v, kind, "t", 1, 1))
			send("no partitions", elect(r, v, kind, "t"))
			send("unknown topic", elect(r, v, kind, "nope", 0, 1))
			send("empty name", elect(r, v, kind, "=", 0))
			twice := elect(r, v, kind, "t", 0)
			twice.Topics = append(twice.Topics, twice.Topics[0])
			send("a topic twice", twice)
			none := elect(r, v, kind, "t")
			none.Topics = []kmsg.ElectLeadersRequestTopic{}
			send("no topics", none)
			at0 := elect(r, v, kind, "t", 0)
			at0.TimeoutMillis = 0
			send("timeout 0", at0)
		}
	}
	tagged := elect(r, 2, 0, "t", 0)
	unknownTags(&tagged.UnknownTags)
	unknownTags(&tagged.Topics[0].UnknownTags)
	r.Send("unknown tags", tagged)
}

// electAll asks for elections everywhere; in a healthy cluster there is none to make, and
// the answer names topics without partitions.
func electAll(r *conform.R) {
	r.CreateTopic("t", 2)
	for _, v := range conform.Versions(43) {
		for _, kind := range []int8{0, 1} {
			req := elect(r, v, kind, "t")
			req.Topics = nil
			resp := r.Quiet(req).(*kmsg.ElectLeadersResponse)
			named, partitions := false, 0
			for _, t := range resp.Topics {
				if t.Topic == r.Name("t") {
					named, partitions = true, len(t.Partitions)
				}
			}
			r.Note(label(v, "type %d, all", kind), "error %d, named: %t, with %d partitions", resp.ErrorCode, named, partitions)
		}
	}
}
