package scenarios

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func fetchSessions() []conform.Scenario {
	return []conform.Scenario{
		{Name: "fetch/session-life", Key: 1, Run: sessionLife},
		{Name: "fetch/session-epochs", Key: 1, Run: sessionEpochs},
		{Name: "fetch/session-forgotten", Key: 1, Run: sessionForgotten},
		{Name: "fetch/session-errors", Key: 1, Run: sessionErrors},
		{Name: "fetch/session-order", Key: 1, Run: sessionOrder},
		{Name: "fetch/session-changes", Key: 1, Run: sessionChanges},
		{Name: "fetch/session-connections", Key: 1, Run: sessionConnections},
		{Name: "fetch/session-names-and-ids", Key: 1, Run: sessionNamesAndIDs},
		{Name: "fetch/session-zero-id", Key: 1, Run: sessionZeroID},
		{Name: "fetch/session-isolation", Key: 1, Run: sessionIsolation},
		{Name: "fetch/session-ids-too-large", Key: 1, Run: sessionIDsTooLarge},
	}
}

// talk is a session that goes on epoch by epoch.
type talk struct {
	r       *conform.R
	version int16
	conn    string
	id      int32
	epoch   int32 // of the next request
}

// openTalk begins a session with a full Fetch of these places.
func openTalk(r *conform.R, version int16, what string, places ...from) *talk {
	return &talk{r: r, version: version, conn: "main", id: openSession(r, label(version, "%s", what), fetchOf(r, version, places...)), epoch: 1}
}

// goOn sends the session's next request, about these places only.
func (t *talk) goOn(what string, places ...from) {
	t.send(what, fetchOf(t.r, t.version, places...))
}

// send puts req into the session as its next request.
func (t *talk) send(what string, req *kmsg.FetchRequest) {
	t.r.SendOn(t.conn, label(t.version, "%s", what), session(req, t.id, t.epoch))
	t.epoch++
}

// at sends a request of the session with another epoch, which does not count.
func (t *talk) at(what string, epoch int32, places ...from) {
	t.r.SendOn(t.conn, label(t.version, "%s", what), session(fetchOf(t.r, t.version, places...), t.id, epoch))
}

// sessionVersions are the versions that have sessions.
func sessionVersions() []int16 { return conform.Versions(1)[3:] }

// sessionLife opens a session, reads forward in it, and closes it.
func sessionLife(r *conform.R) {
	for _, v := range sessionVersions() {
		a := topicOf(v, "a")
		r.CreateTopic(a, 3)
		r.Produce(a, 0, "x", "y")
		r.Produce(a, 1, "x")
		t := openTalk(r, v, "open", from{a, 0, 0}, from{a, 1, 0}, from{a, 2, 0})
		t.goOn("the same again")
		t.goOn("forward in both", from{a, 0, 2}, from{a, 1, 1})
		t.goOn("nothing new")
		r.Produce(a, 1, "z")
		t.goOn("something new")
		t.goOn("not read yet")
		t.goOn("forward", from{a, 1, 2})
		t.goOn("nothing new again")
		t.at("close", -1)
		t.at("closed", t.epoch)
		t.at("close again", -1)
		t.at("full fetch with the id of a closed session", 0, from{a, 0, 0})
	}
}

// sessionEpochs sends epochs that are not the next one.
func sessionEpochs(r *conform.R) {
	for _, v := range sessionVersions() {
		a := topicOf(v, "a")
		r.CreateTopic(a, 2)
		r.Produce(a, 0, "x")
		t := openTalk(r, v, "open", from{a, 0, 0})
		t.at("epoch 2 instead of 1", 2)
		t.at("largest epoch", 1<<31-1)
		t.at("epoch -2", -2)
		t.goOn("epoch 1 after all")
		t.at("epoch 1 again", 1)
		t.goOn("epoch 2")
		t.at("full fetch of another partition with the id", 0, from{a, 1, 0})
		t.goOn("the old session")
		t.at("close it, reading", -1, from{a, 0, 0})
		for _, c := range []struct {
			name      string
			id, epoch int32
		}{
			{"id 0, epoch -2", 0, -2},
			{"id 0, epoch 5", 0, 5},
			{"id -1, epoch 0", -1, 0},
			{"id -1, epoch 1", -1, 1},
			{"unknown id, epoch 0", 99, 0},
			{"unknown id, epoch 3", 99, 3},
			{"unknown id, epoch -1", 99, -1},
			{"id -99, epoch 1", -99, 1},
		} {
			r.Send(label(v, "%s", c.name), session(fetchOf(r, v, from{a, 0, 0}), c.id, c.epoch))
			r.Send(label(v, "%s, no partitions", c.name), session(fetchOf(r, v), c.id, c.epoch))
		}
	}
}

