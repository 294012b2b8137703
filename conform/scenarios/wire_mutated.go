package scenarios

import (
	"bytes"
	"fmt"
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

// wireMutated makes a scenario of each API that can do no harm: well-formed requests in
// which single bytes were changed, the same ones in every run.
func wireMutated() (all []conform.Scenario) {
	for _, key := range []int16{2, 3, 18, 19, 20, 23, 60} {
		api, _ := conform.Lookup(key)
		all = append(all, conform.Scenario{
			Name: "wire/mutated-" + api.Name, Key: key,
			Run: func(r *conform.R) { sendMutatedRequests(r, key) },
		})
	}
	return all
}

// badName is no topic's name, nor will it be when two of its bytes change.
const badName = "a b c d"

// harmless is a request of every field that a client may set, for a topic that cannot be.
func harmless(r *conform.R, key int16) kmsg.Request {
	switch key {
	case 2:
		return withoutEpochs(listOf(r, 0, -1, place{"=" + badName, 0}, place{"=" + badName, 1}))
	case 3:
		return metadataFor(r, "="+badName)
	case 18:
		return apiVersionsRequest()
	case 19:
		return validate(0, newTopic(r, "="+badName, 1, 1, "flush.ms", "5"), assigned(r, "=b a d ", -1, -1, []int32{1}))
	case 20:
		return deleteNamed(r, 0, "="+badName, "=b a d ")
	case 23:
		return epochOf(r, 0, 0, place{"=" + badName, 0}, place{"=" + badName, 1})
	}
	return kmsg.NewPtrDescribeClusterRequest()
}

// withoutEpochs takes -1 out of a request, which would be a null where an array begins.
func withoutEpochs(req *kmsg.ListOffsetsRequest) *kmsg.ListOffsetsRequest {
	for i := range req.Topics[0].Partitions {
		req.Topics[0].Partitions[i].CurrentLeaderEpoch = 0
	}
	return req
}

func sendMutatedRequests(r *conform.R, key int16) {
	if key == 3 {
		r.Ignore("Topics") // a change can ask for all
	}
	if key == 18 {
		ignoreAdvertised(r)
	}
	rnd := rand.New(rand.NewPCG(uint64(key), 0))
	for _, v := range conform.Versions(key) {
		for i := range 20 {
			req := harmless(r, key)
			req.SetVersion(v)
			body, what := withChanges(req.AppendTo(nil), rnd)
			r.RawRequest("mutated", label(v, "%d:%s", i, what), req, body)
		}
	}
}

// withChanges changes up to two bytes. They stay ASCII: other names are answered differently
// on purpose, and negative lengths have steps of their own.
func withChanges(body []byte, rnd *rand.Rand) ([]byte, string) {
	body = bytes.Clone(body)
	what := ""
	for range 1 + rnd.IntN(2) {
		if len(body) == 0 {
			break
		}
		at := rnd.IntN(len(body))
		switch rnd.IntN(4) {
		case 0:
			body[at] ^= 1 << rnd.IntN(7)
			what += fmt.Sprintf(" a bit of %d", at)
		case 1:
			body[at] = byte(rnd.IntN(0x80))
			what += fmt.Sprintf(" byte %d to %d", at, body[at])
		case 2:
			body = body[:at]
			what += fmt.Sprintf(" cut at %d", at)
		default:
			body = append(body, byte(rnd.IntN(0x80)))
			what += " a byte behind"
		}
	}
	return body, what
}
