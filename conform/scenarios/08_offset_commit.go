package scenarios

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func offsetCommit() []conform.Scenario {
	groups := []int16{9, 10, 42}
	return []conform.Scenario{
		{Name: "offset_commit/simple", Key: 8, Needs: groups, Run: commitSimple},
		{Name: "offset_commit/errors", Key: 8, Needs: groups, Run: commitErrors},
		{Name: "offset_commit/metadata", Key: 8, Needs: groups, Run: commitMetadata},
		{Name: "offset_commit/members", Key: 8, Needs: []int16{9, 10, 11, 13, 14, 42}, Run: commitMembers},
		{Name: "offset_commit/recreated", Key: 8, Needs: groups, Run: commitRecreated},
	}
}

// commitSimple commits from outside of groups, in every version, and reads back.
func commitSimple(r *conform.R) {
	r.CreateTopic("a", 2)
	r.CreateTopic("b", 2)
	r.OwnsGroup("g")
	awaitCoordinator(r, "g")
	for i, v := range conform.Versions(8) {
		offset := int64(10 * i)
		r.Send(label(v, "one"), commit(r, v, r.Name("g"), "a", 0, offset))
		two := commit(r, v, r.Name("g"), "a", 0, offset+1)
		two.Topics = append(two.Topics, commitTopic(r, v, "b", 1, offset+2))
		r.Send(label(v, "two topics"), two)
		twice := commit(r, v, r.Name("g"), "a", 0, offset+3)
		twice.Topics = append(twice.Topics, commitTopic(r, v, "a", 0, offset+4))
		r.Send(label(v, "the same twice"), twice)
		epoch := commit(r, v, r.Name("g"), "b", 0, offset+5)
		epoch.Topics[0].Partitions[0].LeaderEpoch = 7
		r.Send(label(v, "leader epoch"), epoch)
		kept := commit(r, v, r.Name("g"), "b", 0, offset+6)
		kept.RetentionTimeMillis = 5
		r.Send(label(v, "retention time"), kept)
		r.Send(label(v, "read back"), fetchOffsets(r, 7, r.Name("g"), "a", "b"))
	}
	for _, offset := range []int64{0, -1, -2, 1<<63 - 1, -1 << 63} {
		r.Send(label(9, "offset %d", offset), commit(r, 9, r.Name("g"), "a", 1, offset))
		r.Send(label(9, "read offset %d", offset), fetchOffsets(r, 7, r.Name("g"), "a"))
	}
}

// commitErrors commits what cannot be.
func commitErrors(r *conform.R) {
	r.CreateTopic("a", 2)
	r.OwnsGroup("g")
	awaitCoordinator(r, "g")
	for _, v := range conform.Versions(8) {
		r.Send(label(v, "unknown topic"), commit(r, v, r.Name("g"), "nope", 0, 1))
		r.Send(label(v, "unknown partition"), commit(r, v, r.Name("g"), "a", 2, 1))
		r.Send(label(v, "negative partition"), commit(r, v, r.Name("g"), "a", -1, 1))
		mixed := commit(r, v, r.Name("g"), "nope", 0, 1)
		mixed.Topics = append(mixed.Topics, commitTopic(r, v, "a", 1, 5), commitTopic(r, v, "a", 9, 5))
		r.Send(label(v, "good and bad"), mixed)
		none := commit(r, v, r.Name("g"), "a", 0, 1)
		none.Topics = nil
		r.Send(label(v, "no topics"), none)
		empty := commit(r, v, r.Name("g"), "a", 0, 1)
		empty.Topics[0].Partitions = nil
		r.Send(label(v, "no partitions"), empty)
		generation := commit(r, v, r.Name("g"), "a", 0, 1)
		generation.Generation = 3
		r.Send(label(v, "generation without member"), generation)
		stranger := commit(r, v, r.Name("none"), "a", 0, 1)
		stranger.Generation, stranger.MemberID = 0, "stranger"
		r.Send(label(v, "member of no group"), stranger)
		stranger = commit(r, v, r.Name("none"), "a", 0, 1)
		stranger.MemberID = "stranger"
		r.Send(label(v, "member without generation"), stranger)
	}
	r.Send("read back", fetchOffsets(r, 7, r.Name("g"), "a"))
}