// sessionForgotten takes partitions out of a session.
func sessionForgotten(r *conform.R) {
	for _, v := range fetchVersions()[1:] {
		a := topicOf(v, "a")
		r.CreateTopic(a, 3)
		for p := range int32(3) {
			r.Produce(a, p, "x")
		}
		t := openTalk(r, v, "open", from{a, 0, 0}, from{a, 1, 0}, from{a, 2, 0})
		forgetting := func(what string, places []from, gone ...place) {
			req := fetchOf(r, v, places...)
			forget(r, req, gone...)
			t.send(what, req)
		}
		forgetting("forget one", nil, place{a, 1})
		t.goOn("two are left")
		forgetting("forget one that is added", []from{{a, 1, 0}}, place{a, 1})
		forgetting("forget one that is moved", []from{{a, 0, 1}}, place{a, 0})
		t.goOn("what is left")
		forgetting("forget those that are not there", nil, place{a, 1}, place{a, 9}, place{"nope", 0})
		forgetting("forget all", nil, place{a, 0}, place{a, 1}, place{a, 2})
		t.goOn("an empty session")
		t.goOn("one anew", from{a, 2, 0})
		full := fetchOf(r, v, from{a, 0, 0}, from{a, 1, 0})
		forget(r, full, place{a, 1})
		r.Send(label(v, "forget in a full fetch"), session(full, 0, 0))
		single := fetchOf(r, v, from{a, 0, 0}, from{a, 1, 0})
		forget(r, single, place{a, 1})
		r.Send(label(v, "forget outside of a session"), single)
	}
}

// sessionErrors keeps partitions in a session that cannot be read.
func sessionErrors(r *conform.R) {
	for _, v := range fetchVersions()[1:] {
		a, later := topicOf(v, "a"), topicOf(v, "later")
		r.CreateTopic(a, 1)
		r.Produce(a, 0, "x")
		t := openTalk(r, v, "open", from{a, 0, 1}, from{a, 7, 0}, from{"nope", 0, 0})
		t.goOn("errors again")
		t.goOn("out of range", from{a, 0, 9})
		t.goOn("out of range again")
		t.goOn("in range", from{a, 0, 1})
		t.goOn("nothing new")
		fenced := fetchOf(r, v, from{a, 0, 1})
		fenced.Topics[0].Partitions[0].CurrentLeaderEpoch = 4
		t.send("unknown leader epoch", fenced)
		t.goOn("unknown leader epoch again")
		t.goOn("no leader epoch", from{a, 0, 1})
		diverging := fetchOf(r, v, from{a, 0, 1})
		diverging.Topics[0].Partitions[0].LastFetchedEpoch = 3
		t.send("last epoch 3", diverging)
		t.goOn("last epoch 3 again")
		t = openTalk(r, v, "of a topic that comes later", from{later, 0, 0})
		t.goOn("not yet")
		r.CreateTopic(later, 1)
		t.goOn("now")
		r.Produce(later, 0, "x")
		t.goOn("with a record")
	}
}

// sessionOrder has more to read than an answer may hold: whoever was read goes last.
func sessionOrder(r *conform.R) {
	for _, v := range fetchVersions()[1:] {
		a := topicOf(v, "a")
		r.CreateTopic(a, 3)
		for p := range int32(3) {
			r.Quiet(produceOf(r, 9, data{a, p, ofSize(r, 100)}))
		}
		t := openTalk(r, v, "open", from{a, 0, 0}, from{a, 1, 0}, from{a, 2, 0})
		for i, n := range []int32{1, 1, 1, 1, 200, 200, 1 << 20} {
			req := fetchOf(r, v)
			req.MaxBytes = n
			t.send(label(0, "%d: %d bytes", i, n), req)
		}
		req := fetchOf(r, v, from{a, 1, 1})
		req.MaxBytes = 1
		t.send("one forward, 1 byte", req)
		req = fetchOf(r, v, from{a, 2, 0}, from{a, 0, 0})
		req.MaxBytes = 150
		t.send("two named again in another order", req)
		t.goOn("all")
	}
}

