package scenarios

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func classicGroups() []conform.Scenario {
	group := []int16{8, 9, 10, 11, 12, 13, 14, 15, 42}
	var all []conform.Scenario
	for _, v := range conform.Versions(11) {
		all = append(all,
			conform.Scenario{Name: label(v, "life")[1:], Key: 11, Needs: group, Run: func(r *conform.R) { joinLife(r, v) }},
			conform.Scenario{Name: label(v, "pair")[1:], Key: 11, Needs: group, Run: func(r *conform.R) { joinPair(r, v) }},
		)
	}
	for i := range all {
		all[i].Name = "join_group/v" + all[i].Name
	}
	return append(all,
		conform.Scenario{Name: "join_group/errors", Key: 11, Needs: group, Run: joinErrors},
		conform.Scenario{Name: "join_group/protocols", Key: 11, Needs: group, Run: joinProtocols},
		conform.Scenario{Name: "join_group/rejoin", Key: 11, Needs: group, Run: joinAgain},
		conform.Scenario{Name: "join_group/static", Key: 11, Needs: group, Run: joinStatic},
		conform.Scenario{Name: "join_group/static_old", Key: 11, Needs: group, Run: joinStaticOld},
		conform.Scenario{Name: "join_group/sessions", Key: 11, Needs: group, Run: joinSessions},
		conform.Scenario{Name: "join_group/expiry", Key: 11, Needs: group, Run: joinExpiry},
		conform.Scenario{Name: "sync_group/errors", Key: 14, Needs: group, Run: syncErrors},
		conform.Scenario{Name: "sync_group/follower", Key: 14, Needs: group, Run: syncFollower},
		conform.Scenario{Name: "heartbeat/errors", Key: 12, Needs: group, Run: heartbeatErrors},
		conform.Scenario{Name: "leave_group/errors", Key: 13, Needs: group, Run: leaveErrors},
		conform.Scenario{Name: "leave_group/batch", Key: 13, Needs: group, Run: leaveBatch},
	)
}

// versions of the other calls that a client of JoinGroup v would use.
func syncVersion(v int16) int16  { return min(v, 5) }
func beatVersion(v int16) int16  { return min(v, 4) }
func leaveVersion(v int16) int16 { return min(v, 5) }

// joinLife is the life of a group of one.
func joinLife(r *conform.R, v int16) {
	r.CreateTopic("a", 2)
	awaitCoordinator(r, "g")
	m := newMember(r, "g", "m")
	m.doJoin("join", v)
	m.send("heartbeat before sync", m.heartbeat(beatVersion(v)))
	m.send("sync", m.sync(syncVersion(v), m, "all"))
	m.send("sync again", m.sync(syncVersion(v), m, "other"))
	m.send("heartbeat", m.heartbeat(beatVersion(v)))
	m.send("commit", m.commit(min(max(v, 2), 9), "a", 0, 4))
	describe(r, "stable", "g")
	m.learn(m.startJoin("join again, same", m.join(v)))
	m.send("sync as leader again", m.sync(syncVersion(v), m, "all"))
	m.send("leave", leave(leaveVersion(v), m.group, m))
	describe(r, "empty", "g")
	m.send("heartbeat after leaving", m.heartbeat(beatVersion(v)))
	m.send("leave again", leave(leaveVersion(v), m.group, m))
	m.learn(m.startJoin("join with the old id", m.join(v)))
	r.Send("offsets", fetchOffsets(r, 7, m.group, "a"))
}

// joinPair lets a second member in and out again.
func joinPair(r *conform.R, v int16) {
	awaitCoordinator(r, "g")
	a, b := newMember(r, "g", "ann"), newMember(r, "g", "bob")
	a.doJoin("a joins", v)
	a.send("a syncs", a.sync(syncVersion(v), a, "all"))
	joining := b.startJoin("b joins", b.join(v))
	if v >= 4 {
		b.learn(joining)
		joining = b.startJoin("b joins with id", b.join(v))
	}
	awaitRebalance(a)
	a.send("a heartbeats", a.heartbeat(beatVersion(v)))
	a.send("a commits", a.commit(8, "nope", 0, 1))
	describe(r, "rebalancing", "g")
	a.learn(a.startJoin("a joins again", a.join(v)))
	b.learn(joining)
	waiting := b.startSync("b syncs", b.sync(syncVersion(v)))
	b.r.Note("b waits for the leader", "%v", !waiting.Within(shortly))
	a.send("a syncs as leader", a.sync(syncVersion(v), a, "for a", b, "for b"))
	waiting.Wait()
	describe(r, "two", "g")
	b.send("b leaves", leave(leaveVersion(v), b.group, b))
	a.send("a heartbeats after", a.heartbeat(beatVersion(v)))
	a.learn(a.startJoin("a joins alone", a.join(v)))
	a.send("a syncs alone", a.sync(syncVersion(v), a, "all"))
	a.send("a leaves", leave(leaveVersion(v), a.group, a))
}

