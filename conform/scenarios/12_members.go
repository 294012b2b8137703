package scenarios

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

// shortly is how long a request is watched that must not be answered yet.
const shortly = 60 * time.Millisecond

// joinStatic is members with instance ids (KIP-345, KIP-814).
func joinStatic(r *conform.R) {
	awaitCoordinator(r, "g")
	a, b := newStatic(r, "g", "ann", "one"), newStatic(r, "g", "bob", "two")
	a.learn(a.startJoin("a joins", a.join(9)))
	a.send("a syncs", a.sync(5, a, "all"))
	again := newStatic(r, "g", "amy", "one")
	again.learn(again.startJoin("a's successor joins", again.join(9)))
	a.send("a heartbeats, fenced", a.heartbeat(4))
	a.send("a syncs, fenced", a.sync(5, a, "all"))
	a.send("a commits, fenced", a.commit(9, "nope", 0, 1))
	a.send("a joins with its old id, fenced", a.join(9))
	again.send("a's successor syncs", again.sync(5, again, "all"))
	again.send("a's successor heartbeats", again.heartbeat(4))
	joining := b.startJoin("b joins", b.join(9))
	awaitRebalance(again)
	again.learn(again.startJoin("a's successor joins for b", again.join(9)))
	b.learn(joining)
	again.send("a's successor syncs for both", again.sync(5, again, "for a", b, "for b"))
	b.send("b syncs", b.sync(5))
	describe(r, "two static members", "g")
	third := newStatic(r, "g", "ben", "two")
	third.learn(third.startJoin("b's successor joins", third.join(9)))
	third.send("b's successor syncs", third.sync(5))
	describe(r, "the same two", "g")
	wrong := leave(5, a.group, a)
	a.send("leave with the old id", wrong)
	nobody := leave(5, a.group, a)
	nobody.Members[0].MemberID = ""
	a.send("leave by instance alone", nobody)
	third.send("b's successor leaves", leave(5, third.group, third))
	describe(r, "empty", "g")
}

// joinStaticOld is a successor of a static leader before the answer could tell it to skip
// the assignment (v9).
func joinStaticOld(r *conform.R) {
	awaitCoordinator(r, "g")
	a := newStatic(r, "g", "ann", "one")
	a.learn(a.startJoin("a joins", a.join(5)))
	a.send("a syncs", a.sync(3, a, "all"))
	for _, v := range []int16{5, 6, 7, 8, 9} {
		next := newStatic(r, "g", "amy", "one")
		next.learn(next.startJoin(label(v, "successor joins"), next.join(v)))
		next.send(label(v, "successor syncs"), next.sync(syncVersion(v), next, "all"))
		changed := newStatic(r, "g", "amy", "one")
		req := changed.join(v)
		req.Protocols[0].Metadata = []byte{byte(v)}
		changed.learn(changed.startJoin(label(v, "successor joins with other metadata"), req))
		changed.send(label(v, "it syncs"), changed.sync(syncVersion(v), changed, "all"))
		a = changed
	}
	a.send("leaves", leave(5, a.group, a))
}

// joinSessions goes to the limits of the timeouts.
func joinSessions(r *conform.R) {
	for _, ms := range []int32{6_000, 1_800_000} {
		name := map[int32]string{6_000: "short", 1_800_000: "long"}[ms]
		awaitCoordinator(r, name)
		m := newMember(r, name, "m")
		m.session = ms
		m.doJoin(name+" joins", 9)
		m.send(name+" leaves", leave(5, m.group, m))
	}
	awaitCoordinator(r, "zero")
	m := newMember(r, "zero", "m")
	req := m.join(9)
	req.RebalanceTimeoutMillis = -1
	m.learn(m.startJoin("no rebalance timeout", req))
	req.MemberID = m.id
	m.learn(m.startJoin("no rebalance timeout, with id", req))
	r.Until("member expelled", func() kmsg.Request { return m.heartbeat(4) }, func(resp kmsg.Response) bool {
		return resp.(*kmsg.HeartbeatResponse).ErrorCode == 25
	})
	m.send("leaves, expelled", leave(5, m.group, m))
}