// sessionChanges lets what a partition answers change between requests: high watermark,
// log start, limits of the partition.
func sessionChanges(r *conform.R) {
	for _, v := range fetchVersions()[1:] {
		a := topicOf(v, "a")
		r.CreateTopic(a, 2)
		t := openTalk(r, v, "open", from{a, 0, 0}, from{a, 1, 0})
		small := fetchOf(r, v, from{a, 0, 0})
		small.Topics[0].Partitions[0].PartitionMaxBytes = 1
		t.send("limit of 1 byte, nothing there", small)
		r.Produce(a, 0, "x")
		r.Produce(a, 0, "y")
		t.goOn("limit is kept")
		t.goOn("forward, limit raised", from{a, 0, 1})
		r.Produce(a, 1, "x")
		zero := fetchOf(r, v)
		zero.MaxBytes = 0
		t.send("0 bytes in all", zero)
		t.goOn("at the ends", from{a, 0, 2}, from{a, 1, 1})
		t.goOn("nothing new")
		started := fetchOf(r, v, from{a, 0, 2})
		started.Topics[0].Partitions[0].LogStartOffset = 1
		t.send("another log start of the follower", started)
		t.goOn("nothing new again")
		t.goOn("back to the begin", from{a, 0, 0}, from{a, 1, 0})
		t.goOn("a partition twice", from{a, 0, 0}, from{a, 0, 1})
		t.goOn("which offset is kept")
	}
}

// sessionConnections uses a session from several connections, some of which end.
func sessionConnections(r *conform.R) {
	for _, v := range []int16{7, 11, 12, 13, 16, 18} {
		a := topicOf(v, "a")
		r.CreateTopic(a, 1)
		r.Produce(a, 0, "x")
		t := openTalk(r, v, "open", from{a, 0, 0})
		t.conn = "other"
		t.goOn("from another connection")
		r.Disconnect("main")
		t.goOn("the first connection has ended")
		r.Disconnect("other")
		t.goOn("on a new connection")
		r.ClientID(nil)
		t.goOn("without client id")
		r.ClientID(of("conform"))
	}
}

// sessionNamesAndIDs mixes versions that name topics with those that identify them.
func sessionNamesAndIDs(r *conform.R) {
	r.CreateTopic("a", 1)
	r.Produce("a", 0, "x")
	byName := openTalk(r, 12, "by name", from{"a", 0, 0})
	byID := openTalk(r, 13, "by id", from{"a", 0, 0})
	byName.version, byID.version = 13, 12
	byName.at("then by id", 1)
	byID.at("then by name", 1)
	byName.at("then by id, with a partition", 1, from{"a", 0, 0})
	byID.at("then by name, with a partition", 1, from{"a", 0, 0})
	byName.version, byID.version = 7, 18
	byName.goOn("by name, other version")
	byID.goOn("by id, other version")
	byName.version, byID.version = 18, 7
	byName.at("closed by the other kind", -1)
	byID.at("closed by the other kind of request", -1)
	byName.version, byID.version = 12, 13
	byName.goOn("by name, closed")
	byID.goOn("by id, closed")
}

// sessionZeroID names no topic within sessions.
func sessionZeroID(r *conform.R) {
	r.CreateTopic("a", 1)
	r.Produce("a", 0, "x")
	for _, v := range []int16{13, 18} {
		openTalk(r, v, "zero id and a topic", from{"", 0, 0}, from{"a", 0, 0})
		openTalk(r, v, "zero id alone", from{"", 0, 0})
		t := openTalk(r, v, "a topic", from{"a", 0, 0})
		t.goOn("zero id later", from{"", 0, 0})
		t.goOn("what of it")
		forgetting := fetchOf(r, v)
		forget(r, forgetting, place{"", 0})
		t.send("zero id forgotten", forgetting)
		t.goOn("at the end")
	}
}

// sessionIsolation sends levels that do not exist, and changes the level.
func sessionIsolation(r *conform.R) {
	r.CreateTopic("a", 1)
	r.Produce("a", 0, "x")
	for _, v := range []int16{7, 12, 13, 18} {
		t := openTalk(r, v, "open", from{"a", 0, 0})
		leveled := func(what string, level int8) {
			req := fetchOf(r, v)
			req.IsolationLevel = level
			t.send(what, req)
		}
		leveled("committed", 1)
		leveled("level 3", 3)
		leveled("uncommitted", 0)
		t.epoch--
		leveled("uncommitted, an epoch before", 0)
		full := fetchOf(r, v, from{"a", 0, 0})
		full.IsolationLevel = 3
		r.Send(label(v, "level 3, full"), session(full, 0, 0))
		r.Send(label(v, "level 3, full with an id"), session(full, t.id, 0))
		r.Send(label(v, "level 3, closing"), session(full, t.id, -1))
	}
}

// sessionIDsTooLarge uses ids for which Kafka has no shard of its cache.
func sessionIDsTooLarge(r *conform.R) {
	r.Ignore("SessionID", "Topics")
	for _, v := range []int16{7, 12, 13, 18} {
		for _, id := range []int32{1<<31 - 1, -1 << 31} {
			for _, epoch := range []int32{0, 1, -1} {
				r.Send(label(v, "id %d, epoch %d", id, epoch), session(fetchOf(r, v), id, epoch))
			}
		}
	}
}