// awaitRebalance waits until a member's heartbeat tells of a rebalance.
func awaitRebalance(m *member) {
	m.r.Until("rebalance", func() kmsg.Request { return m.heartbeat(4) }, func(resp kmsg.Response) bool {
		return resp.(*kmsg.HeartbeatResponse).ErrorCode == 27
	})
}

func joinErrors(r *conform.R) {
	awaitCoordinator(r, "g")
	for _, v := range conform.Versions(11) {
		m := newMember(r, "g", "m")
		try := func(what string, edit func(*kmsg.JoinGroupRequest)) {
			req := m.join(v)
			edit(req)
			m.send(label(v, "%s", what), req)
		}
		try("empty group id", func(q *kmsg.JoinGroupRequest) { q.Group = "" })
		try("session too short", func(q *kmsg.JoinGroupRequest) { q.SessionTimeoutMillis = 5_999 })
		try("session too long", func(q *kmsg.JoinGroupRequest) { q.SessionTimeoutMillis = 1_800_001 })
		try("session negative", func(q *kmsg.JoinGroupRequest) { q.SessionTimeoutMillis = -1 })
		try("unknown member", func(q *kmsg.JoinGroupRequest) { q.MemberID = "stranger" })
		try("no protocols", func(q *kmsg.JoinGroupRequest) { q.Protocols = nil })
		try("no protocol type", func(q *kmsg.JoinGroupRequest) { q.ProtocolType = "" })
		try("session too short and no protocols", func(q *kmsg.JoinGroupRequest) { q.SessionTimeoutMillis, q.Protocols = 1, nil })
		if v >= 5 {
			try("empty instance", func(q *kmsg.JoinGroupRequest) { q.InstanceID = new(string) })
			try("unknown member with instance", func(q *kmsg.JoinGroupRequest) {
				name := "i"
				q.MemberID, q.InstanceID = "stranger", &name
			})
		}
	}
	describe(r, "nothing came of it", "g")
}

// joinProtocols tries which protocols and types go together.
func joinProtocols(r *conform.R) {
	awaitCoordinator(r, "g")
	a, b := newMember(r, "g", "ann"), newMember(r, "g", "bob")
	join := func(m *member, protocols ...string) *kmsg.JoinGroupRequest {
		req := m.join(9)
		req.Protocols = nil
		for _, name := range protocols {
			req.Protocols = append(req.Protocols, protocol(name, m.name+" "+name))
		}
		return req
	}
	a.learn(a.startJoin("a asks for an id", join(a, "x", "y")))
	a.learn(a.startJoin("a joins", join(a, "x", "y")))
	sync := a.sync(5, a, "all")
	a.send("wrong protocol in sync", sync)
	wrong := "other"
	sync.ProtocolType = &wrong
	a.send("wrong protocol type in sync", sync)
	sync.ProtocolType, sync.Protocol = nil, nil
	a.send("no protocol in sync", sync)
	b.send("nothing in common", join(b, "z"))
	other := join(b, "x")
	other.ProtocolType = "connect"
	b.send("other type", other)
	b.learn(b.startJoin("b asks for an id", join(b, "y", "x")))
	b.send("nothing in common with id", join(b, "z"))
	joining := b.startJoin("b joins", join(b, "y"))
	awaitRebalance(a)
	a.learn(a.startJoin("a joins again", join(a, "x", "y")))
	b.learn(joining)
	describe(r, "completing", "g")
	a.send("a leaves", leave(5, a.group, a))
	awaitRebalance(b)
	b.learn(b.startJoin("b joins alone", join(b, "y", "w")))
	b.send("b leaves", leave(5, b.group, b))
}

// joinAgain is a member that repeats itself.
func joinAgain(r *conform.R) {
	awaitCoordinator(r, "g")
	a, b := newMember(r, "g", "ann"), newMember(r, "g", "bob")
	a.doJoin("a joins", 9)
	a.learn(a.startJoin("a joins again, while syncing", a.join(9)))
	changed := a.join(9)
	changed.Protocols[0].Metadata = []byte("changed")
	a.learn(a.startJoin("a joins with other metadata, while syncing", changed))
	a.send("a syncs", a.sync(5, a, "all"))
	a.learn(a.startJoin("a joins with other metadata", a.join(9)))
	a.send("a syncs again", a.sync(5, a, "all"))
	b.learn(b.startJoin("b asks for an id", b.join(9)))
	describe(r, "pending member", "g")
	joining := b.startJoin("b joins", b.join(9))
	awaitRebalance(a)
	a.learn(a.startJoin("a joins for b", a.join(9)))
	b.learn(joining)
	b.learn(b.startJoin("b joins again, while syncing", b.join(9)))
	a.send("a syncs for both", a.sync(5, a, "for a", b, "for b"))
	b.send("b syncs after", b.sync(5))
	b.learn(b.startJoin("b joins again, stable and no leader", b.join(9)))
	b.send("b leaves", leave(5, b.group, b))
	a.send("a leaves", leave(5, a.group, a))
	describe(r, "empty", "g")
}

func describe(r *conform.R, what, group string) {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Version, req.Groups = 6, []string{r.Name(group)}
	r.Ignore("Groups.Members.ClientHost")
	r.Send("describe: "+what, req)
}
