package scenarios

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func produce() []conform.Scenario {
	return []conform.Scenario{
		{Name: "produce/acks", Key: 0, Run: produceAcks},
	}
}

// produceAcks tries every value of acks in every version.
func produceAcks(r *conform.R) {
	r.CreateTopic("a", 1)
	for _, v := range conform.Versions(0) {
		for _, acks := range []int16{-2, -1, 0, 1, 2} {
			req := r.ProduceTo(v, "a", 0, conform.Batch{Records: r.Values("x")}.Bytes())
			req.Acks = acks
			if acks == 0 {
				r.SendWithoutAnswer("main", label(v, "acks 0"), req)
				continue
			}
			r.Send(label(v, "acks %d", acks), req)
		}
		r.Send(label(v, "read back"), r.FetchFrom(12, "a", 0, 0))
	}
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks = 9, 1
	r.Send("no topics", req)
}
