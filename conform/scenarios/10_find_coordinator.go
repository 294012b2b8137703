package scenarios

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func findCoordinator() []conform.Scenario {
	return []conform.Scenario{
		{Name: "find_coordinator/keys", Key: 10, Needs: []int16{9}, Run: findKeys},
		{Name: "find_coordinator/transactions", Key: 10, Needs: []int16{9}, Run: findTransactions},
	}
}

func find(version int16, kind int8, keys ...string) *kmsg.FindCoordinatorRequest {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.Version, req.CoordinatorType = version, kind
	if version >= 4 {
		req.CoordinatorKeys = keys
	} else if len(keys) > 0 {
		req.CoordinatorKey = keys[0]
	}
	return req
}

func findKeys(r *conform.R) {
	awaitCoordinator(r, "g")
	for _, v := range conform.Versions(10) {
		r.Send(label(v, "group"), find(v, 0, r.Name("g")))
		r.Send(label(v, "empty group id"), find(v, 0, ""))
		if v >= 1 {
			r.Send(label(v, "unknown type"), find(v, 3, "x"))
			r.Send(label(v, "negative type"), find(v, -1, "x"))
			r.Send(label(v, "share, malformed"), find(v, 2, "x"))
			r.Send(label(v, "share, two parts"), find(v, 2, "x:AAAAAAAAAAAAAAAAAAAAAA"))
		}
		if v < 4 {
			continue
		}
		r.Send(label(v, "no keys"), find(v, 0))
		r.Send(label(v, "three keys"), find(v, 0, r.Name("g"), r.Name("h"), r.Name("i")))
		r.Send(label(v, "the same twice"), find(v, 0, r.Name("g"), r.Name("g")))
		r.Send(label(v, "one empty"), find(v, 0, r.Name("g"), ""))
	}
}

func findTransactions(r *conform.R) {
	awaitCoordinator(r, "g")
	ready := func() kmsg.Request { return find(3, 1, r.Name("t")) }
	r.Until("transaction coordinator", ready, func(resp kmsg.Response) bool {
		code := resp.(*kmsg.FindCoordinatorResponse).ErrorCode
		return code != 15 && code != 14
	})
	for _, v := range conform.Versions(10) {
		if v >= 1 {
			r.Send(label(v, "transaction"), find(v, 1, r.Name("t")))
		}
		if v >= 4 {
			r.Send(label(v, "two transactions"), find(v, 1, r.Name("t"), r.Name("u")))
		}
	}
}
