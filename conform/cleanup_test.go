package conform

import (
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Fetch sessions that a scenario has opened, and those only, are closed once each.
func TestRunClosesItsSessions(t *testing.T) {
	var mu sync.Mutex
	var closed []int32
	f := newFake(t, func(req kmsg.Request, resp kmsg.Response, b []byte) []byte {
		fetch, ok := req.(*kmsg.FetchRequest)
		if !ok {
			return b
		}
		if fetch.SessionEpoch == -1 {
			mu.Lock()
			defer mu.Unlock()
			closed = append(closed, fetch.SessionID)
			return b
		}
		resp.(*kmsg.FetchResponse).SessionID = fetch.MaxWaitMillis // as the scenario wishes
		return resp.AppendTo(nil)
	})
	run(t, f, Scenario{Name: "fetch/sessions", Key: 1, Run: func(r *R) {
		for _, id := range []int32{9, 0, 12, 9} {
			req := kmsg.NewPtrFetchRequest()
			req.Version, req.MaxWaitMillis, req.SessionEpoch = 12, id, 0
			r.Send("open", req)
		}
	}})
	slices.Sort(closed)
	if want := []int32{9, 12}; !slices.Equal(closed, want) {
		t.Errorf("closed sessions %v, want %v", closed, want)
	}
}
