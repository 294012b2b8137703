package scenarios

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func offsetFetch() []conform.Scenario {
	groups := []int16{8, 10, 42}
	return []conform.Scenario{
		{Name: "offset_fetch/one_group", Key: 9, Needs: groups, Run: fetchOneGroup},
		{Name: "offset_fetch/groups", Key: 9, Needs: groups, Run: fetchGroups},
		{Name: "offset_fetch/members", Key: 9, Needs: []int16{8, 10, 11, 13, 14, 42}, Run: fetchMembers},
		{Name: "offset_delete/all", Key: 47, Needs: []int16{8, 9, 10, 11, 13, 14, 42}, Run: deleteGroupOffsets},
	}
}

func fetchOneGroup(r *conform.R) {
	r.CreateTopic("a", 2)
	r.CreateTopic("b", 2)
	r.OwnsGroup("g")
	awaitCoordinator(r, "g")
	r.Send("commit", commit(r, 9, r.Name("g"), "a", 1, 5))
	for _, v := range conform.Versions(9) {
		r.Send(label(v, "one topic"), fetchOffsets(r, v, r.Name("g"), "a"))
		r.Send(label(v, "two topics"), fetchOffsets(r, v, r.Name("g"), "b", "a"))
		r.Send(label(v, "unknown topic"), fetchOffsets(r, v, r.Name("g"), "nope"))
		r.Send(label(v, "the same twice"), fetchOffsets(r, v, r.Name("g"), "a", "a"))
		r.Send(label(v, "all topics"), fetchOffsets(r, v, r.Name("g")))
		none := fetchOffsets(r, v, r.Name("g"))
		none.Topics, none.Groups[0].Topics = []kmsg.OffsetFetchRequestTopic{}, []kmsg.OffsetFetchRequestGroupTopic{}
		r.Send(label(v, "no topics"), none)
		bad := fetchOffsets(r, v, r.Name("g"), "a")
		bad.Topics[0].Partitions, bad.Groups[0].Topics[0].Partitions = []int32{1, 7, -1, 1}, []int32{1, 7, -1, 1}
		r.Send(label(v, "unknown partitions"), bad)
		r.Send(label(v, "unknown group"), fetchOffsets(r, v, r.Name("none"), "a"))
		r.Send(label(v, "unknown group, all"), fetchOffsets(r, v, r.Name("none")))
		r.Send(label(v, "empty group id"), fetchOffsets(r, v, "", "a"))
		if v >= 7 {
			stable := fetchOffsets(r, v, r.Name("g"), "a")
			stable.RequireStable = true
			r.Send(label(v, "stable"), stable)
		}
	}
}

func fetchGroups(r *conform.R) {
	r.CreateTopic("a", 2)
	for _, g := range []string{"g", "h"} {
		r.OwnsGroup(g)
		awaitCoordinator(r, g)
	}
	awaitCoordinator(r, "none")
	r.Send("commit g", commit(r, 9, r.Name("g"), "a", 0, 5))
	r.Send("commit h", commit(r, 9, r.Name("h"), "a", 1, 6))
	for v := int16(8); v <= 10; v++ {
		req := fetchOffsets(r, v, r.Name("g"), "a")
		req.Groups = append(req.Groups, fetchOffsets(r, v, r.Name("h")).Groups...)
		req.Groups = append(req.Groups, fetchOffsets(r, v, r.Name("none"), "a").Groups...)
		r.Send(label(v, "three groups"), req)
		req = fetchOffsets(r, v, r.Name("g"), "a")
		req.Groups = append(req.Groups, fetchOffsets(r, v, "", "a").Groups...)
		r.Send(label(v, "one empty id"), req)
		req = fetchOffsets(r, v, r.Name("g"), "a")
		req.Groups = append(req.Groups, fetchOffsets(r, v, r.Name("g")).Groups...)
		r.Send(label(v, "the same twice"), req)
		req.Groups = nil
		r.Send(label(v, "no groups"), req)
	}
}