// commitMetadata goes to the limit of offset.metadata.max.bytes.
func commitMetadata(r *conform.R) {
	r.CreateTopic("a", 2)
	r.OwnsGroup("g")
	awaitCoordinator(r, "g")
	text := func(n int) *string { s := strings.Repeat("m", n); return &s }
	for _, v := range conform.Versions(8) {
		r.Send(label(v, "null metadata"), commit(r, v, r.Name("g"), "a", 0, 1))
		for _, n := range []int{0, 1, 4096, 4097} {
			req := commit(r, v, r.Name("g"), "a", 0, 1)
			req.Topics[0].Partitions[0].Metadata = text(n)
			r.Send(label(v, "%d bytes", n), req)
		}
		mixed := commit(r, v, r.Name("g"), "a", 0, 2)
		mixed.Topics = append(mixed.Topics, commitTopic(r, v, "a", 1, 5))
		mixed.Topics[1].Partitions[0].Metadata = text(5000)
		r.Send(label(v, "one too long"), mixed)
		r.Send(label(v, "read back"), fetchOffsets(r, 7, r.Name("g"), "a"))
	}
}

// commitMembers commits as member, as stranger and as one of the past.
func commitMembers(r *conform.R) {
	r.CreateTopic("a", 2)
	awaitCoordinator(r, "g")
	m := newMember(r, "g", "m")
	m.doJoin("join", 9)
	r.Send("not a member, while syncing", commit(r, 9, r.Name("g"), "a", 0, 1))
	m.send("while syncing", m.commit(9, "a", 0, 1))
	m.send("sync", m.sync(5, m, "all"))
	for _, v := range conform.Versions(8) {
		m.send(label(v, "member"), m.commit(v, "a", 0, int64(v)))
		old := m.commit(v, "a", 0, 100)
		old.Generation--
		m.send(label(v, "old generation"), old)
		next := m.commit(v, "a", 0, 100)
		next.Generation++
		m.send(label(v, "next generation"), next)
		other := m.commit(v, "a", 0, 100)
		other.MemberID = "stranger"
		m.send(label(v, "stranger"), other)
		r.Send(label(v, "from outside"), commit(r, v, r.Name("g"), "a", 0, 100))
		instance := m.commit(v, "a", 0, 100)
		name := "instance"
		instance.InstanceID = &name
		m.send(label(v, "unknown instance"), instance)
	}
	r.Send("read back", fetchOffsets(r, 7, r.Name("g"), "a"))
	m.send("leave", leave(4, m.group, m))
	m.send("after leaving", m.commit(9, "a", 0, 1))
	r.Send("from outside of the empty group", commit(r, 9, r.Name("g"), "a", 1, 9))
	r.Send("read back from the empty group", fetchOffsets(r, 7, r.Name("g"), "a"))
}

// commitRecreated deletes a topic under its offsets, and makes it again.
func commitRecreated(r *conform.R) {
	r.CreateTopic("a", 2)
	r.CreateTopic("b", 2)
	r.OwnsGroup("g")
	awaitCoordinator(r, "g")
	both := commit(r, 9, r.Name("g"), "a", 0, 7)
	both.Topics = append(both.Topics, commitTopic(r, 9, "b", 0, 8))
	r.Send("commit", both)
	old := commit(r, 10, r.Name("g"), "a", 0, 9)
	r.DeleteTopic("a")
	r.Send("old id", old)
	r.Until("offsets deleted", func() kmsg.Request { return fetchOffsets(r, 7, r.Name("g"), "a") }, func(resp kmsg.Response) bool {
		return resp.(*kmsg.OffsetFetchResponse).Topics[0].Partitions[0].Offset == -1
	})
	r.Send("after deletion", fetchOffsets(r, 7, r.Name("g")))
	r.CreateTopic("a", 2)
	r.Send("old id, name exists again", old)
	r.Send("created again", fetchOffsets(r, 7, r.Name("g"), "a", "b"))
	r.Send("commit again", commit(r, 10, r.Name("g"), "a", 0, 1))
	r.Send("read by id", fetchOffsets(r, 10, r.Name("g"), "a", "b"))
}