// joinExpiry is a member that does not come back within the rebalance timeout.
func joinExpiry(r *conform.R) {
	awaitCoordinator(r, "g")
	a, b := newMember(r, "g", "ann"), newMember(r, "g", "bob")
	req := a.join(9)
	req.RebalanceTimeoutMillis = 2_000 // within which b must sync, on a loaded machine, too
	a.learn(a.startJoin("a asks for an id", req))
	req.MemberID = a.id
	a.learn(a.startJoin("a joins", req))
	a.send("a syncs", a.sync(5, a, "all"))
	late := b.join(9)
	late.RebalanceTimeoutMillis = 2_000 // within which b must sync, on a loaded machine, too
	b.learn(b.startJoin("b asks for an id", late))
	late.MemberID = b.id
	b.learn(b.startJoin("b joins, a does not", late))
	a.send("a heartbeats, expelled", a.heartbeat(4))
	b.send("b syncs", b.sync(5, b, "all"))
	describe(r, "b alone", "g")
	b.send("b leaves", leave(5, b.group, b))
}

func syncErrors(r *conform.R) {
	awaitCoordinator(r, "g")
	m := newMember(r, "g", "m")
	for _, v := range conform.Versions(14) {
		m.gen, m.id = 1, "stranger"
		m.send(label(v, "unknown group"), m.sync(v))
		empty := m.sync(v)
		empty.Group = ""
		m.send(label(v, "empty group id"), empty)
	}
	m.id, m.gen = "", -1
	m.doJoin("join", 9)
	for _, v := range conform.Versions(14) {
		try := func(what string, edit func(*kmsg.SyncGroupRequest)) {
			req := m.sync(v, m, "all")
			edit(req)
			m.send(label(v, "%s", what), req)
		}
		try("old generation", func(q *kmsg.SyncGroupRequest) { q.Generation-- })
		try("next generation", func(q *kmsg.SyncGroupRequest) { q.Generation++ })
		try("stranger", func(q *kmsg.SyncGroupRequest) { q.MemberID = "stranger" })
		try("nobody", func(q *kmsg.SyncGroupRequest) { q.MemberID = "" })
		if v >= 3 {
			try("unknown instance", func(q *kmsg.SyncGroupRequest) { s := "i"; q.InstanceID = &s })
		}
		if v >= 5 {
			try("wrong type", func(q *kmsg.SyncGroupRequest) { s := "connect"; q.ProtocolType = &s })
			try("wrong protocol", func(q *kmsg.SyncGroupRequest) { s := "sticky"; q.Protocol = &s })
		}
	}
	m.send("without assignment", m.sync(5))
	for _, v := range conform.Versions(14) {
		m.send(label(v, "stable"), m.sync(v))
		wrong := m.sync(v)
		wrong.Generation++
		m.send(label(v, "stable, next generation"), wrong)
	}
	m.send("leave", leave(5, m.group, m))
	m.send("empty", m.sync(5))
}

// syncFollower is a follower that waits and is overtaken by another rebalance.
func syncFollower(r *conform.R) {
	awaitCoordinator(r, "g")
	a, b := newMember(r, "g", "ann"), newMember(r, "g", "bob")
	a.doJoin("a joins", 9)
	a.send("a syncs", a.sync(5, a, "all"))
	b.learn(b.startJoin("b asks for an id", b.join(9)))
	joining := b.startJoin("b joins", b.join(9))
	awaitRebalance(a)
	a.send("a syncs while rebalancing", a.sync(5, a, "all"))
	a.learn(a.startJoin("a joins again", a.join(9)))
	b.learn(joining)
	waiting := b.startSync("b syncs", b.sync(5))
	b.r.Note("b waits", "%v", !waiting.Within(shortly))
	a.send("a leaves", leave(5, a.group, a))
	waiting.Wait()
	b.learn(b.startJoin("b joins again", b.join(9)))
	assigned := b.sync(5, b, "for b")
	extra := kmsg.NewSyncGroupRequestGroupAssignment()
	extra.MemberID, extra.MemberAssignment = "stranger", []byte("x")
	assigned.GroupAssignment = append(assigned.GroupAssignment, extra)
	b.send("b assigns to a stranger, too", assigned)
	describe(r, "b alone", "g")
	b.send("b leaves", leave(5, b.group, b))
}

