package scenarios

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func fetchTopics() []conform.Scenario {
	return []conform.Scenario{
		{Name: "fetch/recreated-topic", Key: 1, Run: fetchRecreated},
		{Name: "fetch/recreated-topic-in-session", Key: 1, Run: fetchSessionRecreated},
		{Name: "fetch/deleted-topic-while-waiting", Key: 1, Run: fetchDeletedWhileWaiting},
		{Name: "fetch/deleted-topic-beside-another", Key: 1, Run: fetchDeletedBeside},
		{Name: "fetch/truncation", Key: 1, Needs: []int16{21}, Run: fetchTruncated},
		{Name: "fetch/internal-topics", Key: 1, Needs: []int16{10}, Run: fetchInternal},
	}
}

// topicOf is the name of a topic of its own for each version.
func topicOf(version int16, name string) string { return fmt.Sprintf("%s%d", name, version) }

// byID puts id in place of the id of the first topic.
func byID(req *kmsg.FetchRequest, id [16]byte) *kmsg.FetchRequest {
	req.Topics[0].TopicID = id
	return req
}

// fetchRecreated reads a topic before and after it is deleted, and when there is another
// of its name.
func fetchRecreated(r *conform.R) {
	r.CreateTopic("a", 2)
	r.Produce("a", 0, "x", "y")
	old := r.TopicID("a")
	read := func(what string) {
		for _, v := range []int16{4, 7, 12, 13, 15, 16, 18} {
			r.Send(label(v, "%s, offset 0", what), byID(fetchOf(r, v, from{"a", 0, 0}), old))
			r.Send(label(v, "%s, offset 2", what), byID(fetchOf(r, v, from{"a", 0, 2}), old))
			r.Send(label(v, "%s, partition 1", what), byID(fetchOf(r, v, from{"a", 1, 0}), old))
		}
	}
	read("before")
	r.DeleteTopic("a")
	read("deleted")
	r.CreateTopic("a", 1)
	read("recreated")
	r.Produce("a", 0, "z")
	old = r.TopicID("a")
	read("recreated, by its own id")
}

// session puts a Fetch into a session.
func session(req *kmsg.FetchRequest, id, epoch int32) *kmsg.FetchRequest {
	req.SessionID, req.SessionEpoch = id, epoch
	return req
}

// openSession sends a full Fetch and returns the id of its new session.
func openSession(r *conform.R, what string, req *kmsg.FetchRequest) int32 {
	return openSessionOn(r, "main", what, req)
}

func openSessionOn(r *conform.R, conn, what string, req *kmsg.FetchRequest) int32 {
	resp, _ := r.SendOn(conn, what, session(req, 0, 0)).(*kmsg.FetchResponse)
	if resp == nil {
		return 0
	}
	return resp.SessionID
}

// fetchSessionRecreated keeps a session while one of its topics is deleted and recreated.
func fetchSessionRecreated(r *conform.R) {
	for _, v := range []int16{7, 11, 12, 13, 16, 18} {
		d, e := topicOf(v, "d"), topicOf(v, "e")
		r.CreateTopic(d, 2)
		r.CreateTopic(e, 1)
		r.Produce(d, 0, "x", "y")
		r.Produce(e, 0, "x")
		id := openSession(r, label(v, "open"), fetchOf(r, v, from{d, 0, 0}, from{d, 1, 0}, from{e, 0, 1}))
		next := int32(1)
		goOn := func(what string, req *kmsg.FetchRequest) {
			r.Send(label(v, "%s", what), session(req, id, next))
			next++
		}
		r.DeleteTopic(d)
		goOn("deleted", fetchOf(r, v))
		goOn("deleted, once more", fetchOf(r, v))
		old := r.TopicID(d)
		r.CreateTopic(d, 1)
		r.Produce(d, 0, "a", "b", "c")
		goOn("recreated", fetchOf(r, v))
		goOn("recreated, once more", fetchOf(r, v))
		goOn("its partition again", fetchOf(r, v, from{d, 0, 0}))
		goOn("nothing new", fetchOf(r, v))
		forgetting := fetchOf(r, v)
		forget(r, forgetting, place{d, 0}, place{d, 1})
		forgetting.ForgottenTopics[0].TopicID, forgetting.ForgottenTopics[1].TopicID = old, old
		goOn("the old one forgotten", forgetting)
		r.Produce(d, 0, "d")
		goOn("a new record", fetchOf(r, v))
		other := int16(13)
		if v >= 13 {
			other = 12
		}
		r.Send(label(v, "by names instead of ids, or the other way round"), session(fetchOf(r, other), id, next))
		goOn("still there", fetchOf(r, v))
	}
}

