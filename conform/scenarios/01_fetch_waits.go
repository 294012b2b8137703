package scenarios

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func fetchWaits() []conform.Scenario {
	return []conform.Scenario{
		{Name: "fetch/no-wait", Key: 1, Run: fetchNoWait},
		{Name: "fetch/wait-out", Key: 1, Run: fetchWaitOut},
		{Name: "fetch/woken", Key: 1, Run: fetchWoken},
		{Name: "fetch/woken-in-session", Key: 1, Run: fetchSessionWoken},
		{Name: "fetch/pipelined", Key: 1, Run: fetchPipelined},
		{Name: "fetch/older-segments", Key: 1, Run: fetchOlderSegments},
	}
}

const (
	notYet   = 25 * time.Millisecond // an answer that is not there by then waits for something
	longWait = 6000                  // milliseconds: an answer that comes at once, comes before
)

// waitVersions are few: each wait takes its time.
func waitVersions() []int16 { return []int16{4, 12, 13, 18} }

// waiting lets a Fetch wait for bytes.
func waiting(req *kmsg.FetchRequest, waitMs, bytes int32) *kmsg.FetchRequest {
	req.MaxWaitMillis, req.MinBytes = waitMs, bytes
	return req
}

// fetchNoWait has reasons to answer at once, however long it may wait.
func fetchNoWait(r *conform.R) {
	r.CreateTopic("a", 2)
	r.CreateTopic("empty", 1)
	r.Quiet(produceOf(r, 9, data{"a", 0, ofSize(r, 100)}))
	empty, full := from{"empty", 0, 0}, from{"a", 0, 0}
	for _, v := range fetchVersions() {
		for _, c := range []struct {
			name       string
			wait, need int32
			total      int32
			places     []from
		}{
			{"no wait", 0, 1, 1 << 20, []from{empty}},
			{"wait -1", -1, 1, 1 << 20, []from{empty}},
			{"min bytes 0", longWait, 0, 1 << 20, []from{empty}},
			{"min bytes -1", longWait, -1, 1 << 20, []from{empty}},
			{"enough bytes", longWait, 100, 1 << 20, []from{empty, full}},
			{"no partitions", longWait, 1, 1 << 20, nil},
			{"min bytes above max bytes", longWait, 1000, 10, []from{full}},
			{"out of range", longWait, 1, 1 << 20, []from{empty, {"a", 1, 5}}},
			{"unknown partition", longWait, 1, 1 << 20, []from{{"a", 9, 0}}},
			{"unknown topic", longWait, 1, 1 << 20, []from{{"nope", 0, 0}}},
			{"unknown topic and an empty one", 200, 1, 1 << 20, []from{{"nope", 0, 0}, empty}},
		} {
			req := waiting(fetchOf(r, v, c.places...), c.wait, c.need)
			req.MaxBytes = c.total
			r.Send(label(v, "%s", c.name), req)
		}
	}
}

// fetchWaitOut waits for what does not come. Nothing may be answered before its time.
func fetchWaitOut(r *conform.R) {
	const wait = 60
	r.CreateTopic("a", 2)
	r.Quiet(produceOf(r, 9, data{"a", 0, ofSize(r, 100)}))
	for _, v := range waitVersions() {
		for _, c := range []struct {
			name  string
			bytes int32
			each  int32
			place from
		}{
			{"empty", 1, 1 << 20, from{"a", 1, 0}},
			{"at the end", 1, 1 << 20, from{"a", 0, 1}},
			{"too little", 101, 1 << 20, from{"a", 0, 0}},
			{"limit of the partition below the bytes", 1000, 10, from{"a", 0, 0}},
			{"at the end, partition limit 0", 1, 0, from{"a", 0, 1}},
		} {
			start := time.Now()
			req := waiting(fetchOf(r, v, c.place), wait, c.bytes)
			req.Topics[0].Partitions[0].PartitionMaxBytes = c.each
			r.Send(label(v, "%s", c.name), req)
			r.Note(label(v, "%s: waited", c.name), "%t", time.Since(start) > (wait-5)*time.Millisecond)
		}
	}
}