func heartbeatErrors(r *conform.R) {
	awaitCoordinator(r, "g")
	m := newMember(r, "g", "m")
	for _, v := range conform.Versions(12) {
		m.gen, m.id = 1, "stranger"
		m.send(label(v, "unknown group"), m.heartbeat(v))
		empty := m.heartbeat(v)
		empty.Group = ""
		m.send(label(v, "empty group id"), empty)
	}
	m.id, m.gen = "", -1
	m.doJoin("join", 9)
	m.send("sync", m.sync(5, m, "all"))
	for _, v := range conform.Versions(12) {
		try := func(what string, edit func(*kmsg.HeartbeatRequest)) {
			req := m.heartbeat(v)
			edit(req)
			m.send(label(v, "%s", what), req)
		}
		try("right", func(*kmsg.HeartbeatRequest) {})
		try("old generation", func(q *kmsg.HeartbeatRequest) { q.Generation-- })
		try("next generation", func(q *kmsg.HeartbeatRequest) { q.Generation++ })
		try("stranger", func(q *kmsg.HeartbeatRequest) { q.MemberID = "stranger" })
		try("stranger of the next generation", func(q *kmsg.HeartbeatRequest) { q.MemberID = "stranger"; q.Generation++ })
		if v >= 3 {
			try("unknown instance", func(q *kmsg.HeartbeatRequest) { s := "i"; q.InstanceID = &s })
		}
	}
	m.send("leave", leave(5, m.group, m))
	m.send("empty", m.heartbeat(4))
}

func leaveErrors(r *conform.R) {
	awaitCoordinator(r, "g")
	m := newMember(r, "g", "m")
	for _, v := range conform.Versions(13) {
		m.id = "stranger"
		m.send(label(v, "unknown group"), leave(v, r.Name("none"), m))
		m.send(label(v, "empty group id"), leave(v, "", m))
		m.id = ""
		m.doJoin(label(v, "join"), 9)
		stranger := leave(v, m.group, m)
		stranger.MemberID = "stranger"
		stranger.Members[0].MemberID = "stranger"
		m.send(label(v, "stranger"), stranger)
		if v >= 3 {
			instance := leave(v, m.group, m)
			name := "i"
			instance.Members[0].InstanceID = &name
			m.send(label(v, "unknown instance"), instance)
			m.send(label(v, "no members"), leave(v, m.group))
		}
		m.send(label(v, "leave"), leave(v, m.group, m))
		m.send(label(v, "again"), leave(v, m.group, m))
	}
	pending := newMember(r, "g", "p")
	pending.learn(pending.startJoin("ask for an id", pending.join(9)))
	describe(r, "one pending", "g")
	pending.send("leave, pending", leave(5, pending.group, pending))
	describe(r, "none", "g")
}

// leaveBatch is an administrator that removes static members.
func leaveBatch(r *conform.R) {
	awaitCoordinator(r, "g")
	a, b := newStatic(r, "g", "ann", "one"), newStatic(r, "g", "bob", "two")
	a.learn(a.startJoin("a joins", a.join(9)))
	a.send("a syncs", a.sync(5, a, "all"))
	joining := b.startJoin("b joins", b.join(9))
	awaitRebalance(a)
	a.learn(a.startJoin("a joins again", a.join(9)))
	b.learn(joining)
	a.send("a syncs for both", a.sync(5, a, "for a", b, "for b"))
	req := leave(5, a.group, a, b, a)
	for i := range req.Members {
		reason := "by hand"
		req.Members[i].MemberID, req.Members[i].Reason = "", &reason
	}
	name := "three"
	req.Members[2].InstanceID = &name
	r.Send("remove one, two and three", req)
	describe(r, "empty", "g")
}