// fetchDeletedWhileWaiting deletes a topic that a Fetch waits for.
func fetchDeletedWhileWaiting(r *conform.R) {
	for _, v := range []int16{4, 11, 12, 13, 15, 18} {
		x, y := topicOf(v, "x"), topicOf(v, "y")
		r.CreateTopic(x, 1)
		r.CreateTopic(y, 1)
		parked := r.Start("main", label(v, "deleted while waiting"), waiting(fetchOf(r, v, from{x, 0, 0}), longWait, 1))
		r.Note(label(v, "answered at once"), "%t", parked.Within(notYet))
		r.DeleteTopic(x)
		parked.Wait()
		r.Send(label(v, "after that"), fetchOf(r, v, from{x, 0, 0}))
		if v < 7 {
			continue
		}
		id := openSession(r, label(v, "open"), fetchOf(r, v, from{y, 0, 0}))
		parked = r.Start("main", label(v, "session, deleted while waiting"), session(waiting(fetchOf(r, v), longWait, 1), id, 1))
		r.Note(label(v, "session answered at once"), "%t", parked.Within(notYet))
		r.DeleteTopic(y)
		parked.Wait()
		r.Send(label(v, "session, after that"), session(fetchOf(r, v), id, 2))
	}
}

// fetchDeletedBeside waits for two topics of which one is deleted.
func fetchDeletedBeside(r *conform.R) {
	for _, v := range []int16{11, 12, 13, 18} {
		x, y := topicOf(v, "x"), topicOf(v, "y")
		r.CreateTopic(x, 1)
		r.CreateTopic(y, 1)
		parked := r.Start("main", label(v, "one of two is deleted"), waiting(fetchOf(r, v, from{x, 0, 0}, from{y, 0, 0}), longWait, 1))
		id := openSessionOn(r, "other", label(v, "open"), fetchOf(r, v, from{x, 0, 0}, from{y, 0, 0}))
		inSession := r.Start("other", label(v, "one of two in a session"), session(waiting(fetchOf(r, v), longWait, 1), id, 1))
		r.Note(label(v, "answered at once"), "%t", parked.Within(notYet))
		r.DeleteTopic(x)
		parked.Wait()
		inSession.Wait()
	}
}

// fetchTruncated deletes records that a session and others are about to read.
func fetchTruncated(r *conform.R) {
	for _, v := range []int16{4, 7, 12, 13, 18} {
		a := topicOf(v, "a")
		r.CreateTopic(a, 1)
		r.Produce(a, 0, "a", "b", "c")
		r.Produce(a, 0, "d", "e", "f")
		id := int32(0)
		if v >= 7 {
			id = openSession(r, label(v, "open"), fetchOf(r, v, from{a, 0, 6}))
		}
		r.Send(label(v, "delete up to 4"), deleteOf(r, 2, 4, place{a, 0}))
		for _, offset := range []int64{0, 3, 4, 5, 6, 7} {
			r.Send(label(v, "offset %d", offset), fetchOf(r, v, from{a, 0, offset}))
		}
		if v >= 7 {
			r.Send(label(v, "session"), session(fetchOf(r, v), id, 1))
			r.Send(label(v, "session, once more"), session(fetchOf(r, v), id, 2))
			r.Send(label(v, "session, deleted offset"), session(fetchOf(r, v, from{a, 0, 2}), id, 3))
			r.Send(label(v, "session, deleted offset once more"), session(fetchOf(r, v), id, 4))
		}
	}
}

// fetchInternal reads the topic of the group coordinators.
func fetchInternal(r *conform.R) {
	const internal = "=__consumer_offsets"
	awaitCoordinator(r, "g")
	r.LearnTopic(internal)
	for _, v := range conform.Versions(1) {
		req := fetchOf(r, v, from{internal, 5000, 0})
		r.Send(label(v, "internal topic, unknown partition"), req)
	}
}