// fetchWoken waits for what comes.
func fetchWoken(r *conform.R) {
	for _, v := range waitVersions() {
		w := topicOf(v, "w")
		r.CreateTopic(w, 2)
		woken := func(what string, req *kmsg.FetchRequest, acts ...func()) {
			parked := r.Start("main", label(v, "%s", what), req)
			for i, act := range acts {
				r.Note(label(v, "%s, answered before act %d", what, i), "%t", parked.Within(notYet))
				act()
			}
			parked.Wait()
		}
		produce := func(acks int16, partition int32) func() {
			req := produceOf(r, 9, data{w, partition, ofSize(r, 100)})
			req.Acks = acks
			return func() { r.Quiet(req) }
		}
		woken("by a record", waiting(fetchOf(r, v, from{w, 0, 0}), longWait, 1), produce(-1, 0))
		woken("by a record with acks 1", waiting(fetchOf(r, v, from{w, 0, 1}), longWait, 1), produce(1, 0))
		woken("by the third record", waiting(fetchOf(r, v, from{w, 0, 2}), longWait, 250), produce(-1, 0), produce(-1, 0), produce(-1, 0))
		woken("by records of two partitions", waiting(fetchOf(r, v, from{w, 0, 5}, from{w, 1, 0}), longWait, 200), produce(-1, 0), produce(-1, 1))
		committed := waiting(fetchOf(r, v, from{w, 0, 6}), longWait, 1)
		committed.IsolationLevel = 1
		woken("by a committed record", committed, produce(-1, 0))
	}
}

// fetchSessionWoken waits in a session.
func fetchSessionWoken(r *conform.R) {
	for _, v := range []int16{7, 12, 13, 18} {
		w := topicOf(v, "w")
		r.CreateTopic(w, 2)
		id := openSession(r, label(v, "open"), fetchOf(r, v, from{w, 0, 0}, from{w, 1, 0}))
		for i := range int32(3) {
			req := session(waiting(fetchOf(r, v), longWait, 1), id, 2*i+1)
			parked := r.Start("main", label(v, "woken, %d", i), req)
			r.Note(label(v, "answered before, %d", i), "%t", parked.Within(notYet))
			r.Produce(w, i%2, "x")
			parked.Wait()
			r.Send(label(v, "forward, %d", i), session(fetchOf(r, v, from{w, i % 2, int64(i/2 + 1)}), id, 2*i+2))
		}
	}
}

// fetchPipelined sends more requests behind a Fetch that waits: answers keep the order.
func fetchPipelined(r *conform.R) {
	r.CreateTopic("a", 1)
	for i := range 3 {
		first := r.Start("main", label(12, "waits, %d", i), waiting(fetchOf(r, 12, from{"a", 0, int64(i)}), longWait, 1))
		second := r.Start("main", label(7, "behind it, %d", i), listOf(r, 7, -1, place{"a", 0}))
		third := r.Start("main", label(12, "behind both, %d", i), fetchOf(r, 12, from{"a", 0, 0}))
		r.Note(label(12, "answered before, %d", i), "%t", first.Within(notYet))
		r.Produce("a", 0, "x")
		first.Wait()
		second.Wait()
		third.Wait()
	}
}

// fetchOlderSegments waits for more than there is, but what there is stands in a segment
// that no record is added to any more: the answer comes at once.
func fetchOlderSegments(r *conform.R) {
	r.CreateTopic("a", 1, "segment.bytes", "1048576")
	much := func(offset int64, waitMs int32) *kmsg.FetchRequest {
		req := waiting(fetchOf(r, 12, from{"a", 0, offset}), waitMs, 10<<20)
		req.MaxBytes, req.Topics[0].Partitions[0].PartitionMaxBytes = 16<<20, 16<<20
		return req
	}
	parked := r.Start("main", "at the start of a segment that fills", much(0, longWait))
	for i := range 3 {
		r.Note(label(12, "answered before batch %d", i), "%t", parked.Within(notYet))
		r.Quiet(produceOf(r, 9, data{"a", 0, ofSize(r, 500_000)}))
	}
	parked.Wait()
	for _, offset := range []int64{0, 1} {
		r.Send(label(12, "in the older segment, offset %d", offset), much(offset, longWait))
	}
	start := time.Now()
	r.Send("in the last segment", much(2, 60))
	r.Note("in the last segment: waited", "%t", time.Since(start) > 55*time.Millisecond)
}