func fetchMembers(r *conform.R) {
	r.CreateTopic("a", 2)
	awaitCoordinator(r, "g")
	m := newMember(r, "g", "m")
	m.doJoin("join", 9)
	m.send("sync", m.sync(5, m, "all"))
	m.send("commit", m.commit(9, "a", 0, 3))
	for v := int16(9); v <= 10; v++ {
		for _, c := range []struct {
			what  string
			id    *string
			epoch int32
		}{{"none", nil, -1}, {"right", &m.id, m.gen}, {"wrong epoch", &m.id, m.gen + 1}, {"epoch without id", nil, 1}} {
			req := fetchOffsets(r, v, m.group, "a")
			req.Groups[0].MemberID, req.Groups[0].MemberEpoch = c.id, c.epoch
			m.send(label(v, "member %s", c.what), req)
		}
		stranger := "stranger"
		req := fetchOffsets(r, v, m.group, "a")
		req.Groups[0].MemberID, req.Groups[0].MemberEpoch = &stranger, 1
		m.send(label(v, "stranger"), req)
	}
	m.send("leave", leave(4, m.group, m))
}

func deleteGroupOffsets(r *conform.R) {
	r.CreateTopic("a", 2)
	r.CreateTopic("b", 2)
	r.OwnsGroup("g")
	awaitCoordinator(r, "g")
	del := func(group string, topics ...string) *kmsg.OffsetDeleteRequest {
		req := kmsg.NewPtrOffsetDeleteRequest()
		req.Group = group
		for _, name := range topics {
			t := kmsg.NewOffsetDeleteRequestTopic()
			t.Topic = r.Name(name)
			for p := range int32(3) {
				part := kmsg.NewOffsetDeleteRequestTopicPartition()
				part.Partition = p
				t.Partitions = append(t.Partitions, part)
			}
			req.Topics = append(req.Topics, t)
		}
		return req
	}
	r.Send("unknown group", del(r.Name("none"), "a"))
	r.Send("unknown group and topic", del(r.Name("none"), "nope"))
	r.Send("empty group id", del("", "a"))
	both := commit(r, 9, r.Name("g"), "a", 0, 7)
	both.Topics = append(both.Topics, commitTopic(r, 9, "b", 0, 8))
	r.Send("commit", both)
	r.Send("no topics", del(r.Name("g")))
	r.Send("unknown topic", del(r.Name("g"), "nope"))
	r.Send("one", del(r.Name("g"), "a"))
	r.Send("again", del(r.Name("g"), "a"))
	r.Send("read back", fetchOffsets(r, 7, r.Name("g")))
	r.Send("the last", del(r.Name("g"), "b", "a"))
	r.Send("after the last", del(r.Name("g"), "b"))
	r.Send("read back nothing", fetchOffsets(r, 7, r.Name("g")))
	m := newMember(r, "h", "m")
	awaitCoordinator(r, "h")
	join := m.join(5)
	join.Protocols = []kmsg.JoinGroupRequestProtocol{protocol("range", subscription(r, "a"))}
	m.learn(m.startJoin("join", join))
	join.MemberID = m.id
	m.learn(m.startJoin("join with id", join))
	m.send("sync", m.sync(3, m, "all"))
	m.send("commit as member", m.commit(9, "a", 0, 7))
	m.send("commit other as member", m.commit(9, "b", 0, 7))
	r.Send("subscribed", del(m.group, "a", "b"))
	m.send("leave", leave(4, m.group, m))
	r.Send("of the empty group", del(m.group, "a"))
}

// subscription is the metadata of a consumer that wants these topics.
func subscription(r *conform.R, topics ...string) string {
	m := kmsg.NewConsumerMemberMetadata()
	for _, t := range topics {
		m.Topics = append(m.Topics, r.Name(t))
	}
	return string(m.AppendTo(nil))
}
